import { X } from 'lucide-react'
import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from 'react'
import { useI18n } from '@/i18n'
import { ErrorNote } from './feedback'

/** A modal dialog of the browser: it holds the focus, and Esc closes it. */
export function Dialog({ open, onClose, label, className = '', children }: { open: boolean; onClose(): void; label: string; className?: string; children: ReactNode }) {
  const ref = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const dialog = ref.current
    if (dialog === null) return
    if (open && !dialog.open) dialog.showModal()
    if (!open && dialog.open) dialog.close()
  }, [open])
  if (!open) return null
  return (
    <dialog
      ref={(node) => {
        ref.current = node
        if (node !== null && !node.open) node.showModal()
      }}
      className={`dlg ${className}`}
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={(event) => event.target === event.currentTarget && onClose()}
      onKeyDown={(event) => event.stopPropagation()}
    >
      {children}
    </dialog>
  )
}

/** Asks before something is lost: it names the object and the consequence. */
export function Confirm({ title, children, action, typed, onConfirm, onClose }: {
  title: string
  children: ReactNode
  /** The words on the button: they name the effect. */
  action: string
  /** The name that must be typed before the button works. */
  typed?: string
  onConfirm(): Promise<unknown>
  onClose(): void
}) {
  const { t } = useI18n()
  const [text, setText] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const run = async () => {
    setBusy(true)
    setError(null)
    try {
      await onConfirm()
      onClose()
    } catch (failure) {
      setError(failure)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog open onClose={onClose} label={title}>
      <form
        className="in"
        onSubmit={(event) => {
          event.preventDefault()
          void run()
        }}
      >
        <h2>{title}</h2>
        <div className="soft">{children}</div>
        {typed !== undefined && (
          <div className="inp">
            <input className="mono" value={text} aria-label={typed} autoComplete="off" spellCheck={false} onChange={(event) => setText(event.target.value)} />
          </div>
        )}
        {error !== null && <ErrorNote error={error} />}
        <div className="acts">
          <button type="button" className="btn ghost" onClick={onClose}>
            {t('common.cancel')}
          </button>
          <button type="submit" className="btn danger" disabled={busy || (typed !== undefined && text !== typed)}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** A drawer beside its list, or over it where there is no room. */
export function Drawer({ title, sub, tools, footer, onClose, children, label }: {
  title: ReactNode
  sub?: ReactNode
  tools?: ReactNode
  footer?: ReactNode
  onClose(): void
  children: ReactNode
  label: string
}) {
  const { t } = useI18n()
  useEffect(() => {
    const close = (event: KeyboardEvent) => {
      if (event.key === 'Escape' && !event.defaultPrevented && document.querySelector('dialog[open], [role=menu]') === null) onClose()
    }
    document.addEventListener('keydown', close)
    return () => document.removeEventListener('keydown', close)
  }, [onClose])
  const box = useRef<HTMLElement>(null)
  const [opener] = useState(() => document.activeElement)
  useLayoutEffect(() => {
    const drawer = box.current
    // A field that takes the focus by itself keeps it.
    if (!drawer?.contains(document.activeElement)) drawer?.focus({ preventScroll: true })
    return () => {
      const lost = document.activeElement === document.body || drawer?.contains(document.activeElement)
      if (lost && opener instanceof HTMLElement && opener.isConnected) opener.focus({ preventScroll: true })
    }
  }, [opener])
  return (
    <aside ref={box} className="drawer" aria-label={label} tabIndex={-1}>
      <header>
        <div className="grow">
          <h2>{title}</h2>
          {sub}
        </div>
        {tools}
        <button type="button" className="btn ghost icon" aria-label={t('common.close')} onClick={onClose}>
          <X className="ic" aria-hidden />
        </button>
      </header>
      <div className="body">{children}</div>
      {footer !== undefined && <footer>{footer}</footer>}
    </aside>
  )
}
