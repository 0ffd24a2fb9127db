import type { Code, Sentence } from '@/api/types'
import { stamp } from '@/lib/format'

/** The sentences of the gateway in one language, by their codes. */
export type Sentences = Record<Code, string>

/** How many sentences are told before the others are only counted. */
const most = 4

export interface Telling {
  /** Null for English, which the gateway speaks itself. */
  sentences: Sentences | null
  /** For values that are nothing. */
  none: string
  /** Between two sentences. */
  and: string
  more(n: number): string
}

/**
 * What the gateway said, in the language of the reader: its sentences by their
 * codes, and what has no code, or one that is not known here, in its own words.
 */
export function tell(telling: Telling, said: Sentence[] | undefined | null, text: string | undefined): string {
  if (said === undefined || said === null || said.length === 0) return text ?? ''
  if (telling.sentences === null) return said.flatMap(timesIn).reduce((told, time) => told.replaceAll(time, stamp(time)), text ?? '')
  const told = said.slice(0, most).map((sentence) => tellOne(telling, sentence, said.length === 1 ? text : undefined))
  if (said.length > most) told.push(telling.more(said.length - most))
  return told.join(telling.and)
}

/** One sentence, without the field that it is about. */
export function tellOne(telling: Telling, sentence: Sentence, text?: string): string {
  const template = telling.sentences?.[sentence.code] ?? sentence.text ?? text
  if (template === undefined) return sentence.code
  if (telling.sentences?.[sentence.code] === undefined) return template
  const filled = template.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const inner = sentence.inner?.[name]
    if (inner !== undefined) return tellOne(telling, inner, sentence.values?.[name])
    return shown(telling, name, sentence.values?.[name] ?? whole)
  })
  return sentence.field === undefined || text === undefined ? filled : `${sentence.field}: ${filled}`
}

const isTime = (value: string) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(value)

/** The values of a sentence that are moments; the gateway tells them in UTC. */
const timesIn = ({ values, inner }: Sentence): string[] => [...Object.values(values ?? {}).filter(isTime), ...Object.values(inner ?? {}).flatMap(timesIn)]

function shown(telling: Telling, name: string, value: string): string {
  if (value === '(none)') return telling.none
  if (isTime(value)) return stamp(value)
  // Names are quoted and listed as in English.
  if (name === 'names') return value.replaceAll('", "', '”、“').replace(/^"/, '“').replace(/"$/, '”')
  // An instance is named by its name and its host.
  return name === 'instance' ? value.replace(/@https?:\/\/([^/]+).*$/, '@$1') : value
}
