import { describe, expect, it } from 'vitest'
import type { BudgetUse, ProblemGroup, Spend, SpendGroup } from '@/api/types'
import { amount, budgetText, csv, difference, money } from '@/lib/money'
import { en } from '@/i18n/en'
import { zh } from '@/i18n/zh'
import { translate, type I18n } from '@/i18n'
import { refusing } from '@/pages/quota/refused'
import { move, periodName, readPeriod } from '@/pages/spend/period'
import { budgetOf, hasNoPrice, foretold, grewMost, layers, toCsv, usedUpAt } from '@/pages/spend/sums'

const group = (name: string, cost: number, costs: number[], before: number | null = null, forecast: number | null = null): SpendGroup => ({
  name, cost, costs, before, forecast, pace: null, forecastLow: forecast, forecastHigh: forecast, requestCount: 1, unpriced: 0, tokenCount: 2, promptTokens: 1, completionTokens: 1,
})
const spend = (groups: SpendGroup[], rest: Partial<Spend> = {}): Spend => ({
  enabled: true, priced: true, currency: 'USD', by: 'tenant', step: 'DAY', from: '2026-11-01T00:00:00Z', to: '2026-11-04T00:00:00Z',
  starts: ['2026-11-01T00:00:00Z', '2026-11-02T00:00:00Z', '2026-11-03T00:00:00Z'], complete: true, beforeFrom: null, others: null, unpriced: [], groups,
  total: group('', groups.reduce((sum, one) => sum + one.cost, 0), [0, 1, 2].map((step) => groups.reduce((sum, one) => sum + one.costs[step]!, 0))),
  ...rest,
})
const use = (part: Partial<BudgetUse>): BudgetUse => ({ of: 'tenant/acme', window: 'MONTH', unit: 'cost', limit: 20_000_000, used: 16_310_000, reserved: 0, reset: '2026-12-01T00:00:00Z', ...part })

it('writes amounts with as many digits as they need', () => {
  expect([0, 16_310_000, 20_000_000, 1_500_000, 12_345_678_900, 420_000, 4_200, 7, null].map((micros) => amount(micros))).toEqual(['0', '16.31', '20', '1.50', '12,345.68', '0.42', '0.0042', '0.000007', '–'])
  expect([money(2_500_000, 'EUR'), difference(3_200_000), difference(-500_000), difference(0)]).toEqual(['2.50 EUR', '+3.20', '−0.50', '0'])
})

it('says of a budget what is used, of what, in its unit', () => {
  const t = (dictionary: typeof en): I18n['t'] => (key, values) => translate(dictionary, key, values)
  expect(budgetText(use({}), 'USD', t(en), 'en')).toBe('16.31 of 20 USD')
  expect(budgetText(use({}), 'USD', t(zh as typeof en), 'zh-CN')).toBe('16.31 / 20 USD')
  expect(budgetText(use({ unit: 'requests', used: 1200, limit: 5000 }), 'USD', t(en), 'en')).toBe('1,200 of 5,000 requests')
})

describe('periods', () => {
  const now = Date.parse('2026-11-17T12:34:00Z')
  const text = (kind: 'day' | 'week' | 'month' | 'range', search = {}) => {
    const { from, to } = readPeriod(kind, search, now)
    return `${new Date(from).toISOString().slice(0, 10)} ${new Date(to).toISOString().slice(0, 10)}`
  }
  it('are days, weeks from Monday, months, and any range with both of its days', () => {
    expect(text('day')).toBe('2026-11-17 2026-11-18')
    expect(text('week')).toBe('2026-11-16 2026-11-23')
    expect(text('week', { at: '2026-11-15' })).toBe('2026-11-09 2026-11-16')
    expect(text('month', { at: '2026-02-28' })).toBe('2026-02-01 2026-03-01')
    expect(text('range', { from: '2026-11-03', to: '2026-11-05' })).toBe('2026-11-03 2026-11-06')
    expect(text('range', { from: '2026-11-05', to: '2026-11-03' })).toBe('2026-11-03 2026-11-06')
    expect(text('month', { at: 'x' })).toBe('2026-11-01 2026-12-01')
  })
  it('have one before and one after', () => {
    expect(move(readPeriod('month', {}, now), -1).at).toBe('2026-10-31')
    expect(move(readPeriod('week', {}, now), 1).at).toBe('2026-11-23')
    expect(move(readPeriod('range', { from: '2026-11-03', to: '2026-11-05' }, now), -1)).toEqual({ from: '2026-10-31', to: '2026-11-02', at: undefined })
  })
  it('have names in both languages', () => {
    expect(periodName(readPeriod('month', {}, now), 'en')).toBe('November 2026')
    expect(periodName(readPeriod('month', {}, now), 'zh-CN')).toBe('2026 年 11 月')
    expect(periodName(readPeriod('week', {}, now), 'en')).toMatch(/^16\D+22 Nov 2026$/)
  })
})

it('stacks the most expensive groups and all others', () => {
  const all = spend([group('a', 6, [1, 2, 3]), group('b', 3, [1, 1, 1]), group('c', 2, [0, 1, 1]), group('d', 0, [0, 0, 0])])
  expect(layers(all, 2).map(({ name, costs }) => [name, costs])).toEqual([['a', [1, 2, 3]], ['b', [1, 1, 1]], [null, [0, 1, 1]]])
})

it('finds who grew most, by the end of the period', () => {
  const list = [group('big', 900, [0, 0, 0], 1000, 1100), group('fast', 50, [0, 0, 0], 10, 300), group('new', 5, [0, 0, 0], 0, 20), group('less', 5, [0, 0, 0], 50, 20)]
  expect(grewMost(list, false, 5).map(({ name }) => name)).toEqual(['fast', 'big'])
  const young = list.map((one) => ({ ...one, forecast: null }))
  expect(grewMost(young, false, 5)).toEqual([])
  expect(grewMost(young, true, 5).map(({ name }) => name)).toEqual(['fast'])
})

it('spreads the forecast over the steps that have not begun', () => {
  const now = Date.parse('2026-11-02T12:00:00Z')
  const all = spend([group('a', 6, [4, 2, 0])], {})
  all.total.forecast = 12
  expect(foretold(all, now)).toEqual([null, null, 4])
  expect(foretold({ ...all, total: { ...all.total, forecast: null } }, now)).toEqual([null, null, null])
})

it('knows when a budget does not last', () => {
  const now = Date.parse('2026-11-17T00:00:00Z')
  const day = 86_400_000
  expect(usedUpAt(use({}), 1_000_000 / day, now)).toBe(now + 3.69 * day)
  expect(usedUpAt(use({}), 100_000 / day, now)).toBeNull()
  expect(usedUpAt(use({ used: 20_000_000 }), 0, now)).toBe(now)
  expect(budgetOf([use({ window: 'DAY' }), use({}), use({ unit: 'tokens' })], 'tenant', 'acme', 'month')?.window).toBe('MONTH')
  expect(budgetOf([use({})], 'model', 'acme', 'month')).toBeNull()
})

it('writes CSV that a spreadsheet reads as text and numbers, and never runs', () => {
  const text = toCsv(spend([group('=HYPERLINK("http://evil","x")', 1_500_000, [1_000_000, 500_000, 0], 250_000), group('a,"b"\nc', 1, [1, 0, 0])]))
  expect(text).toContain(`"'=HYPERLINK(""http://evil"",""x"")",USD,`)
  expect(text).toContain('"a,""b""\nc",USD,')
  expect(text.split('\r\n')[1]).toMatch(/,1\.5,1,0,2,1,1,0\.25,,1,0\.5,0$/)
  expect(csv([['+1', '-1', '@x', '\tx', '|x', '%x', 'ok', -1]])).toBe(`'+1,'-1,'@x,"'\tx",'|x,'%x,ok,-1\r\n`)
})

it('tells what has no price from what costs nothing', () => {
  const free = group('free', 0, [0, 0, 0])
  const unknown = { ...free, name: 'unknown', unpriced: 1 }
  expect([hasNoPrice(free), hasNoPrice(unknown), hasNoPrice({ ...unknown, cost: 5 })]).toEqual([false, true, false])
  expect(toCsv(spend([unknown])).split('\r\n')[1]).toMatch(/^unknown,USD,[^,]*,[^,]*,,1,1,2,/)
})

describe('budgets that refuse', () => {
  const now = Date.parse('2026-11-17T16:00:00Z')
  const refused = (limit: string, code = 'budget_exceeded'): ProblemGroup => ({
    kind: 'refusal', subject: 'tenant/acme', service: 'chat', code, models: ['m'], instances: [], state: 'refusing', summary: '', lost: 0, rescued: 0, refused: 3, tried: 0, since: '2026-11-17T15:00:00Z', last: '2026-11-17T15:50:00Z',
    until: '2026-12-01T00:00:00Z', requestId: 'r', said: [{ code: 'call.budget_out_tenant', values: { tenant: 'acme', limit, unit: 'USD', window: 'this month', used: '19.90', usedUnit: 'USD' }, inner: { unit: { code: 'other', values: { text: 'USD' } }, window: { code: 'budget.month' } } }],
  })
  const outOf = (budget: BudgetUse, groups: ProblemGroup[]) => refusing([budget], groups, now).map((one) => one.group?.refused ?? null)
  it('are those whose rest is too little for a call', () => {
    expect(outOf(use({ used: 19_900_000 }), [refused('20')])).toEqual([3])
    expect(outOf(use({ used: 19_900_000 }), [])).toEqual([])
  })
  it('are those that are used up, though nobody asked since', () => expect(outOf(use({ used: 20_000_000 }), [])).toEqual([null]))
  it('are not those that were raised since, or that are only reserved', () => {
    expect(outOf(use({ limit: 40_000_000 }), [refused('20')])).toEqual([])
    expect(outOf(use({}), [refused('20', 'budget_reserved')])).toEqual([])
  })
  it('are not those that began anew', () => expect(refusing([use({ used: 0 })], [refused('20')], Date.parse('2026-12-01T00:00:01Z'))).toEqual([]))
  it('are not those of another window', () => expect(outOf(use({ window: 'DAY' }), [refused('20')])).toEqual([]))
})
