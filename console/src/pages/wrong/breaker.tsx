import { useI18n } from '@/i18n'
import { ago, since, stamp } from '@/lib/format'
import type { InstanceState } from '@/live/types'

/** How near a breaker is to its threshold, since when it is in its state, and when a call failed last. */
export function BreakerFacts({ instance, now }: { instance: InstanceState; now: number }) {
  const { t, locale } = useI18n()
  const { stateSince, lastFailure } = instance
  return (
    <span className="row flex-wrap muted" data-part="breaker">
      {instance.breaker === 'HALF_OPEN' ? <Pips good count={instance.successes} threshold={instance.successThreshold} /> : <Pips count={instance.failures} threshold={instance.failureThreshold} />}
      {stateSince !== null && <span title={stamp(stateSince, true)}>{t('res.stateFor', { age: since(stateSince, now, locale) })}</span>}
      {lastFailure !== null && <span title={stamp(lastFailure, true)}>{t('res.failedLast', { ago: ago(lastFailure, now, locale) })}</span>}
    </span>
  )
}

/** As many boxes as the threshold; with a large one, words. Good ones are trials that succeeded. */
function Pips({ count, threshold, good = false }: { count: number; threshold: number; good?: boolean }) {
  const { t } = useI18n()
  const words = t(good ? 'res.trials' : 'res.failuresInRow', { n: Math.min(count, threshold), k: threshold })
  if (threshold === 0) return null
  return (
    <span className="row" title={words}>
      {threshold <= 10 && (
        <span className="pips" aria-hidden="true">
          {Array.from({ length: threshold }, (_, index) => (
            <i key={index} className={index < count ? (good ? 'good' : 'on') : ''} />
          ))}
        </span>
      )}
      <span>{words}</span>
    </span>
  )
}
