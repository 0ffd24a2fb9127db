import { TriangleAlert } from 'lucide-react'
import { useI18n } from '@/i18n'

type Values = Record<string, unknown>

/** The members of nested objects under dotted names; lists stay whole. */
export function flat(value: unknown, path = ''): Values {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return path === '' ? {} : { [path]: value }
  return Object.assign({}, ...Object.entries(value).map(([name, inner]) => flat(inner, path === '' ? name : `${path}.${name}`))) as Values
}

/** What two people have changed at the same time: both values of each field. */
export function Conflict({ base, theirs, mine, from, to, onKeep, onTake }: {
  base: object | null
  theirs: object | null
  mine: object
  from: number
  to: number
  onKeep(): void
  onTake(): void
}) {
  const { t } = useI18n()
  const [before, after, typed] = [flat(base), flat(theirs), flat(mine)]
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after), ...Object.keys(typed)])]
  const shown = fields.filter((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]) || field in typed)
  const print = (field: string, value: unknown) => (field === 'apiKey' ? t('ver.secret') : value === undefined ? '–' : JSON.stringify(value))
  return (
    <div className="note wn mb-3" role="alert">
      <TriangleAlert className="ic" aria-hidden />
      <div>
        <b>{t('services.conflictTitle', { theirs: Math.max(to, from + 1), mine: from })}</b>
        <div className="diff mt-1">
          {shown.length === 0 && <div>{t('services.noOverlap')}</div>}
          {shown.map((field) => (
            <div key={field}>
              <div className="del px-2">
                − {t('services.theirs')}: {field}: <mark>{print(field, after[field])}</mark>
              </div>
              {field in typed && (
                <div className="add px-2">
                  + {t('services.yours')}: {field}: <mark>{print(field, typed[field])}</mark>
                </div>
              )}
            </div>
          ))}
        </div>
        <div className="acts">
          <button type="button" className="btn sm" onClick={onKeep}>
            {t('services.keepMine', { n: Math.max(to, from + 1) })}
          </button>
          <button type="button" className="btn ghost sm" onClick={onTake}>
            {t('services.takeTheirs')}
          </button>
        </div>
      </div>
    </div>
  )
}
