// The search of calls, which the gateway makes: what is asked is in the
// address, pages follow each other by a cursor, and new calls come on top.
import { useCallback, useEffect, useRef, useState } from 'react'
import { api, body } from '@/api/client'
import { toCall, type Call, type CallList } from '@/api/types'
import type { Search } from '@/lib/url'

export const shown = ['all', 'failed', 'lost', 'rescued', 'refused', 'retried', 'troubled', 'answered'] as const
/** What the page shows: calls that ended in some way, or the requests that run. */
export const views = [...shown, 'running'] as const

/** The parameters of the address that are compared whole by the gateway. */
export const exact = ['service', 'model', 'asked', 'instance', 'host', 'tenant', 'keyId', 'user', 'run', 'httpStatus', 'errorCode', 'refusedBy'] as const
export type Exact = (typeof exact)[number]

export const spans: Record<string, number> = { '15m': 900_000, '1h': 3_600_000, '24h': 86_400_000, '7d': 7 * 86_400_000 }

/** How many calls a page has; with it a page load stays below 60 KB. */
export const pageSize = 50
/** The list keeps so many calls; older ones are found by a filter. */
const mostRows = 5000
const interval = 2000

export type Question = Record<string, string>

/** What the address asks of the gateway; a span of time counts from now. */
export function questionOf(search: Search, now: number): Question {
  const question: Question = {}
  for (const name of exact) if ((search[name] ?? '') !== '') question[name] = search[name]!
  // What a person types may be a part of a name; links from other pages name the whole.
  if (search.parts === '1' && Object.keys(question).length > 0) question.parts = 'true'
  for (const name of ['q', 'errorText'] as const) if ((search[name] ?? '').trim() !== '') question[name] = search[name]!.trim()
  if (search.show !== undefined && search.show !== 'all' && (shown as readonly string[]).includes(search.show)) question.outcome = search.show
  const least = Number(search.min)
  if (search.min !== undefined && Number.isFinite(least) && least > 0) question.minDurationMs = String(least)
  const span = spans[search.span ?? '']
  if (span !== undefined) question.from = new Date(now - span).toISOString()
  for (const name of ['from', 'to'] as const) {
    const time = Date.parse(search[name] ?? '')
    if (!Number.isNaN(time)) question[name] = new Date(time).toISOString()
  }
  return question
}

/** The part of the address that belongs to the search. */
export function searchKey(search: Search): string {
  return JSON.stringify([...exact, 'parts', 'q', 'errorText', 'show', 'min', 'span', 'from', 'to'].map((name) => search[name] ?? ''))
}

/** The requests that run and that the address asks for: they have no outcome and no time yet. */
export function runningQuestion(search: Search): Question {
  const names = ['service', 'model', 'instance', 'host', 'keyId', 'tenant', 'user', 'q'] as const
  return Object.fromEntries(names.map((name) => [name, (search[name] ?? '').trim()]).filter(([, value]) => value !== ''))
}

export interface Found {
  rows: readonly Call[]
  /** New calls that are not shown yet, because the list is held. */
  fresh: readonly Call[]
  next: string | undefined
  /** Until when the search has looked, where it has more to look at. */
  reached: string | undefined
  capacity: number
  fileDays: number
  samplingRate: number
  isLoading: boolean
  isLoaded: boolean
  error: unknown
}

const nothing: Found = { rows: [], fresh: [], next: undefined, reached: undefined, capacity: 0, fileDays: 0, samplingRate: 1, isLoading: true, isLoaded: false, error: null }

async function ask(question: Question, signal: AbortSignal): Promise<CallList & { rows: Call[] }> {
  const query = { ...question, brief: true, limit: pageSize } as never
  const page = (await body(api.GET('/api/monitoring/calls', { params: { query }, signal }))) as CallList
  return { ...page, rows: page.calls.map(toCall) }
}

/** Puts new calls before those that are there. More new ones than a page are a new list. */
export function withNew(found: Found, page: { rows: Call[]; next?: string; reached?: string }, hold: boolean): Found {
  if (page.rows.length === 0) return found
  if (page.rows.length >= pageSize && page.next !== undefined && !hold) return { ...found, rows: page.rows, fresh: [], next: page.next, reached: page.reached }
  if (hold) return { ...found, fresh: [...page.rows, ...found.fresh].slice(0, mostRows) }
  return { ...found, rows: [...page.rows, ...found.fresh, ...found.rows].slice(0, mostRows), fresh: [] }
}

export function useCallSearch(search: Search, hold: boolean): Found & { more(): void; release(): void } {
  const key = searchKey(search)
  const [found, setFound] = useState<Found>(nothing)
  const latest = useRef<string | undefined>(undefined)
  const asked = useRef<AbortController>(new AbortController())
  const held = useRef(hold)
  held.current = hold
  const current = useRef(search)
  current.current = search

  useEffect(() => {
    const abort = new AbortController()
    asked.current = abort
    latest.current = undefined
    setFound((old) => ({ ...old, isLoading: true, error: null }))
    let timer: ReturnType<typeof setTimeout> | undefined
    const first = async () => {
      try {
        const page = await ask(questionOf(current.current, Date.now()), abort.signal)
        latest.current = page.latest
        setFound({ rows: page.rows, fresh: [], next: page.next, reached: page.reached, capacity: page.capacity, fileDays: page.fileDays ?? 0, samplingRate: page.samplingRate, isLoading: false, isLoaded: true, error: null })
      } catch (error) {
        if (!abort.signal.aborted) setFound((old) => ({ ...old, isLoading: false, error }))
      }
      if (!abort.signal.aborted) timer = setTimeout(follow, interval)
    }
    const follow = async () => {
      if (document.visibilityState === 'visible') {
        try {
          const question = questionOf(current.current, Date.now())
          const page = await ask(latest.current === undefined ? question : { ...question, after: latest.current }, abort.signal)
          latest.current = page.latest ?? latest.current
          setFound((old) => withNew({ ...old, error: null, samplingRate: page.samplingRate }, page, held.current))
        } catch {
          // The live dot says that the gateway does not answer.
        }
      }
      if (!abort.signal.aborted) timer = setTimeout(follow, interval)
    }
    timer = setTimeout(first, 150) // somebody may still be typing
    return () => {
      abort.abort()
      clearTimeout(timer)
    }
  }, [key])

  const release = useCallback(() => setFound((old) => (old.fresh.length === 0 ? old : { ...old, rows: [...old.fresh, ...old.rows].slice(0, mostRows), fresh: [] })), [])
  useEffect(() => {
    if (!hold) release()
  }, [hold, release])

  const next = found.next
  const more = useCallback(async () => {
    const { signal } = asked.current
    if (next === undefined) return
    setFound((old) => ({ ...old, isLoading: true }))
    try {
      const page = await ask({ ...questionOf(current.current, Date.now()), cursor: next }, signal)
      setFound((old) => ({ ...old, rows: [...old.rows, ...page.rows], next: page.next, reached: page.reached, isLoading: false }))
    } catch (error) {
      if (!signal.aborted) setFound((old) => ({ ...old, isLoading: false, error }))
    }
  }, [next])
  return { ...found, more: () => void more(), release }
}
