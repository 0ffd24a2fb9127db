import { useQuery } from '@tanstack/react-query'
import { useI18n } from '@/i18n'
import { clock, stamp } from '@/lib/format'
import { useLive } from '@/live/context'
import { history } from '@/live/history'
import { beganWithin, rangeShape, type Range } from '@/live/series'

/** The time at which the history begins, if that is within the range of a chart. */
export function SinceStart({ range }: { range: Range }) {
  const { t } = useI18n()
  const { snapshot } = useLive()
  const began = useQuery(history(range)).data?.began ?? Number.NaN
  if (snapshot === null || !beganWithin(range, began, snapshot.time)) return null
  return <span className="hint" data-part="since-start">{t('overview.sinceStart', { time: rangeShape[range].step >= 300 ? stamp(began).slice(0, 16) : clock(began) })}</span>
}
