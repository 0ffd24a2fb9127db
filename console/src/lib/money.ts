// Amounts of money as the pages show them. The API has millionths of the
// currency's unit.
import type { BudgetUse } from '@/api/types'
import type { I18n } from '@/i18n'

/** An amount without its currency: 16.31, 20, 0.0042. */
export function amount(micros: number | null | undefined, locale = 'en'): string {
  if (micros === null || micros === undefined || !Number.isFinite(micros)) return '–'
  const value = micros / 1e6
  const abs = Math.abs(value)
  if (abs === 0) return '0'
  if (abs >= 1) return new Intl.NumberFormat(locale, { minimumFractionDigits: Number.isInteger(value) ? 0 : 2, maximumFractionDigits: 2 }).format(value)
  return new Intl.NumberFormat(locale, abs >= 0.01 ? { minimumFractionDigits: 2, maximumFractionDigits: 3 } : { maximumSignificantDigits: 2 }).format(value)
}

/** An amount with its currency: 16.31 USD. */
export const money = (micros: number | null | undefined, currency: string, locale = 'en'): string => `${amount(micros, locale)} ${currency}`

/** What was spent under a name; what has no price is not free. */
export function spentText(spent: { currency: string; costs: ReadonlyMap<string, number>; unpriced: ReadonlySet<string> }, name: string, t: I18n['t'], locale: string): string {
  return spent.unpriced.has(name) ? t('spend.noPrice') : money(spent.costs.get(name) ?? 0, spent.currency, locale)
}

/** A change of an amount with its sign: +3.20, −0.5. */
export function difference(micros: number, locale = 'en'): string {
  if (micros === 0) return '0'
  return `${micros > 0 ? '+' : '−'}${amount(Math.abs(micros), locale)}`
}

/** A number of a budget in its unit, money without its currency. */
export const budgetNumber = (value: number, unit: BudgetUse['unit'], locale: string): string => (unit === 'cost' ? amount(value, locale) : new Intl.NumberFormat(locale).format(value))

/** "16.31 of 20 USD", "12 of 100 requests". */
export function budgetText(use: BudgetUse, currency: string, t: I18n['t'], locale: string): string {
  const [used, limit] = [budgetNumber(use.used, use.unit, locale), budgetNumber(use.limit, use.unit, locale)]
  return use.unit === 'cost' ? t('budget.money', { used, limit, currency }) : t('quota.budgetOfLimit', { used, limit, unit: t(`quota.budget.${use.unit}`) })
}

/** A cell that a spreadsheet reads as text, never as a formula. */
export function csvCell(value: string | number): string {
  const text = typeof value === 'string' && /^[=+\-@\t\r\n|%]/.test(value) ? `'${value}` : String(value)
  return /[",;\n\r\t]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

export const csv = (rows: readonly (readonly (string | number)[])[]): string => [...rows.map((row) => row.map(csvCell).join(',')), ''].join('\r\n')

/** Has the browser save a text as a file; the mark tells spreadsheets that it is UTF-8. */
export function download(name: string, text: string, type: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob(['\uFEFF', text], { type: `${type};charset=utf-8` }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}
