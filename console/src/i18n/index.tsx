import { createContext, Fragment, useContext, type ReactNode } from 'react'
import { ApiError } from '@/api/client'
import type { Sentence } from '@/api/types'
import { en } from './en'
import { tell, type Sentences, type Telling } from './tell'

export type Language = 'en' | 'zh'
export type Key = keyof typeof en
export type Dictionary = Record<Key, string>
type Values = Record<string, string | number>

/**
 * The text of a key with its {names} filled in. "one|other" in a text is
 * chosen by the value {n}, for languages that have a plural.
 */
export function translate(dictionary: Dictionary, key: Key, values: Values = {}): string {
  return form(dictionary, key, values.n).replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole))
}

function form(dictionary: Dictionary, key: Key, n: ReactNode): string {
  const entry = dictionary[key]
  const forms = entry.split('|')
  return forms.length === 2 ? (Number(n) === 1 ? forms[0]! : forms[1]!) : entry
}

export interface I18n {
  lang: Language
  /** The tag for Intl: en or zh-CN. */
  locale: string
  setLang(lang: Language): void
  t(key: Key, values?: Values): string
  /** What the gateway said, beside its English text. */
  said(said: Sentence[] | undefined | null, text: string | undefined): string
  /** What went wrong, in a sentence. */
  failure(error: unknown): string
}

export const I18nContext = createContext<(I18n & { dictionary: Dictionary }) | null>(null)

export function useI18n(): I18n {
  const context = useContext(I18nContext)
  if (context === null) throw new Error('useI18n needs an I18nContext')
  return context
}

/** A translated sentence whose {names} are elements, such as names in mono. */
export function T({ k, v }: { k: Key; v: Record<string, ReactNode> }) {
  const context = useContext(I18nContext)
  if (context === null) return null
  const parts = form(context.dictionary, k, v.n).split(/(\{\w+\})/)
  return parts.map((part, index) => {
    const name = /^\{(\w+)\}$/.exec(part)?.[1]
    return <Fragment key={index}>{name !== undefined && name in v ? v[name] : part}</Fragment>
  })
}

/** The texts of a language: those of the console, and those of the gateway where it does not speak it. */
export interface Texts {
  dictionary: Dictionary
  sentences: Sentences | null
}

export async function loadTexts(lang: Language): Promise<Texts> {
  if (lang === 'en') return { dictionary: en, sentences: null }
  const [{ zh }, { said }] = await Promise.all([import('./zh'), import('./said.zh')])
  return { dictionary: zh, sentences: said }
}

/** Everything that is said in a language. */
export function speak({ dictionary, sentences }: Texts): Pick<I18n, 't' | 'said' | 'failure'> {
  const t: I18n['t'] = (key, values) => translate(dictionary, key, values)
  const telling: Telling = { sentences, none: t('said.none'), and: t('said.and'), more: (n) => t('said.more', { n }) }
  const said: I18n['said'] = (list, text) => tell(telling, list, text)
  return {
    t,
    said,
    failure: (error) => (error instanceof ApiError ? said(error.said, error.message) : error instanceof TypeError ? t('error.network') : String((error as Error | null)?.message ?? error)),
  }
}
