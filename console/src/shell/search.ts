import { useNavigate, useSearch } from '@tanstack/react-router'
import { useCallback } from 'react'
import type { Search } from '@/lib/url'

type Change = Record<string, string | undefined> | ((old: Search) => Record<string, string | undefined>)

/**
 * The state of the page that is in its URL. A change replaces the entry of
 * the history, unless it opens something that "back" should close.
 */
export function useSearchState(): [Search, (change: Change, push?: boolean) => void] {
  const search = useSearch({ strict: false }) as Search
  const navigate = useNavigate()
  const set = useCallback(
    (change: Change, push = false) =>
      void navigate({
        to: '.',
        search: ((old: Search) => (typeof change === 'function' ? change(old) : { ...old, ...change })) as never,
        replace: !push,
        resetScroll: false,
      }),
    [navigate],
  )
  return [search, set]
}
