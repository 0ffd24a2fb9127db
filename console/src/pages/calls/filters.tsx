import { SlidersHorizontal, X } from 'lucide-react'
import { useId, useState } from 'react'
import { serviceTypes, type CallNames } from '@/api/types'
import { useI18n } from '@/i18n'
import { shorten, stamp } from '@/lib/format'
import type { Search } from '@/lib/url'
import { Select, TextField } from '@/ui/field'
import { exact, spans, type Exact } from './search'

const named = ['asked', 'model', 'instance', 'host', 'tenant', 'keyId', 'user', 'errorCode'] as const
const typed: Exclude<Exact, 'service' | 'refusedBy' | 'run'>[] = [...named, 'httpStatus']

/** What there is for a field, with how many calls have it. */
function Suggestions({ id, of }: { id: string; of: CallNames[keyof CallNames] }) {
  const { t } = useI18n()
  return (
    <datalist id={id}>
      {of.map(({ name, count }) => (
        <option key={name} value={name} label={t('find.count', { n: count })} />
      ))}
    </datalist>
  )
}

/** The filters beside the text and the outcome: the time, and what is compared whole. */
export function MoreFilters({ search, names, onChange }: { search: Search; /** What the calls name, as suggestions. */ names: CallNames | undefined; onChange(change: Record<string, string | undefined>): void }) {
  const { t } = useI18n()
  const [open, setOpen] = useState(false)
  const id = useId()
  return (
    <>
      <span className="w-[132px]">
        <Select
          quiet
          label={t('find.time')}
          value={search.span ?? (search.from !== undefined || search.to !== undefined ? 'own' : '')}
          options={[
            { value: '', label: t('find.anyTime') },
            ...Object.keys(spans).map((span) => ({ value: span, label: t(`find.span.${span}` as 'find.span.1h') })),
            ...(search.from !== undefined || search.to !== undefined ? [{ value: 'own', label: t('find.ownTime') }] : []),
          ]}
          onChange={(value) => value !== 'own' && onChange({ span: value, from: undefined, to: undefined })}
        />
      </span>
      <button type="button" className="btn" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        <SlidersHorizontal className="ic s14" aria-hidden />
        {t('find.more')}
      </button>
      {open && (
        <form
          id={id}
          className="morefilters"
          onSubmit={(event) => event.preventDefault()}
        >
          <div className="f">
            <span className="flab">{t('common.service')}</span>
            <Select label={t('common.service')} value={search.service ?? ''} options={[{ value: '', label: t('calls.allServices') }, ...serviceTypes.map((type) => ({ value: type as string, label: t(`pg.${type}`) }))]} onChange={(value) => onChange({ service: value })} />
          </div>
          {typed.map((name) => (
            <TextField
              key={name}
              label={t(`find.${name}`)}
              mono
              inputMode={name === 'httpStatus' ? 'numeric' : undefined}
              list={name === 'httpStatus' ? undefined : `${id}-${name}`}
              value={search[name] ?? ''}
              onChange={(value) => onChange({ [name]: value, parts: '1' })}
            />
          ))}
          {names !== undefined && named.map((name) => <Suggestions key={name} id={`${id}-${name}`} of={names[name]} />)}
          <TextField label={t('find.errorText')} value={search.errorText ?? ''} onChange={(value) => onChange({ errorText: value })} />
          <TextField label={t('find.min')} inputMode="decimal" value={search.min ?? ''} onChange={(value) => onChange({ min: value })} />
          {(['from', 'to'] as const).map((name) => (
            <TextField key={name} label={t(`find.${name}`)} type="datetime-local" step={1} value={local(search[name])} onChange={(value) => onChange({ [name]: value === '' ? undefined : new Date(value).toISOString(), span: undefined })} />
          ))}
        </form>
      )}
    </>
  )
}

/** The filters in force, each with a way out. */
export function Chips({ search, onChange }: { search: Search; onChange(change: Record<string, string | undefined>): void }) {
  const { t } = useI18n()
  const chips: { name: string; text: string; value: string }[] = []
  for (const name of exact) if ((search[name] ?? '') !== '') chips.push({ name, text: name === 'service' ? t('common.service') : t(`find.${name}`), value: search[name]! })
  if ((search.errorText ?? '') !== '') chips.push({ name: 'errorText', text: t('find.errorText'), value: search.errorText! })
  if ((search.min ?? '') !== '') chips.push({ name: 'min', text: t('find.min'), value: search.min! })
  for (const name of ['from', 'to'] as const) if (search[name] !== undefined) chips.push({ name, text: t(`find.${name}`), value: stamp(search[name]!, false) })
  if (chips.length === 0) return null
  return (
    <div className="chips">
      {chips.map((chip) => (
        <button key={chip.name} type="button" className="btn sm" title={chip.value} onClick={() => onChange({ [chip.name]: undefined })}>
          <span className="muted">{chip.text}</span>
          <code>{shorten(chip.value, 40)}</code>
          <X className="ic s14" aria-hidden />
          <span className="sr-only">{t('find.remove', { name: chip.text })}</span>
        </button>
      ))}
      {chips.length > 1 && (
        <button type="button" className="btn sm ghost" onClick={() => onChange(Object.fromEntries(chips.map((chip) => [chip.name, undefined])))}>
          {t('find.clear')}
        </button>
      )}
    </div>
  )
}

/** A time as an input of the browser takes it. */
function local(time: string | undefined): string {
  const at = Date.parse(time ?? '')
  return Number.isNaN(at) ? '' : new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}
