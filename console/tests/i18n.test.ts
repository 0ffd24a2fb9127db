import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { translate } from '@/i18n'
import { en } from '@/i18n/en'
import { zh } from '@/i18n/zh'

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
    for (const [key, text] of [...Object.entries(en), ...Object.entries(zh)]) {
      expect(text.trim(), key).not.toBe('')
      expect(text, key).not.toMatch(/[!！]|successfully|please|oops/i)
    }
  })

  it('separate Han from Latin letters and digits', () => {
    for (const [key, text] of Object.entries(zh)) {
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
