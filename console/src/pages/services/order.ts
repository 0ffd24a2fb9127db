// How the rows of the services are sorted and grouped. Nothing here draws.
import type { Share } from '@/api/types'
import { host } from '@/lib/format'
import { empty, type Stats } from '@/live/stats'
import { condition, type Condition } from '@/ui/status'
import { label } from './form'
import type { Row } from './row'

export const groupings = ['service', 'model', 'host', 'state'] as const
export type Grouping = (typeof groupings)[number]

export const columns = ['name', 'state', 'dialect', 'weight', 'share', 'rate', 'p95', 'errors'] as const
export type Column = (typeof columns)[number]

/** A column and its direction, as "rate" or "-rate" in the address. */
export interface Sort {
  column: Column
  down: boolean
}

export function parseSort(text: string | undefined): Sort | null {
  const down = text?.startsWith('-') ?? false
  const column = columns.find((one) => one === (down ? text!.slice(1) : text))
  return column === undefined ? null : { column, down }
}

export const sortText = (sort: Sort | null): string | undefined => (sort === null ? undefined : `${sort.down ? '-' : ''}${sort.column}`)

/** The order for another grouping: hosts begin with the slowest, unless somebody chose an order. */
export function sortFor(next: Grouping, before: Grouping, sort: Sort | null): Sort | null {
  if (next === 'host' && sort === null) return { column: 'p95', down: true }
  return before === 'host' && next !== 'host' && sortText(sort) === '-p95' ? null : sort
}

const numbers: readonly Column[] = ['weight', 'share', 'rate', 'p95', 'errors']

/** Numbers begin with the largest, words with A; a third click gives the order of the configuration back. */
export function nextSort(sort: Sort | null, column: Column): Sort | null {
  const first = numbers.includes(column)
  if (sort?.column !== column) return { column, down: first }
  return sort.down === first ? { column, down: !first } : null
}

/** Trouble first, then what serves, then what is off. */
const conditions: Condition[] = ['open', 'unreachable', 'half', 'ok', 'unknown', 'unweighted', 'disabled']

export const conditionOf = (row: Row): Condition => (row.state !== undefined ? condition(row.state) : row.instance.enabled === false ? 'disabled' : row.instance.weight === 0 ? 'unweighted' : 'unknown')

export interface Readings {
  stats: Stats
  /** By "service instanceId". */
  shares: ReadonlyMap<string, Share>
}

export const rowKey = (row: Pick<Row, 'service' | 'id'>) => `${row.service} ${row.id}`

function valueOf(row: Row, column: Column, { stats, shares }: Readings): string | number {
  const stat = stats.instances.get(rowKey(row)) ?? empty
  switch (column) {
    case 'name':
      return `${label(row.instance)} ${host(row.instance.baseUrl)}`
    case 'state':
      return conditions.indexOf(conditionOf(row))
    case 'dialect':
      return row.state?.adapter ?? row.instance.adapter ?? ''
    case 'weight':
      return row.instance.weight ?? 1
    case 'share':
      return shares.get(rowKey(row))?.share ?? -1
    case 'rate':
      return stat.rate
    case 'p95':
      return stat.p95 ?? -1
    case 'errors':
      return stat.errorRate ?? -1
  }
}

const collator = new Intl.Collator('en', { numeric: true })

/** The rows in the order of the column; rows that are equal there keep their order. */
export function sortRows(rows: readonly Row[], sort: Sort | null, readings: Readings): Row[] {
  if (sort === null) return [...rows]
  const values = new Map(rows.map((row) => [row, valueOf(row, sort.column, readings)]))
  const by = (a: Row, b: Row) => {
    const [x, y] = [values.get(a)!, values.get(b)!]
    return typeof x === 'string' ? collator.compare(x, String(y)) : x - Number(y)
  }
  return rows.toSorted((a, b) => (sort.down ? by(b, a) : by(a, b)))
}

export interface Group {
  key: string
  rows: Row[]
}

/** The rows by what they have in common; each group is in the order of its rows. Groups are by their names, states by how bad they are, and where a number sorts the rows by their first rows. */
export function groupRows(rows: readonly Row[], grouping: Grouping, sort: Sort | null = null): Group[] {
  const groups = new Map<string, Row[]>()
  for (const row of rows) {
    const key = { service: () => row.service, model: () => label(row.instance), host: () => host(row.instance.baseUrl), state: () => conditionOf(row) }[grouping]()
    const list = groups.get(key)
    if (list === undefined) groups.set(key, [row])
    else list.push(row)
  }
  const order = (a: string, b: string) => (grouping === 'state' ? conditions.indexOf(a as Condition) - conditions.indexOf(b as Condition) : collator.compare(a, b))
  const list = [...groups].map(([key, members]) => ({ key, rows: members }))
  const isByNumber = sort !== null && numbers.includes(sort.column)
  return grouping === 'service' || isByNumber ? list : list.sort((a, b) => order(a.key, b.key))
}

/** The rows in an order that was seen before; what is new comes last. */
export function inOrder(rows: readonly Row[], seen: ReadonlyMap<string, number>): Row[] {
  const place = (row: Row) => seen.get(rowKey(row)) ?? seen.size
  return rows.toSorted((a, b) => place(a) - place(b))
}
