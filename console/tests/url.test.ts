import { describe, expect, it } from 'vitest'
import { oneOf, parseList, parseSearch, stringifyList, stringifySearch } from '@/lib/url'

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
