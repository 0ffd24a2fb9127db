import { useQuery } from '@tanstack/react-query'
import { TriangleAlert } from 'lucide-react'
import { config } from '@/api/queries'
import { useI18n } from '@/i18n'
import { modelsWithout, type Serving } from './rows'

const named = 8

/** Says which models lose their last instance with those that are taken out, and what becomes of requests for them. */
export function LeftWithout({ serving, out }: { serving: readonly Serving[]; out: readonly string[] }) {
  const { t } = useI18n()
  const { data } = useQuery(config)
  const losses = modelsWithout(serving, out, data?.services ?? {})
  if (losses.length === 0) return null
  const say = (key: 'services.leftWithout' | 'services.leftFailing' | 'services.leftTo', of: typeof losses, by = '') => {
    const names = of.slice(0, named).map((loss) => loss.model).join(t('common.comma'))
    return of.length === 0 ? [] : [t(key, { n: of.length, by, models: of.length > named ? t('services.andMore', { names, n: of.length - named }) : names })]
  }
  const lines = [
    ...say('services.leftWithout', losses.filter((loss) => loss.by === undefined && !loss.fails)),
    ...say('services.leftFailing', losses.filter((loss) => loss.by === undefined && loss.fails)),
    ...[...new Set(losses.map((loss) => loss.by))].flatMap((by) => (by === undefined ? [] : say('services.leftTo', losses.filter((loss) => loss.by === by), by))),
  ]
  return (
    <div className="note wn my-2" role="alert">
      <TriangleAlert className="ic" aria-hidden />
      <div className="min-w-0 break-words">
        {lines.map((line) => (
          <p key={line}>{line}</p>
        ))}
      </div>
    </div>
  )
}
