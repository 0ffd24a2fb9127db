import { Check, Copy } from 'lucide-react'
import { DropdownMenu, Slider as RadixSlider, Switch as RadixSwitch } from 'radix-ui'
import { useEffect, useRef, useState, type ReactNode } from 'react'
import { useI18n } from '@/i18n'
import { missing, tail, type Reading } from '@/lib/format'

/** A value with its unit, smaller and grey. */
export function Value({ reading }: { reading: Reading }) {
  return (
    <>
      {reading.value}
      {reading.unit !== '' && <span className="u">{reading.unit}</span>}
    </>
  )
}

export function Num({ value, unit }: { value: string; unit?: string }) {
  return <Value reading={{ value, unit: value === missing ? '' : (unit ?? '') }} />
}

/** A name that keeps its tail where there is no room: tails tell models apart. */
export function Name({ children, className = '', title }: { children: string; className?: string; title?: string }) {
  const [head, end] = tail(children)
  return (
    <code className={`name ${className}`} title={title ?? children}>
      <span className="trunc">{head}</span>
      {end !== '' && <span>{end}</span>}
    </code>
  )
}

/** A row of choices that is scrolled to the one that is chosen, where there is no room for all. */
export function useChosenInSight(value: string) {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const chosen = box.current?.querySelector<HTMLElement>("[aria-pressed='true'], [aria-selected='true']")
    if (box.current === null || chosen === null || chosen === undefined) return
    const [room, its] = [box.current.getBoundingClientRect(), chosen.getBoundingClientRect()]
    if (its.right > room.right) box.current.scrollLeft += its.right - room.right + 24
    else if (its.left < room.left) box.current.scrollLeft -= room.left - its.left + 24
  }, [value])
  return box
}

export function Segments<T extends string>({ value, options, onChange, label }: {
  value: T
  options: readonly { value: T; label: ReactNode }[]
  onChange(value: T): void
  label: string
}) {
  const box = useChosenInSight(value)
  return (
    <div ref={box} className="seg" role="group" aria-label={label}>
      {options.map((option) => (
        <button key={option.value} type="button" aria-pressed={option.value === value} onClick={() => onChange(option.value)}>
          {option.label}
        </button>
      ))}
    </div>
  )
}

export function Switch({ checked, onChange, label, disabled, id }: {
  checked: boolean
  onChange(checked: boolean): void
  label?: string
  disabled?: boolean
  id?: string
}) {
  return (
    <RadixSwitch.Root id={id} className="sw" checked={checked} onCheckedChange={onChange} aria-label={label} disabled={disabled}>
      <RadixSwitch.Thumb />
    </RadixSwitch.Root>
  )
}

/** A switch with its words beside it. */
export function Toggle({ checked, onChange, children, disabled }: { checked: boolean; onChange(checked: boolean): void; children: ReactNode; disabled?: boolean }) {
  return (
    <label className="row cursor-pointer">
      <Switch checked={checked} onChange={onChange} disabled={disabled} />
      <span>{children}</span>
    </label>
  )
}

export function Slider({ value, onChange, onCommit, min, max, step, label, disabled }: {
  value: number
  onChange(value: number): void
  onCommit?(value: number): void
  min: number
  max: number
  step: number
  label: string
  disabled?: boolean
}) {
  return (
    <RadixSlider.Root
      disabled={disabled}
      className="slider"
      value={[Math.min(max, value)]}
      min={min}
      max={max}
      step={step}
      onValueChange={([next]) => next !== undefined && onChange(next)}
      onValueCommit={([next]) => next !== undefined && onCommit?.(next)}
    >
      <RadixSlider.Track className="track">
        <RadixSlider.Range className="range" />
      </RadixSlider.Track>
      <RadixSlider.Thumb className="thumb" aria-label={label} />
    </RadixSlider.Root>
  )
}

export interface MenuItem {
  label: ReactNode
  onSelect(): void
  danger?: boolean
  disabled?: boolean
  /** Why it is disabled. */
  title?: string
  checked?: boolean
}

export function Menu({ trigger, items }: { trigger: ReactNode; items: (MenuItem | 'separator')[] }) {
  return (
    // Not modal: the lock of scrolling would add a style that the policy forbids.
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      {/* In a landmark, as all that the page shows. */}
      <DropdownMenu.Portal container={document.getElementById('main')}>
        <DropdownMenu.Content className="menu" align="end" sideOffset={4} collisionPadding={8}>
          {items.map((item, index) =>
            item === 'separator' ? (
              <DropdownMenu.Separator key={index} className="sep" />
            ) : (
              <DropdownMenu.Item key={index} className={item.danger ? 'danger' : undefined} disabled={item.disabled} title={item.title} onSelect={item.onSelect}>
                <span className="grow">{item.label}</span>
                {item.checked && <Check className="ic s14" aria-hidden />}
              </DropdownMenu.Item>
            ),
          )}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  )
}

/** Copies a text, and says so for a moment. */
export function CopyButton({ text, label, small = true, hint, onCopied }: { text: string | (() => string); label?: string; small?: boolean; hint?: string; onCopied?(): void }) {
  const { t } = useI18n()
  const [copied, setCopied] = useState(false)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  const copy = async () => {
    await copyText(typeof text === 'string' ? text : text())
    setCopied(true)
    onCopied?.()
    clearTimeout(timer.current)
    timer.current = setTimeout(() => setCopied(false), 1500)
  }
  const Icon = copied ? Check : Copy
  return (
    <button
      type="button"
      className={label === undefined ? 'btn ghost icon' : `btn ${small ? 'sm' : ''}`}
      title={copied ? t('common.copied') : (hint ?? t('common.copy'))}
      aria-label={label === undefined ? t('common.copy') : undefined}
      onClick={() => void copy()}
    >
      <Icon className="ic s14" aria-hidden />
      {label}
      <span className="sr-only" aria-live="polite">
        {copied ? t('common.copied') : ''}
      </span>
    </button>
  )
}

/** The clipboard is only there in secure contexts; a selection works elsewhere. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) {
    await navigator.clipboard.writeText(text)
    return
  }
  const area = document.createElement('textarea')
  area.value = text
  area.setAttribute('readonly', '')
  area.className = 'sr-only'
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

export function CodeBox({ text, fold }: { text: string; fold?: boolean }) {
  return (
    <div className="codebox">
      <pre className={`code ${fold ? 'fold' : ''}`} tabIndex={0}>
        {text}
      </pre>
      <CopyButton text={text} />
    </div>
  )
}

/** A bar of 0 to 1 without words, for columns of tables. */
export function Bar({ share, kind = '' }: { share: number; kind?: '' | 'bd' | 'wn' }) {
  return (
    <span className="share" aria-hidden="true">
      <i className={kind} style={{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
    </span>
  )
}

export function Kbd({ children }: { children: ReactNode }) {
  return <kbd className="kbd">{children}</kbd>
}
