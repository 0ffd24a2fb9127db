import { describe, expect, it } from 'vitest'
import { ApiError, fieldErrors, toError } from '@/api/client'
import type { Instance } from '@/api/types'
import { changes, parseHeaders, toForm, validate } from '@/pages/services/form'
import { goString, pythonLiteral, shellQuote, snippet } from '@/lib/snippets'

describe('the form of an instance', () => {
  const stored = { name: 'm', baseUrl: 'http://a:1', weight: 1, apiKey: '****1234', headers: { 'X-A': 'b' } } as unknown as Instance
  it('sends nothing when nothing was changed, the key least of all', () => {
    expect(changes(toForm(stored), stored)).toEqual({})
  })
  it('sends only what was changed', () => {
    expect(changes({ ...toForm(stored), weight: '2.5', apiKey: 'new' }, stored)).toEqual({ weight: 2.5, apiKey: 'new' })
  })
  it('knows what it can know', () => {
    expect(validate({ ...toForm(stored), baseUrl: '127.0.0.1:1/v1', weight: 'x' })).toEqual({ baseUrl: 'services.invalidUrl', weight: 'services.invalidWeight' })
  })
  it('reads headers one a line', () => {
    expect(parseHeaders('A: b: c\n\nbroken\nD:e')).toEqual({ A: 'b: c', D: 'e' })
  })
})

describe('errors', () => {
  it('have one shape whatever the gateway sends', () => {
    expect(toError(400, { success: false, message: 'a: b', data: null }, 'r')).toMatchObject({ message: 'a: b', code: '' })
    expect(toError(503, { error: { message: 'm', code: 'c' } }, '')).toMatchObject({ message: 'm', code: 'c' })
    expect(toError(400, { error: 'plain' }, '')).toMatchObject({ message: 'plain' })
    expect(toError(502, '<html>', '')).toMatchObject({ message: '<html>' })
    expect(toError(500, null, '')).toMatchObject({ message: 'HTTP 500' })
  })
  it('name the fields', () => {
    const error = new ApiError(400, 'instance.baseUrl: is not a valid URL; instance.weight: must be between 0 (no traffic) and 1000000, not -1', '', '', null)
    expect(fieldErrors(error)).toEqual({ baseUrl: 'is not a valid URL', weight: 'must be between 0 (no traffic) and 1000000, not -1' })
  })
})

describe('snippets', () => {
  const nasty = `it's "quoted" \`tick\` $HOME \\ \n<img>`
  it('quote what a person typed', () => {
    expect(shellQuote("a'b")).toBe(`'a'\\''b'`)
    expect(goString('a`b')).toBe('"a`b"')
    expect(pythonLiteral({ a: [true, null, 'x'] })).toBe('{"a": [True, None, "x"]}')
  })
  it('never write out the key', () => {
    for (const language of ['curl', 'python', 'node', 'go'] as const) {
      const text = snippet(language, { origin: 'http://h', path: '/v1/chat/completions', json: { content: nasty }, key: true })
      expect(text).toContain('PATCHBAY_KEY')
    }
  })
})
