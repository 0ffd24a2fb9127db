import { useI18n } from '@/i18n'
import type { InstanceState } from '@/live/types'
import { BreakerGlyph, HealthGlyph } from './glyphs'

export type Condition = 'disabled' | 'unweighted' | 'unreachable' | 'open' | 'half' | 'unknown' | 'ok'

/** The one state of an instance that a person must know first. */
export function condition(instance: InstanceState): Condition {
  if (!instance.enabled) return 'disabled'
  if (instance.breaker === 'OPEN') return 'open'
  if (instance.breaker === 'HALF_OPEN') return 'half'
  if (instance.health === 'UNHEALTHY') return 'unreachable'
  if (instance.weight === 0) return 'unweighted'
  if (instance.health === 'UNKNOWN') return 'unknown'
  return 'ok'
}

export function inTrouble(instance: InstanceState): boolean {
  return ['open', 'half', 'unreachable'].includes(condition(instance))
}

/** Whether requests may be sent to the instance. */
export function canServe(instance: InstanceState): boolean {
  return instance.enabled && instance.weight > 0 && instance.breaker !== 'OPEN' && instance.health !== 'UNHEALTHY'
}

/** Whether calls of an instance that may serve have failed since the last that did not. */
export function isFailing(instance: InstanceState): boolean {
  return canServe(instance) && instance.failingSince !== null
}

/** How many instances may serve, and of how many of those calls fail. */
export function AbleSum({ members }: { members: readonly InstanceState[] }) {
  const { t } = useI18n()
  const failing = members.filter(isFailing).length
  return (
    <span className="muted">
      {t('wrong.canServe', { n: members.filter(canServe).length, all: members.length })}
      {failing > 0 && <span className="warn">{t('wrong.ofThemFail', { n: failing })}</span>}
    </span>
  )
}

/** The seconds until an open breaker lets a trial through. */
export function secondsLeft(instance: InstanceState, now: number): number | null {
  if (instance.nextRetry === null) return null
  // The clock of this tab ticks once a second, so it may lag behind a change.
  return Math.max(0, Math.min(Math.ceil((instance.nextRetry - now) / 1000), Math.ceil(instance.breakerTimeout / 1000)))
}

/** The state of the breaker with its countdown. */
export function BreakerPill({ instance, now, idle = false }: { instance: InstanceState; now: number; idle?: boolean }) {
  const { t } = useI18n()
  const off = (word: 'health.noWeight' | 'health.disabled') => (
    <span className="pill off">
      <HealthGlyph state="disabled" />
      {t(word)}
    </span>
  )
  // What was switched off is sent nothing, so its breaker is of no matter.
  if (!instance.enabled) return off('health.disabled')
  if (instance.breaker === 'OPEN') {
    const left = secondsLeft(instance, now)
    return (
      <span className="pill bd">
        <BreakerGlyph state="OPEN" />
        {instance.forced ? t('breaker.heldOpen') : left === null ? t('breaker.open') : left === 0 ? t('breaker.openDue') : t('breaker.openIn', { n: left })}
      </span>
    )
  }
  if (instance.breaker === 'HALF_OPEN') {
    return (
      <span className="pill wn">
        <BreakerGlyph state="HALF_OPEN" />
        {t('breaker.halfOpen')}
      </span>
    )
  }
  if (instance.health === 'UNHEALTHY') {
    return (
      <span className="pill bd">
        <HealthGlyph state="unhealthy" />
        {t('health.unhealthy')}
      </span>
    )
  }
  if (instance.weight === 0) return off('health.noWeight')
  if (idle) {
    return (
      <span className="pill off">
        <HealthGlyph state="idle" />
        {t('health.idle')}
      </span>
    )
  }
  return (
    <span className="pill ok">
      <BreakerGlyph state="CLOSED" />
      {t(instance.forced ? 'breaker.heldClosed' : 'breaker.closed')}
    </span>
  )
}

/** The state of the instance as a list shows it: health unless it is worse, or calls have failed since the last that did not. */
export function StatePill({ instance, now }: { instance: InstanceState; now: number }) {
  const { t } = useI18n()
  const state = condition(instance)
  if (state === 'ok' && instance.failingSince !== null) {
    return (
      <span className="pill wn">
        <HealthGlyph state="unhealthy" />
        {t('health.failing')}
      </span>
    )
  }
  if (state === 'ok' || state === 'unknown') {
    return (
      <span className={`pill ${state === 'ok' ? 'ok' : 'off'}`}>
        <HealthGlyph state={state === 'ok' ? 'healthy' : 'unknown'} />
        {t(state === 'ok' ? 'health.healthy' : 'health.unknown')}
      </span>
    )
  }
  return <BreakerPill instance={instance} now={now} />
}
