import type { Key } from '@/api/types'
import { useI18n } from '@/i18n'
import { budgetUnits, budgetWindows, limitNames } from './form'

/** The limits and budgets of a key in words. */
export function useTermWords(currency: string | undefined): (of: Pick<Key, 'limits' | 'budgets'>) => string[] {
  const { t, locale } = useI18n()
  return ({ limits, budgets }) => [
    ...limitNames.filter((name) => limits[name] !== 0).map((name) => (limits[name] < 0 ? t('key.noLimit', { what: t(`key.limit.${name}`) }) : t(`key.term.${name}`, { n: new Intl.NumberFormat(locale).format(limits[name]) }))),
    ...budgetWindows.flatMap((window) => budgetUnits.filter((unit) => budgets[window]?.[unit] !== undefined).map((unit) => `${budgets[window]![unit]} ${unit === 'cost' && currency !== undefined ? currency : t(`key.budget.${unit}`)} / ${t(`key.window.${window}`)}`)),
  ]
}
