import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { docsAddress, docsPages, documentedCode } from '../src/lib/docs'

test('pages of the documentation are linked to in the language of the console', () => {
  expect(docsAddress('zh')).toBe('/docs?lang=zh')
  expect(docsAddress('en', 'traffic', 'circuit-breaker')).toBe('/docs/traffic?lang=en#circuit-breaker')
})

test('every page that is linked to is there in both languages', () => {
  for (const page of Object.keys(docsPages)) {
    for (const lang of ['en', 'zh']) expect(readFileSync(`../docs/served/${lang}/${page}.html.gz`).length).toBeGreaterThan(1000)
  }
})

test('only codes of the unified API are explained', () => {
  expect(documentedCode({ error: { code: 'rate_limit_exceeded', message: 'x' } })).toBe('rate_limit_exceeded')
  expect(documentedCode({ error: { code: null } })).toBeUndefined()
  expect(documentedCode({ error: { code: '<b>' } })).toBeUndefined()
  expect(documentedCode({ errorCode: 'CONFLICT', message: 'x' })).toBeUndefined()
  expect(documentedCode('x')).toBeUndefined()
  expect(documentedCode(null)).toBeUndefined()
})
