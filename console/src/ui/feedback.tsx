import { Check, TriangleAlert } from 'lucide-react'
import { Component, createContext, useCallback, useContext, useEffect, useMemo, useRef, useState, type ReactNode } from 'react'
import { useQuery } from '@tanstack/react-query'
import { ApiError } from '@/api/client'
import { callRecord } from '@/api/queries'
import { useI18n } from '@/i18n'
import { documentedCode } from '@/lib/docs'
import { DocsLink } from './docs'
import { CopyButton } from './parts'

/**
 * What went wrong, in the reader's language. An error of the unified API has
 * the words that its clients get; the record of the call has them as codes.
 */
function useFailure(error: unknown): string {
  const { lang, failure, said } = useI18n()
  const known = error instanceof ApiError && error.said === undefined && error.code !== '' && error.requestId !== '' ? error : null
  const record = useQuery({ ...callRecord(known?.requestId ?? ''), enabled: lang !== 'en' && known !== null })
  return known !== null && record.data?.errorMessage === known.message ? said(record.data.said, known.message) : failure(error)
}

/** A failure in place: what failed, the server's words, the id, what to do. */
export function ErrorNote({ error, title, retry, children }: { error: unknown; title?: string; retry?: () => void; children?: ReactNode }) {
  const { t } = useI18n()
  const [open, setOpen] = useState(false)
  const known = error instanceof ApiError ? error : null
  const code = documentedCode(known?.body)
  const message = useFailure(error)
  return (
    <div className="note bd" role="alert">
      <TriangleAlert className="ic" aria-hidden />
      <div>
        <b>{title ?? t('error.title')}</b>
        <div>{message}</div>
        {children}
        <div className="acts">
          {retry !== undefined && (
            <button type="button" className="btn sm" onClick={retry}>
              {t('common.retry')}
            </button>
          )}
          {known !== null && (
            <button type="button" className="btn ghost sm" aria-expanded={open} onClick={() => setOpen(!open)}>
              {t('common.details')}
            </button>
          )}
          {code !== undefined && (
            <DocsLink className="btn ghost sm" page="errors" section={code}>
              {t('guide.whatToDo')}
            </DocsLink>
          )}
          {known !== null && known.requestId !== '' && (
            <span className="row">
              <code>{known.requestId}</code>
              <CopyButton text={known.requestId} />
            </span>
          )}
        </div>
        {open && known !== null && <pre className="code fold mt-2">{JSON.stringify({ status: known.status, body: known.body }, null, 2)}</pre>}
      </div>
    </div>
  )
}

interface Toast {
  id: number
  text: string
  action?: { label: string; run(): void }
}

type Push = (text: string, action?: Toast['action']) => void
const PushContext = createContext<Push>(() => undefined)
const ToastContext = createContext<{ toast: Toast | null; remove(id: number): void }>({ toast: null, remove: () => undefined })

export const useToast = (): Push => useContext(PushContext)

/** Toasts say what the person's own action has done, with at most one undo; the last one is shown. */
export function ToastProvider({ children }: { children: ReactNode }) {
  const [toast, setToast] = useState<Toast | null>(null)
  const next = useRef(0)
  const remove = useCallback((id: number) => setToast((shown) => (shown?.id === id ? null : shown)), [])
  const push = useCallback<Push>((text, action) => setToast({ id: next.current++, text, action }), [])
  const shown = useMemo(() => ({ toast, remove }), [toast, remove])
  return (
    <PushContext.Provider value={push}>
      <ToastContext.Provider value={shown}>{children}</ToastContext.Provider>
    </PushContext.Provider>
  )
}

/** Where toasts are shown: it has room of its own, so that they cover nothing that can be pressed. */
export function Toasts() {
  const { toast, remove } = useContext(ToastContext)
  return (
    <div className="toasts" role="status">
      {toast !== null && <ToastView key={toast.id} toast={toast} remove={remove} />}
    </div>
  )
}

function ToastView({ toast, remove }: { toast: Toast; remove(id: number): void }) {
  const [held, setHeld] = useState(false)
  useEffect(() => {
    if (held) return
    const timer = setTimeout(() => remove(toast.id), 6000)
    return () => clearTimeout(timer)
  }, [held, toast.id, remove])
  return (
    <div className="toast" onPointerEnter={() => setHeld(true)} onPointerLeave={() => setHeld(false)}>
      <Check className="ic" aria-hidden />
      <span>{toast.text}</span>
      {toast.action !== undefined && (
        <button
          type="button"
          className="btn sm"
          onClick={() => {
            toast.action?.run()
            remove(toast.id)
          }}
        >
          {toast.action.label}
        </button>
      )}
    </div>
  )
}

/** Keeps the failure of one part from taking the page with it. */
export class Boundary extends Component<{ children: ReactNode; fallback: (error: unknown, reset: () => void) => ReactNode }, { error: unknown }> {
  override state = { error: null as unknown }
  static getDerivedStateFromError(error: unknown) {
    return { error }
  }
  override render() {
    return this.state.error === null ? this.props.children : this.props.fallback(this.state.error, () => this.setState({ error: null }))
  }
}

export function Part({ children }: { children: ReactNode }) {
  const { t } = useI18n()
  const fallback = useMemo(
    () =>
      function Fallback(error: unknown, reset: () => void) {
        return <ErrorNote error={error} title={t('error.crash')} retry={reset} />
      },
    [t],
  )
  return <Boundary fallback={fallback}>{children}</Boundary>
}
