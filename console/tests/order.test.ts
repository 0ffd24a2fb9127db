import { describe, expect, it } from 'vitest'
import type { Instance, Share } from '@/api/types'
import { empty } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { groupRows, inOrder, nextSort, parseSort, rowKey, sortFor, sortRows, sortText } from '@/pages/services/order'
import type { Row } from '@/pages/services/row'

const row = (name: string, host: string, weight: number, breaker = 'CLOSED'): Row => ({
  service: 'chat', id: `${name}@http://${host}`, found: [],
  instance: { name, baseUrl: `http://${host}`, weight } as Instance,
  state: { enabled: true, weight, breaker, health: 'HEALTHY', adapter: 'openai' } as InstanceState,
})
const rows = [row('b-10', 'x:1', 2), row('b-9', 'y:1', 1, 'OPEN'), row('a', 'x:1', 0)]
const readings = {
  stats: { total: empty, models: new Map(), services: new Map(), instances: new Map([['chat b-9@http://y:1', { ...empty, rate: 5, p95: 3 }]]) },
  shares: new Map<string, Share>(),
}
const names = (list: Row[]) => list.map((one) => one.instance.name)

describe('the order of instances', () => {
  it('is that of the configuration, until a column is chosen', () => {
    expect(names(sortRows(rows, null, readings))).toEqual(['b-10', 'b-9', 'a'])
    expect(names(sortRows(rows, { column: 'name', down: false }, readings))).toEqual(['a', 'b-9', 'b-10'])
    expect(names(sortRows(rows, { column: 'rate', down: true }, readings))).toEqual(['b-9', 'b-10', 'a'])
    expect(names(sortRows(rows, { column: 'state', down: false }, readings))).toEqual(['b-9', 'b-10', 'a'])
  })
  it('is in the address, and only where there is such a column', () => {
    expect([parseSort('-rate'), parseSort('name'), parseSort('colour'), parseSort(undefined)]).toEqual([{ column: 'rate', down: true }, { column: 'name', down: false }, null, null])
    expect([sortText({ column: 'rate', down: true }), sortText(null)]).toEqual(['-rate', undefined])
  })
  it('begins with the largest number or the first word, turns round, and goes', () => {
    expect(nextSort(null, 'rate')).toEqual({ column: 'rate', down: true })
    expect(nextSort({ column: 'rate', down: true }, 'rate')).toEqual({ column: 'rate', down: false })
    expect(nextSort({ column: 'rate', down: false }, 'rate')).toBeNull()
    expect(nextSort({ column: 'rate', down: true }, 'name')).toEqual({ column: 'name', down: false })
  })
  it('stays while it is held; what is new comes last', () => {
    const seen = new Map([[rowKey(rows[2]!), 0], [rowKey(rows[0]!), 1]])
    expect(names(inOrder(rows, seen))).toEqual(['a', 'b-10', 'b-9'])
  })
})

describe('groups of instances', () => {
  const keys = (grouping: 'model' | 'host' | 'state') => groupRows(rows, grouping).map((group) => `${group.key}: ${names(group.rows).join(' ')}`)
  it('are what the rows have in common, trouble first', () => {
    expect(keys('host')).toEqual(['x:1: b-10 a', 'y:1: b-9'])
    expect(keys('model')).toEqual(['a: a', 'b-9: b-9', 'b-10: b-10'])
    expect(keys('state')).toEqual(['open: b-9', 'ok: b-10', 'unweighted: a'])
  })
  it('of hosts begin with the slowest until somebody chooses an order', () => {
    const slowest = { column: 'p95', down: true } as const
    const chosen = { column: 'name', down: false } as const
    expect(sortFor('host', 'service', null)).toEqual(slowest)
    expect(sortFor('host', 'service', chosen)).toEqual(chosen)
    expect(sortFor('model', 'host', slowest)).toBe(null)
    expect(sortFor('model', 'host', chosen)).toEqual(chosen)
    expect(sortFor('state', 'model', slowest)).toEqual(slowest)
  })
  it('are in the order of a number, the slowest host first', () => {
    const sort = { column: 'p95', down: true } as const
    expect(groupRows(sortRows(rows, sort, readings), 'host', sort).map((group) => group.key)).toEqual(['y:1', 'x:1'])
    const words = { column: 'name', down: true } as const
    expect(groupRows(sortRows(rows, words, readings), 'host', words).map((group) => group.key)).toEqual(['x:1', 'y:1'])
  })
})
