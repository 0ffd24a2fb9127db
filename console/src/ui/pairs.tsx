import { ArrowRight, Plus, TriangleAlert, X } from 'lucide-react'
import { useEffect, useId, useRef } from 'react'
import { useI18n } from '@/i18n'

export type Pair = [name: string, value: string]

/** A list of names and what each stands for, one a row. */
export function PairsField({ label, hint, pairs, names, values, options = [], add, begin, error, onChange }: {
  label: string
  hint: string
  pairs: Pair[]
  /** What is on the left and on the right, for those who do not see the heads. */
  names: string
  values: string
  /** What may be chosen on the right; other text may be typed too. */
  options?: readonly string[]
  add: string
  /** The name beside which typing begins. */
  begin?: string
  error?(name: string): string | undefined
  onChange(pairs: Pair[]): void
}) {
  const { t } = useI18n()
  const id = useId()
  const first = useRef<HTMLInputElement>(null)
  // The drawer around it takes the focus while it is laid out.
  useEffect(() => first.current?.focus(), [begin])
  const set = (index: number, pair: Pair) => onChange(pairs.map((old, other) => (other === index ? pair : old)))
  return (
    <div className="f" role="group" aria-label={label}>
      <div className="flab">{label}</div>
      <div className="hint">{hint}</div>
      {pairs.map(([name, value], index) => {
        const wrong = error?.(name)
        return (
          <div key={index}>
            <div className="pair">
              <div className={`inp ${wrong === undefined ? '' : 'err'}`}>
                <input className="mono" aria-label={`${names} ${index + 1}`} placeholder={names} spellCheck={false} autoComplete="off" value={name} onChange={(event) => set(index, [event.target.value, value])} />
              </div>
              <ArrowRight className="ic s14 muted" aria-hidden />
              <div className={`inp ${wrong === undefined ? '' : 'err'}`}>
                <input ref={begin !== undefined && name === begin ? first : undefined} className="mono" list={`${id}-options`} aria-label={`${values} ${index + 1}`} placeholder={values} spellCheck={false} autoComplete="off" value={value} onChange={(event) => set(index, [name, event.target.value])} />
              </div>
              <button type="button" className="btn ghost icon" aria-label={`${t('common.remove')} ${name}`} title={t('common.remove')} onClick={() => onChange(pairs.filter((_, other) => other !== index))}>
                <X className="ic s14" aria-hidden />
              </button>
            </div>
            {wrong !== undefined && (
              <div className="msg mt-1" role="alert">
                <TriangleAlert className="ic s14" aria-hidden />
                <span>{wrong}</span>
              </div>
            )}
          </div>
        )
      })}
      <datalist id={`${id}-options`}>
        {options.map((option) => (
          <option key={option} value={option} />
        ))}
      </datalist>
      <div>
        <button type="button" className="btn sm" onClick={() => onChange([...pairs, ['', '']])}>
          <Plus className="ic s14" aria-hidden />
          {add}
        </button>
      </div>
    </div>
  )
}
