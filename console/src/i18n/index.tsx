import { createContext, Fragment, useContext, type ReactNode } from 'react'
import { en } from './en'

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

export async function loadDictionary(lang: Language): Promise<Dictionary> {
  return lang === 'en' ? en : (await import('./zh')).zh
}
