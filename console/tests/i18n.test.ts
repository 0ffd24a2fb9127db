import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Sentence } from '@/api/types'
import { speak, translate } from '@/i18n'
import { en } from '@/i18n/en'
import { said } from '@/i18n/said.zh'
import { zh } from '@/i18n/zh'
import { stamp } from '@/lib/format'

const names = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort()
const files = (dir: string): string[] =>
  readdirSync(dir).flatMap((name) => {
    const path = join(dir, name)
    return statSync(path).isDirectory() ? files(path) : [path]
  })
const sources = files('src').filter((path) => /\.tsx?$/.test(path) && !path.endsWith('schema.ts'))

describe('the two languages', () => {
  it('have the same keys', () => {
    expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort())
  })

  it('fill in the same names', () => {
    for (const key of Object.keys(en) as (keyof typeof en)[]) {
      const [first] = en[key].split('|')
      expect(new Set(names(zh[key])), key).toEqual(new Set([...names(first!), ...names(en[key])]))
    }
  })

  it('leave nothing empty, and no exclamation marks', () => {
    for (const [key, text] of [...Object.entries(en), ...Object.entries(zh), ...Object.entries(said)]) {
      expect(text.trim(), key).not.toBe('')
      expect(text, key).not.toMatch(/[!！]|successfully|please|\boops/i)
    }
  })

  it('separate Han from Latin letters and digits', () => {
    for (const [key, text] of [...Object.entries(zh), ...Object.entries(said)]) {
      expect(text, key).not.toMatch(/[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]/)
    }
  })

  it('keep Han characters in the Chinese file only', () => {
    for (const path of sources) {
      if (path.endsWith('zh.ts')) continue
      expect(/[\u4e00-\u9fff]/.test(readFileSync(path, 'utf8')), path).toBe(false)
    }
  })

  it('use each key somewhere', () => {
    const text = sources.filter((path) => !/i18n\/(en|zh)\.ts$/.test(path)).map((path) => readFileSync(path, 'utf8')).join('\n')
    const unused = Object.keys(en).filter((key) => {
      if (text.includes(`'${key}'`) || text.includes(`"${key}"`)) return false
      // Keys may be put together: `res.${level}`.
      const parts = key.split('.')
      for (let n = 1; n < parts.length; n++) if (text.includes('`' + parts.slice(0, n).join('.') + '.${')) return false
      return true
    })
    expect(unused).toEqual([])
  })
})

describe('sentences of the gateway', () => {
  const chinese = speak({ dictionary: zh, sentences: said })
  const english = speak({ dictionary: en, sentences: null })
  it('are those of the API, with no other', () => {
    const document = readFileSync('src/api/schema.ts', 'utf8')
    const list = /SaySentence: \{.*?code: ([^;]*);/s.exec(document)![1]!
    expect(Object.keys(said).sort()).toEqual([...list.matchAll(/"([^"]+)"/g)].map((match) => match[1]!).sort())
  })
  it('are told by their codes, with their values and the sentences in them', () => {
    const sentence: Sentence = { code: 'instance.unhealthy', values: { cause: 'connection refused' }, inner: { cause: { code: 'cause.connection_refused' } } }
    expect(chinese.said([sentence], 'unhealthy: connection refused')).toBe(said['instance.unhealthy'].replace('{cause}', said['cause.connection_refused']))
    expect(english.said([sentence], 'unhealthy: connection refused')).toBe('unhealthy: connection refused')
  })
  it('are told in English where there is no code, or one of a newer gateway', () => {
    expect(chinese.said(undefined, 'as it is')).toBe('as it is')
    expect(chinese.said([{ code: 'of.tomorrow' as 'other' }], 'as it is')).toBe('as it is')
    expect(chinese.said([{ code: 'of.tomorrow' as 'other', text: 'one' }, { code: 'instance.ready', text: 'ready' }], 'one; ready')).toBe(`one${zh['said.and']}${said['instance.ready']}`)
    expect(chinese.said([{ code: 'other', values: { text: 'CUDA out of memory' } }], 'CUDA out of memory')).toBe('CUDA out of memory')
    expect(chinese.said([], undefined)).toBe('')
  })
  it('tell moments by the clock of the reader, and leave the words of others as they are', () => {
    const held: Sentence = { code: 'instance.held', values: { by: 'ann', since: '2026-11-18T21:00:00Z' } }
    const troubled: Sentence = { code: 'found.troubled', values: { instance: 'm@http://gpu-2:8000', why: 'held open by ann since 2026-11-18T21:00:00Z' }, inner: { why: held } }
    const time = stamp('2026-11-18T21:00:00Z')
    expect(english.said([held], 'held open by ann since 2026-11-18T21:00:00Z')).toBe(`held open by ann since ${time}`)
    expect(english.said([troubled], 'm takes no requests: held open by ann since 2026-11-18T21:00:00Z')).toBe(`m takes no requests: held open by ann since ${time}`)
    expect(chinese.said([troubled], '')).toContain(time)
    expect(english.said([{ code: 'other', values: { text: 'down since 2026-11-18T21:00:00Z' } }], 'down since 2026-11-18T21:00:00Z')).toBe('down since 2026-11-18T21:00:00Z')
  })
  it('are counted where they are many, and name instances shortly', () => {
    const added: Sentence = { code: 'change.instance_added', values: { service: 'chat', instance: 'm@http://gpu-2:8000/v1' } }
    const told = chinese.said([added, added, added, added, added, added], '')
    expect(told).toContain('m@gpu-2:8000')
    expect(told).not.toContain('http')
    expect(told.endsWith(translate(zh, 'said.more', { n: 2 }))).toBe(true)
  })
})

describe('translate', () => {
  it('fills in names and chooses the plural', () => {
    expect(translate(en, 'common.instances', { n: 1 })).toBe('1 instance')
    expect(translate(en, 'common.instances', { n: 2 })).toBe('2 instances')
    expect(translate(zh, 'common.instances', { n: 1 })).toBe('1 个实例')
  })
  it('shows what callers wrote as it is', () => {
    expect(translate(en, 'palette.try', { model: '$& {model} <img>' })).toBe('Try $& {model} <img> in the playground')
  })
})
