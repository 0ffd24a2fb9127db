// The periods of the page, in UTC as the ledger counts them.

export const periods = ['month', 'week', 'day', 'range'] as const
export type PeriodKind = (typeof periods)[number]

export interface Period {
  kind: PeriodKind
  /** Milliseconds; `to` is not part of it. */
  from: number
  to: number
}

const day = 86_400_000
const midnight = (time: number) => Math.floor(time / day) * day

/** "2026-11-17" to its first millisecond; null for what is no date. */
export function parseDay(text: string | undefined): number | null {
  if (text === undefined || !/^\d{4}-\d\d-\d\d$/.test(text)) return null
  const time = Date.parse(`${text}T00:00:00Z`)
  return Number.isNaN(time) ? null : time
}

export const dayText = (time: number): string => new Date(time).toISOString().slice(0, 10)

/** The period of a kind that holds a moment. */
export function periodAt(kind: Exclude<PeriodKind, 'range'>, time: number): Period {
  const date = new Date(time)
  if (kind === 'month') return { kind, from: Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1), to: Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1) }
  const start = midnight(time)
  if (kind === 'day') return { kind, from: start, to: start + day }
  const monday = start - ((date.getUTCDay() + 6) % 7) * day
  return { kind, from: monday, to: monday + 7 * day }
}

/** The period that an address names: ?period=week&at=2026-11-17 or ?period=range&from=…&to=…, both days included. */
export function readPeriod(kind: PeriodKind, search: { at?: string; from?: string; to?: string }, now: number): Period {
  if (kind !== 'range') return periodAt(kind, parseDay(search.at) ?? now)
  const to = parseDay(search.to) ?? midnight(now)
  const from = parseDay(search.from) ?? to - 13 * day
  return { kind, from: Math.min(from, to), to: Math.max(from, to) + day }
}

/** The address of the next or the previous period. */
export function move(period: Period, by: 1 | -1): { at?: string; from?: string; to?: string } {
  if (period.kind !== 'range') return { at: dayText(by > 0 ? period.to : period.from - 1), from: undefined, to: undefined }
  const length = period.to - period.from
  return { from: dayText(period.from + by * length), to: dayText(period.to + by * length - day), at: undefined }
}

const format = (locale: string, options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(locale === 'en' ? 'en-GB' : locale, { timeZone: 'UTC', ...options })

/** Han and digits have a space between them. */
const spaced = (text: string) => text.replace(/(\d)(\p{Script=Han})/gu, '$1 $2').replace(/(\p{Script=Han})(\d)/gu, '$1 $2')

export const dateText = (time: number, locale: string): string => spaced(format(locale, { day: 'numeric', month: 'short' }).format(time))

/** "November 2026", "16 – 22 Nov 2026", "17 Nov 2026". */
export function periodName({ kind, from, to }: Period, locale: string): string {
  if (kind === 'month') return spaced(format(locale, { month: 'long', year: 'numeric' }).format(from))
  const whole = format(locale, { day: 'numeric', month: locale === 'en' ? 'short' : 'long', year: 'numeric' })
  return spaced(to - from <= day ? whole.format(from) : whole.formatRange(from, to - 1))
}

/** The label of a step on an axis. */
export function stepName(start: string, step: string, locale: string): string {
  const time = Date.parse(start)
  if (step === 'HOUR' || step === 'MINUTE') return new Date(time).toISOString().slice(11, 16)
  return step === 'MONTH' ? spaced(format(locale, { month: 'short', year: '2-digit' }).format(time)) : dateText(time, locale)
}
