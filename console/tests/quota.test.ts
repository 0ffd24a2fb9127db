import { expect, it } from 'vitest'
import type { BudgetUse, Usage } from '@/api/types'
import { isAmong } from '@/pages/quota/refused'
import { toCsv, totals } from '@/pages/quota/usage'

const use = (model: string, start: string, requestCount: number, tokenCount: number, tenantId = ''): Usage => ({
  dimensions: { tenantId, apiKeyId: '', userId: '', serviceType: 'chat', model }, window: 'MINUTE', windowStart: start, requestCount, tokenCount, promptTokens: 0, completionTokens: tokenCount, cost: 0,
})

it('sums usage by group and by window', () => {
  const { groups, bars } = totals([use('a', '2026-01-01T00:01:00Z', 1, 10), use('b', '2026-01-01T00:00:00Z', 3, 2), use('a', '2026-01-01T00:00:00Z', 1, 1)], 'byModel', 'requests')
  expect(groups.map((group) => [group.name, group.value])).toEqual([['b', 3], ['a', 2]])
  expect(bars.map((bar) => [bar.start, bar.total, bar.parts])).toEqual([['2026-01-01T00:00:00Z', 4, [3, 1, 0, 0]], ['2026-01-01T00:01:00Z', 1, [0, 1, 0, 0]]])
})

it('tells the budgets of an account apart', () => {
  const month = { of: 'tenant/acme', window: 'MONTH', unit: 'cost' } as BudgetUse
  const refused = [{ budget: month, group: null }]
  expect(isAmong(refused, { ...month, used: 1 })).toBe(true)
  for (const other of [{ of: 'tenant/other' }, { window: 'DAY' }, { unit: 'tokens' }] as Partial<BudgetUse>[]) expect(isAmong(refused, { ...month, ...other })).toBe(false)
})

it('writes CSV that a spreadsheet does not run', () => {
  const csv = toCsv([use('a,"b"', 'x', 1, 2, '=HYPERLINK("evil")')])
  expect(csv.split('\r\n')[1]).toBe(`x,MINUTE,"'=HYPERLINK(""evil"")",,,chat,"a,""b""",1,2`)
})
