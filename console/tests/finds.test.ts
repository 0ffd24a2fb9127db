import { expect, it } from 'vitest'
import { translate, type I18n } from '@/i18n'
import { en } from '@/i18n/en'
import { zh } from '@/i18n/zh'
import { readVerb } from '@/shell/finds'

it('reads what is to be done, and to what', () => {
  const t = (words: typeof en): I18n['t'] => (key, values) => translate(words, key, values)
  expect(readVerb('disable gpu2', t(en))).toEqual({ verb: 'disable', rest: 'gpu2' })
  expect(readVerb('Dis GPU2 ', t(en))).toEqual({ verb: 'disable', rest: 'gpu2' })
  expect(readVerb('drain', t(en))).toEqual({ verb: 'drain', rest: '' })
  expect(readVerb('停用gpu2', t(zh as typeof en))).toEqual({ verb: 'disable', rest: 'gpu2' })
  expect(readVerb('gpu2', t(en))).toBeNull()
  expect(readVerb('distributed', t(en))).toBeNull()
})
