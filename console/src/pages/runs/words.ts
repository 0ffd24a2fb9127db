import type { I18n, Key } from '@/i18n'
import { digits, span } from '@/lib/format'
import { amount } from '@/lib/money'
import type { Run, Unit } from './api'

/** A number of a run in its unit: "1.25", "12,000", "12 min". */
export function numberOf(value: number, unit: Unit, locale: string): string {
  if (unit === 'cost') return amount(value * 1e6, locale)
  if (unit === 'time') return value === 0 ? '0' : span(value, locale)
  return new Intl.NumberFormat(locale).format(value)
}

const unitWords: Record<Unit, Key> = { cost: 'runs.unit.cost', tokens: 'runs.unit.tokens', requests: 'runs.unit.requests', time: 'runs.unit.time', concurrency: 'runs.unit.concurrency' }
export const unitWord = (unit: Unit, t: I18n['t']): string => t(unitWords[unit])

export interface Meter {
  unit: Unit
  used: number
  reserved: number
  /** 0 where there is none. */
  limit: number
  /** 0 to 1; what is reserved counts. */
  share: number
}

/** What a run used of each of its limits, those that it has first; time counts until its last call. */
export function metersOf(run: Run, now: number): Meter[] {
  const end = run.state === 'RUNNING' ? now : Date.parse(run.last)
  const used: Record<Unit, number> = {
    cost: run.used.cost ?? 0,
    tokens: run.used.tokens ?? 0,
    requests: run.used.requests ?? 0,
    time: Math.max(0, end - Date.parse(run.started)),
    concurrency: run.underWay,
  }
  const meters = (Object.keys(used) as Unit[]).map((unit): Meter => {
    const [limit, reserved] = [run.limits[unit] ?? 0, run.reserved[unit] ?? 0]
    return { unit, used: used[unit], reserved, limit, share: limit > 0 ? Math.min(1, (used[unit] + reserved) / limit) : 0 }
  })
  return [...meters.filter(({ limit }) => limit > 0), ...meters.filter(({ limit, unit }) => limit <= 0 && unit !== 'concurrency')]
}

/** Amounts that are worth a button: of the size of the limit, or of what was used without one. */
export function raisesOf(run: Run): number[] {
  const size = run.limits.cost ?? 0
  const base = size > 0 ? size : Math.max(1, run.used.cost ?? 0)
  const power = 10 ** Math.floor(Math.log10(base))
  const step = [1, 2, 5].map((n) => n * power).findLast((n) => n <= base * 1.0000001) ?? power
  return [step, step * 2, step * 5].map((value) => Number(value.toPrecision(6)))
}

/** Who a run belongs to, in the shortest words. */
export const whoOf = (run: Run, t: I18n['t']): string => [run.user, run.key, run.tenant].filter((name) => (name ?? '') !== '').join(' · ') || t('runs.nobody')

/** What a run does now, or why it does nothing. */
export function doingOf(run: Run, t: I18n['t'], locale: string): string {
  if (run.state === 'RUNNING') return t('runs.doing', { n: run.underWay, calls: digits(run.underWay, locale) })
  return t(`runs.state.${run.state}`)
}

const rules: Record<string, Key> = { SAME_CALL: 'runs.rule.SAME_CALL', SAME_RESULT: 'runs.rule.SAME_RESULT', ALTERNATING: 'runs.rule.ALTERNATING', ERRORS: 'runs.rule.ERRORS', NO_OUTPUT: 'runs.rule.NO_OUTPUT' }

/** The rule for loops in words; a later one by its name. */
export const ruleWord = (rule: string, t: I18n['t']): string => (rules[rule] === undefined ? rule : t(rules[rule]))
