import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { ApiError, errorsAt, fieldErrors, toError } from '@/api/client'
import { speak } from '@/i18n'
import { en } from '@/i18n/en'
import { said as sentences } from '@/i18n/said.zh'
import { zh } from '@/i18n/zh'
import type { Instance, Provider, Service } from '@/api/types'
import { changes, includes, label, parseHeaders, providerOf, toForm, validate, withProvider } from '@/pages/services/form'
import { policyChanges, toPolicyForm } from '@/pages/services/policy'
import { flat } from '@/ui/conflict'
import { goString, pythonLiteral, shell, shellQuote, snippet } from '@/lib/snippets'
import { curlOf } from '@/shell/api-calls'

describe('the form of an instance', () => {
  const stored = { name: 'm', baseUrl: 'http://a:1', weight: 1, apiKey: '****1234', headers: { 'X-A': 'b' } } as unknown as Instance
  it('sends nothing when nothing was changed, the key least of all', () => {
    expect(changes(toForm(stored), stored)).toEqual({})
  })
  it('sends only what was changed', () => {
    expect(changes({ ...toForm(stored), weight: '2.5', apiKey: 'new' }, stored)).toEqual({ weight: 2.5, apiKey: 'new' })
  })
  it('knows what it can know', () => {
    expect(validate({ ...toForm(stored), baseUrl: 'ftp://127.0.0.1:1/v1', weight: 'x' })).toEqual({ baseUrl: 'services.invalidUrl', weight: 'services.invalidWeight' })
  })
  it('takes address, dialect and path of a provider, and knows it again by its address', () => {
    const known = [
      { name: 'deepseek', title: 'DeepSeek', baseUrl: 'https://api.deepseek.com', adapter: 'openai', keyVariable: 'DEEPSEEK_API_KEY' },
      { name: 'perplexity', title: 'Perplexity', baseUrl: 'https://api.perplexity.ai', adapter: 'openai', path: '/chat/completions' },
    ] as Provider[]
    const form = withProvider({ ...toForm(null), name: 'sonar', apiKey: 'k' }, known[1])
    expect(form).toMatchObject({ name: 'sonar', apiKey: 'k', baseUrl: 'https://api.perplexity.ai', adapter: 'openai', path: '/chat/completions' })
    expect(providerOf(known, form)?.name).toBe('perplexity')
    expect(providerOf(known, { baseUrl: 'https://api.deepseek.com/v1/' })?.name).toBe('deepseek')
    expect(providerOf(known, { baseUrl: 'https://api.deepseek.com.evil' })).toBeUndefined()
    expect(withProvider(form, undefined)).toMatchObject({ baseUrl: '', adapter: '', path: '' })
  })
  it('reads headers one a line', () => {
    expect(parseHeaders('A: b: c\n\nbroken\nD:e')).toEqual({ A: 'b: c', D: 'e' })
  })
})

describe('what an instance serves', () => {
  const named = { name: 'm', baseUrl: 'http://a:1', models: [], weight: 1, tier: 0 } as unknown as Instance
  const finder = { name: '', baseUrl: 'http://a:1', models: ['discover'], weight: 1, tier: 1 } as unknown as Instance
  it('is one model, all of them or those that match', () => {
    expect([toForm(named).serves, toForm(finder).serves, toForm({ ...finder, models: ['q*', 'l*'] }).patterns]).toEqual(['one', 'all', 'q*, l*'])
    expect([label(named), label(finder), label({ ...finder, models: ['q*'] })]).toEqual(['m', '*', 'q*'])
  })
  it('is sent as models without a name, and back again', () => {
    expect(changes(toForm(finder), finder)).toEqual({})
    expect(changes({ ...toForm(named), serves: 'all' }, named)).toEqual({ name: '', models: ['discover'] })
    expect(changes({ ...toForm(finder), serves: 'some', patterns: 'q*， l*' }, finder)).toEqual({ models: ['q*', 'l*'] })
    expect(changes({ ...toForm(finder), serves: 'one', name: 'x', tier: '2' }, finder)).toEqual({ name: 'x', models: [], tier: 2 })
  })
  it('is all that is listed, or what has the form of a pattern', () => {
    expect([includes(['discover'], 'm'), includes([], 'm'), includes(['m'], 'm'), includes(['m'], 'm2')]).toEqual([true, false, true, false])
    expect(['*', 'q*', '*7b', 'q*7b', 'q*3*7b', 'qwen3:7b*'].map((pattern) => includes([pattern], 'qwen3:7b'))).toEqual([true, true, true, true, true, true])
    expect(['l*', '*8b', 'qwen3:7b*b', 'q*7b*b', 'q.*', 'Q*'].map((pattern) => includes([pattern], 'qwen3:7b'))).toEqual([false, false, false, false, false, false])
    expect(includes(['l*', 'q*'], 'qwen3:7b')).toBe(true)
  })
  it('needs a name or a pattern, and a tier from 0 to 100', () => {
    expect(validate({ ...toForm(finder), serves: 'some' })).toEqual({ patterns: 'services.required' })
    expect(validate({ ...toForm(finder), tier: '101' })).toEqual({ tier: 'services.invalidTier' })
    expect(validate({ ...toForm(finder), tier: '-1' })).toEqual({ tier: 'services.invalidTier' })
  })
})

describe('the policies of a service', () => {
  const stored = {
    loadBalancer: 'round_robin', rateLimit: { enabled: false, capacity: 10, refillRate: 1 }, queue: { size: 0, timeout: 1000 },
    aliases: { fast: 'm' }, fallbacks: { m: ['n', 'o'] }, fallbackOn: ['unavailable'], instances: [],
  } as unknown as Service
  const form = toPolicyForm(stored)
  it('send nothing when nothing was changed, nor for an empty row', () => {
    expect(policyChanges(form, stored)).toEqual({})
    expect(policyChanges({ ...form, aliases: [...form.aliases, ['', '']] }, stored)).toEqual({})
  })
  it('send the members that were changed, and tables of names whole', () => {
    expect(policyChanges({ ...form, value: { ...form.value, queue: { ...form.value.queue, size: 5 } } }, stored)).toEqual({ queue: { size: 5 } })
    expect(policyChanges({ ...form, value: { ...form.value, rateLimit: { ...form.value.rateLimit, capacity: 5 } } }, stored)).toEqual({ rateLimit: { enabled: false, capacity: 5 } })
    expect(policyChanges({ ...form, aliases: [], fallbacks: [['m', ' o,n ']] }, stored)).toEqual({ aliases: {}, fallbacks: { m: ['o', 'n'] } })
  })
  it('are compared member by member where two people edit them', () => {
    expect(flat({ a: 1, b: { c: [1], d: { e: null } } })).toEqual({ a: 1, 'b.c': [1], 'b.d.e': null })
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
    const { said } = speak({ dictionary: zh, sentences })
    const error = new ApiError(400, 'instance.baseUrl: is not a valid URL; instance.weight: must be between 0 (no traffic) and 1000000, not -1', '', '', null, [
      { code: 'field.url', field: 'instance.baseUrl', text: 'is not a valid URL' },
      { code: 'field.weight', field: 'instance.weight', text: 'must be between 0 (no traffic) and 1000000, not -1', values: { found: '-1' } },
    ])
    const english = speak({ dictionary: en, sentences: null }).said
    expect(fieldErrors(error, english)).toEqual({ baseUrl: 'is not a valid URL', weight: 'must be between 0 (no traffic) and 1000000, not -1' })
    expect(fieldErrors(error, said).baseUrl).toBe(sentences['field.url'])
    expect(fieldErrors(error, said).weight).toBe(sentences['field.weight'].replace('{found}', '-1'))
    const one = new ApiError(400, 'fallbacks["m"][1]: is the model itself', '', '', null, [{ code: 'field.fallback_self', field: 'fallbacks["m"][1]' }])
    expect(fieldErrors(one, english)).toEqual({ 'fallbacks["m"][1]': 'is the model itself' })
    expect(errorsAt(fieldErrors(one, english), 'fallbacks["m"]')).toBe('[1] is the model itself')
    expect(errorsAt(fieldErrors(one, english), 'aliases["x"]')).toBeUndefined()
    const two = new ApiError(400, 'name, baseUrl: the instance "m" exists already', '', '', null, [{ code: 'manage.instance_exists', field: 'name, baseUrl', values: { instance: 'm' } }])
    expect(Object.keys(fieldErrors(two, said))).toEqual(['name', 'baseUrl'])
    expect(fieldErrors(new ApiError(400, 'The body is not JSON: see above', '', '', null), said)).toEqual({})
  })
})

describe('snippets', () => {
  const nasty = `it's "quoted" \`tick\` $HOME \\ \n<img>`
  it('quote what a person typed', () => {
    expect(shellQuote("a'b")).toBe(`'a'\\''b'`)
    expect(goString('a`b')).toBe('"a`b"')
    expect(pythonLiteral({ a: [true, null, 'x'] })).toBe('{"a": [True, None, "x"]}')
  })
  it('quote every value of a line for a shell', () => {
    expect(shell`curl ${'http://h/a$(id)'} -H ${"it's"} -s`).toBe(`curl 'http://h/a$(id)' -H 'it'\\''s' -s`)
    const planted = '/api/monitoring/calls/`id`$(id);id|id&id>id#id'
    expect(curlOf({ path: planted }, 'http://h', false)).toBe(`curl 'http://h${planted}'`)
    const form = snippet('curl', { origin: 'http://h', path: '/v1/audio/speech', form: [{ name: 'prompt', value: '@/etc/passwd' }, { name: 'file', file: "a'b.wav" }], key: false })
    expect(form).toContain(`--form-string 'prompt=@/etc/passwd'`)
    expect(form).toContain(`-F 'file=@a'\\''b.wav'`)
  })
  it('are the only way in which pages write commands with values in them', () => {
    const folder = new URL('../src/', import.meta.url)
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => /\.tsx?$/.test(name))
    expect(files.length).toBeGreaterThan(100)
    for (const name of files) {
      const wild = [...readFileSync(new URL(name, folder), 'utf8').matchAll(/(\w*)`(?:curl|wget|patchbay|export) [^`]*\$\{/g)].filter((found) => found[1] !== 'shell' && !found[0].startsWith('`curl -X ${'))
      expect(wild.map((found) => found[0]), name).toEqual([])
    }
  })
  it('never write out the key', () => {
    for (const language of ['curl', 'python', 'node', 'go'] as const) {
      const text = snippet(language, { origin: 'http://h', path: '/v1/chat/completions', json: { content: nasty }, key: true })
      expect(text).toContain('PATCHBAY_KEY')
    }
  })
})
