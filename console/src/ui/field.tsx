import { ChevronDown, Eye, TriangleAlert } from 'lucide-react'
import { useId, useState, type InputHTMLAttributes, type ReactNode, type TextareaHTMLAttributes } from 'react'
import { useI18n } from '@/i18n'
import { CopyButton } from './parts'

interface FieldProps {
  label: ReactNode
  hint?: ReactNode
  /** The sentence that replaces the hint. */
  error?: string
  /** The name of the field in the API, shown before the server's sentence. */
  name?: string
  extra?: ReactNode
}

function Frame({ label, hint, error, name, extra, id, children }: FieldProps & { id: string; children: ReactNode }) {
  return (
    <div className="f">
      <label className="flab" htmlFor={id}>
        {label} {extra !== undefined && <span className="opt">{extra}</span>}
      </label>
      {children}
      {error !== undefined ? (
        <div className="msg" id={`${id}-hint`} role="alert">
          <TriangleAlert className="ic s14" aria-hidden />
          <span>
            {name !== undefined && <code>{name}</code>}
            {name !== undefined && ': '}
            {error}
          </span>
        </div>
      ) : (
        hint !== undefined && (
          <div className="hint" id={`${id}-hint`}>
            {hint}
          </div>
        )
      )}
    </div>
  )
}

type InputProps = FieldProps & Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange' | 'name'> & { onChange(value: string): void; suffix?: ReactNode; mono?: boolean }

export function TextField({ label, hint, error, name, extra, onChange, suffix, mono, ...input }: InputProps) {
  const id = useId()
  return (
    <Frame {...{ label, hint, error, name, extra, id }}>
      <div className={`inp ${error !== undefined ? 'err' : ''}`}>
        <input
          id={id}
          className={mono ? 'mono' : undefined}
          autoComplete="off"
          spellCheck={false}
          aria-invalid={error !== undefined}
          aria-describedby={hint !== undefined || error !== undefined ? `${id}-hint` : undefined}
          onChange={(event) => onChange(event.target.value)}
          {...input}
        />
        {suffix !== undefined && <span className="suffix">{suffix}</span>}
      </div>
    </Frame>
  )
}

type AreaProps = FieldProps & Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, 'onChange' | 'name'> & { onChange(value: string): void; mono?: boolean }

export function TextArea({ label, hint, error, name, extra, onChange, mono, ...area }: AreaProps) {
  const id = useId()
  return (
    <Frame {...{ label, hint, error, name, extra, id }}>
      <div className={`inp area ${error !== undefined ? 'err' : ''}`}>
        <textarea
          id={id}
          className={mono ? 'mono' : undefined}
          spellCheck={false}
          aria-invalid={error !== undefined}
          aria-describedby={hint !== undefined || error !== undefined ? `${id}-hint` : undefined}
          onChange={(event) => onChange(event.target.value)}
          {...area}
        />
      </div>
    </Frame>
  )
}

/** A native select: it works with every keyboard, phone and screen reader. */
export function SelectField<T extends string>({ label, hint, error, name, extra, value, options, onChange, disabled }: FieldProps & {
  value: T
  options: readonly { value: T; label: string }[]
  onChange(value: T): void
  disabled?: boolean
}) {
  const id = useId()
  return (
    <Frame {...{ label, hint, error, name, extra, id }}>
      <Select {...{ id, value, options, onChange, disabled }} invalid={error !== undefined} />
    </Frame>
  )
}

export function Select<T extends string>({ id, value, options, onChange, disabled, label, invalid = false, quiet = false }: {
  id?: string
  value: T
  options: readonly { value: T; label: string }[]
  onChange(value: T): void
  disabled?: boolean
  label?: string
  invalid?: boolean
  quiet?: boolean
}) {
  return (
    <div className={`inp ${invalid ? 'err' : ''} ${quiet ? 'quiet' : ''}`}>
      <select id={id} aria-label={label} value={value} disabled={disabled} onChange={(event) => onChange(event.target.value as T)}>
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
      <ChevronDown className="ic s14" aria-hidden />
    </div>
  )
}

/** A secret: shown while the eye is pressed, copied without being shown. */
export function SecretField({ label, hint, error, name, value, onChange, placeholder }: FieldProps & { value: string; onChange(value: string): void; placeholder?: string }) {
  const { t } = useI18n()
  const id = useId()
  const [shown, setShown] = useState(false)
  const hide = () => setShown(false)
  return (
    <Frame {...{ label, hint, error, name, id }}>
      <div className={`inp ${error !== undefined ? 'err' : ''}`}>
        <input
          id={id}
          className="mono"
          type={shown ? 'text' : 'password'}
          autoComplete="off"
          data-1p-ignore=""
          spellCheck={false}
          value={value}
          placeholder={placeholder}
          onChange={(event) => onChange(event.target.value)}
        />
        {value !== '' && (
          <>
            <button
              type="button"
              className="btn ghost icon"
              aria-label={t('common.show')}
              title={t('common.show')}
              onPointerDown={() => setShown(true)}
              onPointerUp={hide}
              onPointerLeave={hide}
              onKeyDown={(event) => event.key === ' ' && setShown(true)}
              onKeyUp={hide}
              onBlur={hide}
            >
              <Eye className="ic" aria-hidden />
            </button>
            <CopyButton text={value} />
          </>
        )}
      </div>
    </Frame>
  )
}
