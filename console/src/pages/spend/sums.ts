import type { BudgetUse, Spend, SpendGroup } from '@/api/types'
import { csv } from '@/lib/money'

/** What a group costs by the end of the period, as far as it is known. */
export const ends = (group: SpendGroup): number => group.forecast ?? group.cost

/** Whether a group cost nothing because what it used has no price. */
export const hasNoPrice = (group: SpendGroup): boolean => group.cost === 0 && group.unpriced > 0

/** By how much a group grew against the period before; null where that is not known: of a part of a period, only its forecast can be compared with a whole one. */
export const growth = (group: SpendGroup, isOver: boolean): number | null => (group.before === null || (group.forecast === null && !isOver) ? null : ends(group) - group.before)

/** The groups that grew most, those with the greatest growth first; what is new has not grown. */
export function grewMost(groups: readonly SpendGroup[], isOver: boolean, count: number): SpendGroup[] {
  return groups.filter((group) => (group.before ?? 0) > 0 && (growth(group, isOver) ?? 0) > 0).toSorted((a, b) => growth(b, isOver)! - growth(a, isOver)!).slice(0, count)
}

/** The bounds of a forecast with two digits, which is all that they are good for; null where there is none. */
export function range(group: SpendGroup): { low: number; high: number } | null {
  if (group.forecastLow === null || group.forecastHigh === null) return null
  const round = (micros: number, by: (value: number) => number) => {
    if (micros <= 0) return 0
    const unit = 10 ** (Math.floor(Math.log10(micros)) - 1)
    return by(micros / unit) * unit
  }
  return { low: Math.max(group.cost, round(group.forecastLow, Math.floor)), high: round(group.forecastHigh, Math.ceil) }
}

/** The series of the chart: the most expensive groups, and all others together. */
export function layers(spend: Spend, count: number): { name: string | null; costs: number[]; cost: number }[] {
  const paid = spend.groups.filter((group) => group.cost > 0)
  const listed: { name: string | null; costs: number[]; cost: number }[] = paid.slice(0, count)
  // Amounts are rounded one by one, so that the total alone does not tell whether there are others.
  if (paid.length <= count && spend.others === null) return listed
  const rest = spend.total.costs.map((cost, step) => cost - listed.reduce((sum, group) => sum + group.costs[step]!, 0))
  return [...listed, { name: null, costs: rest, cost: rest.reduce((sum, one) => sum + one, 0) }]
}

/** What the steps that have not begun cost at the pace of the forecast; null for the others. */
export function foretold(spend: Spend, now: number): (number | null)[] {
  const future = spend.starts.filter((start) => Date.parse(start) > now).length
  if (future === 0 || spend.total.forecast === null) return spend.starts.map(() => null)
  const left = Date.parse(spend.to) - now
  return spend.starts.map((start, index) => {
    if (Date.parse(start) <= now) return null
    const end = Date.parse(spend.starts[index + 1] ?? spend.to)
    return ((spend.total.forecast! - spend.total.cost) * (end - Date.parse(start))) / left
  })
}

const windowOf = { month: 'MONTH', day: 'DAY' } as const

/** The budget in money of a tenant or a key: that of the period, or else the one that ends first. */
export function budgetOf(budgets: readonly BudgetUse[], by: string, name: string, period: string): BudgetUse | null {
  if (by !== 'tenant' && by !== 'key') return null
  const own = budgets.filter((budget) => budget.of === `${by}/${name}` && budget.unit === 'cost')
  return own.find((budget) => budget.window === windowOf[period as 'month' | 'day']) ?? own.find((budget) => budget.window === 'MONTH') ?? own[0] ?? null
}

/** When a budget is used up at a pace of so many millionths a millisecond; null if it lasts. */
export function usedUpAt(budget: BudgetUse, pace: number, now: number): number | null {
  if (budget.used >= budget.limit) return now
  const end = budget.reset === null ? Number.POSITIVE_INFINITY : Date.parse(budget.reset)
  const at = now + (budget.limit - budget.used) / pace
  return pace > 0 && at < end ? at : null
}

/** What is shown as a file: one row for each group, one column for each step. */
export function toCsv(spend: Spend): string {
  const units = (micros: number | null) => (micros === null ? '' : micros / 1e6)
  const head = [spend.by, 'currency', 'from', 'to', 'cost', 'requests', 'requestsWithoutPrice', 'tokens', 'promptTokens', 'completionTokens', 'costBefore', 'costForecast', ...spend.starts]
  const row = (group: SpendGroup, name: string) => [
    name, spend.currency, spend.from, spend.to, hasNoPrice(group) ? '' : units(group.cost), group.requestCount, group.unpriced, group.tokenCount, group.promptTokens, group.completionTokens, units(group.before), units(group.forecast), ...group.costs.map(units),
  ]
  return csv([head, ...spend.groups.map((group) => row(group, group.name)), ...(spend.others === null ? [] : [row(spend.others, `(${spend.others.count ?? 0} others)`)]), row(spend.total, '(total)')])
}
