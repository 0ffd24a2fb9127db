// Numbers, durations and times as the pages show them: at most three
// significant digits, the unit apart, and "–" for what is not known.

export const missing = '–'

export interface Reading {
  value: string
  unit: string
}

const none: Reading = { value: missing, unit: '' }

/** The number with at most three significant digits, and thousands grouped. */
export function digits(value: number, lang = 'en'): string {
  const abs = Math.abs(value)
  const places = abs >= 100 || value === 0 ? 0 : abs >= 10 ? 1 : 2
  const rounded = Number(value.toFixed(places))
  return new Intl.NumberFormat(lang, { maximumFractionDigits: places }).format(rounded)
}

/** A rate such as 18.1 or 0.4; below ten one decimal is enough to compare rows. */
export function rate(value: number | null | undefined, lang = 'en'): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return missing
  // A request or two a minute is not none.
  const places = value >= 100 ? 0 : value > 0 && value < 0.095 ? 2 : 1
  return new Intl.NumberFormat(lang, { minimumFractionDigits: places, maximumFractionDigits: places }).format(value)
}

/** A share or an error rate of 0 to 1, as "33.4 %", "100 %" or "0.0 %". */
export function percent(value: number | null | undefined, places = 1, lang = 'en'): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return missing
  const shown = value * 100
  const fraction = shown >= 99.95 || places === 0 ? 0 : places
  return `${new Intl.NumberFormat(lang, { minimumFractionDigits: fraction, maximumFractionDigits: fraction }).format(shown)} %`
}

/** Milliseconds as a reading, with three digits: 11.2 µs, 0.4 ms, 47.4 ms, 1.31 s, 2.08 min. */
export function duration(ms: number | null | undefined): Reading {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return none
  if (ms === 0) return { value: '0', unit: 'ms' }
  if (ms < 0.1) return { value: digits(ms * 1000), unit: 'µs' }
  if (ms < 999.5) return { value: String(Number(ms.toPrecision(3))), unit: 'ms' }
  if (ms < 9_995) return { value: (ms / 1000).toFixed(2), unit: 's' }
  if (ms < 99_950) return { value: (ms / 1000).toFixed(1), unit: 's' }
  if (ms < 3_600_000) return { value: String(Number((ms / 60_000).toPrecision(3))), unit: 'min' }
  return { value: (ms / 3_600_000).toFixed(1), unit: 'h' }
}

/** Microseconds below a millisecond, for the gateway's own share of a call. */
export function overhead(ms: number | null | undefined): Reading {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return none
  if (ms < 1) return { value: String(Math.round(ms * 1000)), unit: 'µs' }
  return duration(ms)
}

/** A reading as one text with a space between value and unit. */
export function text(reading: Reading): string {
  return reading.unit === '' ? reading.value : `${reading.value} ${reading.unit}`
}

/** The label of an axis: no decimals that say nothing. */
export function axis(reading: Reading): string {
  return text({ ...reading, value: reading.value.includes('.') ? reading.value.replace(/\.?0+$/, '') : reading.value })
}

export function bytes(value: number | null | undefined): Reading {
  if (value === null || value === undefined || !Number.isFinite(value)) return none
  const units = ['B', 'KB', 'MB', 'GB', 'TB']
  let index = 0
  while (value >= 1000 && index < units.length - 1) {
    value /= 1000
    index++
  }
  return { value: digits(value), unit: units[index]! }
}

/** The time of day with milliseconds, in the person's own zone. */
export function clock(time: string | number | Date, millis = false): string {
  const date = new Date(time)
  if (Number.isNaN(date.getTime())) return missing
  const pad = (value: number, size = 2) => String(value).padStart(size, '0')
  const base = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`
  return millis ? `${base}.${pad(date.getMilliseconds(), 3)}` : base
}

/** The date and the time of day, in the person's own zone. */
export function stamp(time: string | number | Date, millis = false): string {
  const date = new Date(time)
  if (Number.isNaN(date.getTime())) return missing
  const pad = (value: number) => String(value).padStart(2, '0')
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(date, millis)}`
}

/** The date and the time of day in UTC, as the ledger counts: "2026-12-01 00:00". */
export function utc(time: string | number): string {
  const date = new Date(time)
  return Number.isNaN(date.getTime()) ? missing : date.toISOString().slice(0, 16).replace('T', ' ')
}

const ageUnits: [Intl.RelativeTimeFormatUnit, number, string][] = [
  ['second', 1, 's'],
  ['minute', 60, 'min'],
  ['hour', 3600, 'h'],
  ['day', 86_400, 'd'],
]

/** The age in its largest fitting unit: 9 seconds, 12 minutes, 3 days. */
function age(time: string | number | Date, now: number): { count: number; unit: (typeof ageUnits)[number] } | null {
  const seconds = Math.round((now - new Date(time).getTime()) / 1000)
  if (!Number.isFinite(seconds)) return null
  const past = Math.max(0, seconds)
  const unit = ageUnits.findLast(([, size]) => past >= size) ?? ageUnits[0]!
  return { count: Math.round(past / unit[1]), unit }
}

const spaced = (value: string) => value.replace(/(\d)(\p{Script=Han})/u, '$1 $2')

/** "9 s ago", "12 min ago" and their Chinese forms. */
export function ago(time: string | number | Date, now: number, lang: string): string {
  const found = age(time, now)
  if (found === null) return missing
  if (lang === 'en') return `${found.count} ${found.unit[2]} ago`
  return spaced(new Intl.RelativeTimeFormat(lang, { numeric: 'always', style: 'narrow' }).format(-found.count, found.unit[0]))
}

/** "9 s", "12 min" and their Chinese forms, for narrow columns. */
export function since(time: string | number | Date, now: number, lang: string): string {
  const found = age(time, now)
  if (found === null) return missing
  if (lang === 'en') return `${found.count} ${found.unit[2]}`
  return spaced(new Intl.NumberFormat(lang, { style: 'unit', unit: found.unit[0], unitDisplay: 'short' }).format(found.count))
}

/** How long something has lasted, in whole units from one second on. */
export const span = (ms: number, lang: string): string => since(0, Math.max(1000, ms), lang)

/** The middle of a long name is left out: the tails tell models apart. */
export function shorten(name: string, max = 28): string {
  const chars = [...name]
  if (chars.length <= max) return name
  const tail = Math.floor((max - 1) * 0.4)
  const head = max - 1 - tail
  return `${chars.slice(0, head).join('')}…${chars.slice(-tail).join('')}`
}

/** A name in two parts: where there is no room, the first loses its end. */
export function tail(name: string): [string, string] {
  const chars = [...name]
  if (chars.length <= 14) return [name, '']
  // Of an address the port tells instances apart.
  const port = /:\d{1,5}$/.exec(name)
  if (port !== null) return [name.slice(0, port.index), port[0]]
  return [chars.slice(0, -7).join(''), chars.slice(-7).join('')]
}

/** The address of an instance without scheme and path, as people say it. */
export function host(url: string): string {
  try {
    const parsed = new URL(url)
    return parsed.host === '' ? url : parsed.host
  } catch {
    return url
  }
}

/** An instance's id is its model's name, "@" and its address. */
export function splitId(id: string): { model: string; url: string; host: string } {
  const at = id.search(/@[a-z][a-z0-9+.-]*:\/\//i)
  const cut = at >= 0 ? at : id.lastIndexOf('@')
  if (cut < 0) return { model: id, url: '', host: '' }
  const url = id.slice(cut + 1)
  return { model: id.slice(0, cut), url, host: host(url) }
}

/** The value below which the share q of the sorted numbers lies. */
export function quantile(sorted: number[], q: number): number | null {
  if (sorted.length === 0) return null
  const index = Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))
  return sorted[index]!
}

/** The next larger of 1, 1.2, 1.6, 2.4, 4, 6, 8 × 10ⁿ: the top of an axis. */
export function niceMax(value: number): number {
  if (!(value > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  for (const step of [1, 1.2, 1.6, 2.4, 4, 6, 8, 10]) {
    if (value <= step * power * 1.0000001) return step * power
  }
  return 10 * power
}
