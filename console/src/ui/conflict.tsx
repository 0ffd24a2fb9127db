import { TriangleAlert } from 'lucide-react'
import { ApiError } from '@/api/client'
import { useI18n } from '@/i18n'
import { ErrorNote } from './feedback'

type Values = Record<string, unknown>

/** The members of nested objects under dotted names; lists stay whole. */
export function flat(value: unknown, path = ''): Values {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return path === '' ? {} : { [path]: value }
  return Object.assign({}, ...Object.entries(value).map(([name, inner]) => flat(inner, path === '' ? name : `${path}.${name}`))) as Values
}

/**
 * Why what was typed is not saved: others were faster, or what the gateway said,
 * unless a field says so already. Whether their values are kept or one's own, the form
 * begins with theirs from then on.
 */
export function NotSaved({ error, isAtField, onBase, onKeep, onTake, ...both }: Both & { error: Error | null; isAtField: boolean; onBase(): void }) {
  if (error === null) return null
  if (error instanceof ApiError && error.status === 409) {
    const begin = (then: () => void) => () => {
      onBase()
      then()
    }
    return <Conflict {...both} onKeep={begin(onKeep)} onTake={begin(onTake)} />
  }
  return isAtField ? null : (
    <div className="mb-3">
      <ErrorNote error={error} />
    </div>
  )
}

interface Both {
  base: object | null
  theirs: object | null
  mine: object
  from: number
  to: number
  onKeep(): void
  onTake(): void
}

/** What two people have changed at the same time: both values of each field. */
function Conflict({ base, theirs, mine, from, to, onKeep, onTake }: Both) {
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
