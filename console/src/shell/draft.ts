import { useCallback, useEffect, useState, type SetStateAction } from 'react'

// What was typed and not saved outlives the page: a session that ends, a gateway that is started
// anew, a page that is loaded again. It is kept for this tab alone, and without secrets.

const prefix = 'patchbay.draft.'
const longest = 200_000

/** What is kept of a form: all but its secrets; nothing of one that is too long. */
export function draftOf<T>(value: T, secrets: readonly (keyof T)[]): string | null {
  const kept = typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value).filter(([name]) => !secrets.includes(name as keyof T))) : value
  const text = JSON.stringify(kept)
  return text.length > longest ? null : text
}

/** A form with what was kept of it. Members that it does not have, or that have another type, are not taken over. */
export function fromDraft<T>(text: string | null, begin: T): T | null {
  if (text === null) return null
  try {
    const kept = JSON.parse(text) as unknown
    if (typeof begin !== 'object' || begin === null) return typeof kept === typeof begin ? (kept as T) : null
    if (typeof kept !== 'object' || kept === null) return null
    const fits = ([name, value]: [string, unknown]) => name in begin && typeof value === typeof begin[name as keyof T] && Array.isArray(value) === Array.isArray(begin[name as keyof T])
    return { ...begin, ...Object.fromEntries(Object.entries(kept).filter(fits)) }
  } catch {
    return null
  }
}

function stored(name: string): string | null {
  try {
    return sessionStorage.getItem(prefix + name)
  } catch {
    return null
  }
}

function store(name: string, text: string | null): void {
  try {
    if (text === null) sessionStorage.removeItem(prefix + name)
    else sessionStorage.setItem(prefix + name, text)
  } catch {
    // Without a storage, or with a full one, nothing is kept.
  }
}

/** Forgets all that is kept: who comes next to this browser is another person. */
export function dropDrafts(): void {
  try {
    for (const name of Object.keys(sessionStorage)) if (name.startsWith(prefix)) sessionStorage.removeItem(name)
  } catch {
    // Without a storage there is nothing.
  }
}

export interface Draft<T> {
  value: T
  /** Whether the form begins with what was typed before. */
  isKept: boolean
  /** Changes what is typed. */
  set(change: SetStateAction<T>): void
  /** Begins anew with a value; nothing is kept. */
  reset(value: T): void
  /** Forgets what is kept: it was saved, or given up. */
  drop(): void
}

/** The state of a form that is kept until it is saved or given up. */
export function useDraft<T>(name: string, begin: () => T, secrets: readonly (keyof T)[] = []): Draft<T> {
  const [state, setState] = useState(() => {
    const value = begin()
    const kept = fromDraft(stored(name), value)
    return { value: kept ?? value, isKept: kept !== null, isTyped: false }
  })
  const list = secrets.join(' ')
  useEffect(() => {
    if (state.isTyped) store(name, draftOf(state.value, list.split(' ') as (keyof T)[]))
  }, [state, name, list])
  const set = useCallback((change: SetStateAction<T>) => setState((old) => ({ ...old, isTyped: true, value: typeof change === 'function' ? (change as (old: T) => T)(old.value) : change })), [])
  const drop = useCallback(() => {
    store(name, null)
    setState((old) => (old.isTyped || old.isKept ? { ...old, isTyped: false, isKept: false } : old))
  }, [name])
  const reset = useCallback(
    (value: T) => {
      store(name, null)
      setState({ value, isKept: false, isTyped: false })
    },
    [name],
  )
  return { value: state.value, isKept: state.isKept, set, reset, drop }
}

/** A value that is kept as a draft is. */
export function useKept<T>(name: string, begin: T): [T, (change: SetStateAction<T>) => void] {
  const { value, set } = useDraft(name, () => begin)
  return [value, set]
}
