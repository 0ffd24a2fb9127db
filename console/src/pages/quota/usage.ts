import type { Usage } from '@/api/types'
import { csv } from '@/lib/money'

export const windows = ['MINUTE', 'HOUR', 'DAY', 'MONTH'] as const
export const dimensions = ['byModel', 'byService', 'byTenant', 'byKey', 'byUser'] as const
export type Dimension = (typeof dimensions)[number]

const field: Record<Dimension, keyof Usage['dimensions']> = {
  byModel: 'model',
  byService: 'serviceType',
  byTenant: 'tenantId',
  byKey: 'apiKeyId',
  byUser: 'userId',
}

export const dimensionOf = (row: Usage, by: Dimension): string => row.dimensions[field[by]]

/** One value of a dimension, as it is in the URL: byTenant~acme. */
export function parseOnly(text: string): { by: Dimension; value: string } | null {
  const [by, ...rest] = text.split('~')
  const value = rest.join('~')
  return value !== '' && (dimensions as readonly string[]).includes(by!) ? { by: by as Dimension, value } : null
}

export interface Group {
  name: string
  value: number
  share: number
}

export interface WindowBar {
  start: string
  total: number
  /** The parts of the largest groups, in the order of the groups. */
  parts: number[]
}

/** The usage by group, largest first, and by window, oldest first. */
export function totals(rows: readonly Usage[], by: Dimension, measure: 'requests' | 'tokens'): { groups: Group[]; bars: WindowBar[] } {
  const value = (row: Usage) => (measure === 'requests' ? row.requestCount : row.tokenCount)
  const sums = new Map<string, number>()
  for (const row of rows) {
    const name = row.dimensions[field[by]]
    sums.set(name, (sums.get(name) ?? 0) + value(row))
  }
  const all = [...sums.values()].reduce((sum, one) => sum + one, 0)
  const groups = [...sums].map(([name, sum]) => ({ name, value: sum, share: all === 0 ? 0 : sum / all })).sort((a, b) => b.value - a.value || a.name.localeCompare(b.name))
  const top = groups.slice(0, 3).map((group) => group.name)
  const bars = new Map<string, WindowBar>()
  for (const row of rows) {
    const bar = bars.get(row.windowStart) ?? { start: row.windowStart, total: 0, parts: [0, 0, 0, 0] }
    const index = top.indexOf(row.dimensions[field[by]])
    bar.total += value(row)
    bar.parts[index < 0 ? 3 : index]! += value(row)
    bars.set(row.windowStart, bar)
  }
  return { groups, bars: [...bars.values()].sort((a, b) => a.start.localeCompare(b.start)) }
}

export function toCsv(rows: readonly Usage[]): string {
  const head = ['windowStart', 'window', 'tenantId', 'apiKeyId', 'userId', 'serviceType', 'model', 'requestCount', 'tokenCount']
  return csv([head, ...rows.map(({ windowStart, window, dimensions: d, requestCount, tokenCount }) => [windowStart, window, d.tenantId, d.apiKeyId, d.userId, d.serviceType, d.model, requestCount, tokenCount])])
}
