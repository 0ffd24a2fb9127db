import { useQuery } from '@tanstack/react-query'
import { budgets, wrong } from '@/api/queries'
import type { BudgetUse, Code, ProblemGroup } from '@/api/types'
import { useNow } from '@/live/context'
import { GroupLink, GroupSentence } from '../wrong/sentence'

/** A budget that refuses calls, and what is known of them; null where it is used up and nobody asked since. */
export interface Refusing {
  budget: BudgetUse
  group: ProblemGroup | null
}

const windows: Partial<Record<Code, BudgetUse['window']>> = { 'budget.today': 'DAY', 'budget.month': 'MONTH', 'budget.total': 'TOTAL' }
const units: Partial<Record<Code, BudgetUse['unit']>> = { 'budget.requests': 'requests', 'budget.tokens': 'tokens', other: 'cost' }

/**
 * Whether calls were refused because of this very budget, until it begins anew: what is left of a
 * budget may be too little for a call, and a limit that was raised since refuses nothing.
 */
function refuses(group: ProblemGroup, budget: BudgetUse, now: number): boolean {
  const told = group.said?.[0]
  const [window, unit] = [told?.inner?.window, told?.inner?.unit]
  if (group.kind !== 'refusal' || group.code !== 'budget_exceeded' || group.subject !== budget.of || window === undefined || unit === undefined) return false
  const limit = Number(told?.values?.limit) * (budget.unit === 'cost' ? 1e6 : 1)
  return windows[window.code] === budget.window && units[unit.code] === budget.unit && Math.round(limit) === budget.limit && (group.until === undefined || Date.parse(group.until) > now)
}

export function refusing(uses: readonly BudgetUse[], groups: readonly ProblemGroup[], now: number): Refusing[] {
  return uses.flatMap((budget) => {
    const group = groups.find((one) => refuses(one, budget, now)) ?? null
    return group !== null || budget.used >= budget.limit ? [{ budget, group }] : []
  })
}

/** Whether a budget is one of those; an account may have several, by time and by what they count. */
export const isAmong = (refused: readonly Refusing[], { of, window, unit }: BudgetUse) => refused.some(({ budget }) => budget.of === of && budget.window === window && budget.unit === unit)

/** The budgets that refuse calls now. */
export function useRefusing(): Refusing[] {
  const { data: uses } = useQuery({ ...budgets, refetchInterval: 3000, retry: false })
  const { data } = useQuery({ ...wrong(), retry: false })
  const now = useNow()
  return refusing(uses?.budgets ?? [], data?.groups ?? [], now)
}

/** Who is refused because of a budget, in the sentence that the overview has. */
export function RefusedNote({ of }: { of: readonly Refusing[] }) {
  const now = useNow()
  const groups = [...new Set(of.flatMap(({ group }) => (group === null ? [] : [group])))]
  if (groups.length === 0) return null
  return (
    <p className="bad font-semibold mb-2">
      {groups.slice(0, 3).map((group) => (
        <span key={group.subject}>
          <GroupLink group={group} className="plain hover:underline">
            <GroupSentence group={group} now={now} />
          </GroupLink>{' '}
        </span>
      ))}
    </p>
  )
}
