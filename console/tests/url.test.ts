import { describe, expect, it } from 'vitest'
import { oneOf, parseList, parseSearch, renamed, stringifyList, stringifySearch, type Search } from '@/lib/url'

describe('the state in the URL', () => {
  it('survives the way there and back', () => {
    for (const state of [{}, { q: 'a b&c=d#?%' }, { q: '中文', open: 'demo@http://127.0.0.1:9/x?y=1' }]) {
      expect(parseSearch(stringifySearch(state))).toEqual(state)
    }
  })
  it('leaves out what says nothing', () => {
    expect(stringifySearch({ a: '', b: undefined, c: null, d: '0' })).toBe('?d=0')
  })
  it('takes the first of two equal names', () => {
    expect(parseSearch('?a=1&a=2')).toEqual({ a: '1' })
  })
  it('follows an instance to its new name', () => {
    const page = { service: 'chat', id: 'a@http://h', edit: 'chat/a@http://h', range: '1h' }
    expect(renamed(page, 'chat', 'a@http://h', 'b@http://h')).toEqual({ service: 'chat', id: 'b@http://h', edit: 'chat/b@http://h', range: '1h' })
    expect(renamed({ service: 'chat', id: 'a', edit: 'chat/a@http://h' }, 'chat', 'a@http://h', 'b@http://h')).toEqual({ service: 'chat', id: 'a', edit: 'chat/b@http://h' })
    for (const other of [{ q: 'x' }, { service: 'embedding', id: 'a@http://h' }, { edit: 'chat/c@http://h' }] as Search[]) expect(renamed(other, 'chat', 'a@http://h', 'b@http://h')).toEqual(other)
  })
  it('falls back to the first allowed value', () => {
    expect(oneOf('1h', ['5m', '1h'])).toBe('1h')
    expect(oneOf('<script>', ['5m', '1h'])).toBe('5m')
  })
  it('keeps lists of names with commas', () => {
    const items = ['a,b', 'c~1', '~', 'd']
    expect(parseList(stringifyList(items))).toEqual(items)
    expect(parseList(undefined)).toEqual([])
  })
})
