import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Route, Square } from 'lucide-react'
import { useMemo } from 'react'
import { useI18n, type I18n } from '@/i18n'
import { shorten } from '@/lib/format'
import { runs, runsAreOn, writes } from '@/pages/runs/api'
import type { Item } from './finds'
import { useDenied } from './guard'

/** "end nightly" as the run that is to be ended; null where it begins with no such verb. */
export function readEnd(query: string, t: I18n['t']): string | null {
  const text = query.trim().toLowerCase()
  for (const word of ['end', t('runs.end').toLowerCase()]) {
    if (text === word || text.startsWith(`${word} `) || (!/[a-z]$/.test(word) && text.startsWith(word))) return text.slice(word.length).trim()
  }
  return null
}

/** The runs of agents that a text finds, and those that it would end; the page asks before it does. */
export function useRunFinds(query: string): Item[] {
  const { t } = useI18n()
  const navigate = useNavigate()
  const mayRead = useDenied('run:read') === undefined
  const mayEnd = useDenied(writes) === undefined
  const { data: isOn = false } = useQuery({ ...runsAreOn, enabled: mayRead })
  const { data } = useQuery({ ...runs({ sort: 'last', size: 100 }, false), enabled: isOn && query !== '', staleTime: 5000 })
  return useMemo(() => {
    const list = query === '' ? [] : (data?.content ?? [])
    const ends = readEnd(query, t)
    const finds = (text: string) => list.filter((run) => [run.name, run.id].some((name) => name.toLowerCase().includes(text))).slice(0, 6)
    const go = (search: Record<string, string>) => void navigate({ to: '/runs', search: search as never })
    const items: Item[] = []
    if (ends !== null && mayEnd) {
      for (const run of finds(ends).filter(({ state }) => state !== 'ENDED' && state !== 'OVER')) {
        items.push({ group: 'palette.actions', icon: <Square className="ic" aria-hidden />, label: t('runs.endOne', { name: shorten(run.name, 40) }), run: () => go({ id: run.id, act: 'end' }) })
      }
    }
    for (const run of finds(query.toLowerCase())) {
      items.push({ group: 'nav.runs', icon: <Route className="ic" aria-hidden />, label: <><code>{shorten(run.name, 40)}</code> <span className="muted">{run.user ?? run.key ?? ''}</span></>, run: () => go({ id: run.id }) })
    }
    return items
  }, [query, t, data, mayEnd, navigate])
}
