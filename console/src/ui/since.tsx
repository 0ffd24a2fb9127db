import { useI18n } from '@/i18n'
import { clock, stamp } from '@/lib/format'
import { useLive } from '@/live/context'
import { beganWithin, type Range } from '@/live/series'

/** Says that a chart begins with the start of the gateway, where that is within its range: a restart forgets what was before. */
export function SinceStart({ range }: { range: Range }) {
  const { t } = useI18n()
  const { snapshot } = useLive()
  const began = snapshot?.totals === undefined ? Number.NaN : Date.parse(snapshot.totals.startedAt)
  if (snapshot === null || !beganWithin(range, began, snapshot.time)) return null
  return <span className="hint" data-part="since-start">{t('overview.sinceStart', { time: range === '24h' ? stamp(began).slice(0, 16) : clock(began) })}</span>
}
