import { Link } from '@tanstack/react-router'
import { T, useI18n } from '@/i18n'
import { clock, stamp } from '@/lib/format'
import type { InstanceState } from '@/live/types'
import { inTrouble } from '@/ui/status'

/** The time of day with minutes, behind its date where it is not of today. */
export function timeOf(time: number, now: number): string {
  const isToday = stamp(time).slice(0, 10) === stamp(now).slice(0, 10)
  return isToday ? clock(time).slice(0, 5) : stamp(time).slice(0, 16)
}

/** Whether something keeps an instance from its work, or calls of it fail; one that was switched off has none. */
export const isExceptional = (instance: InstanceState) => instance.enabled && (instance.forced || instance.failingSince !== null || inTrouble(instance))

/** Since when an instance fails, and why, in full; who holds its breaker. Nothing where it works. */
export function Why({ instance, now }: { instance: InstanceState; now: number }) {
  const { t, said } = useI18n()
  if (instance.forced) {
    const by = t('res.heldBy', { name: instance.heldBy })
    return instance.heldReason === '' ? <span>{by}</span> : <span>{`${by}: ${instance.heldReason}`}</span>
  }
  if (!isExceptional(instance)) return null
  const { lastError, failingSince } = instance
  const words = lastError !== null && (lastError.text !== '' || instance.error === '') ? (lastError.text === '' ? lastError.code : said(lastError.said, lastError.text)) : said(instance.errorSaid, instance.error)
  const cause = words === '' ? '' : <Link to="/calls" search={{ service: instance.service, instance: instance.id, show: 'troubled' } as never}>{words}</Link>
  if (failingSince === null) return <span>{cause}</span>
  const time = <span className="nowrap" title={stamp(failingSince, true)}>{timeOf(failingSince, now)}</span>
  return <span>{cause === '' ? <T k="res.failsSince" v={{ time }} /> : <T k="res.failsSinceWhy" v={{ time, cause }} />}</span>
}
