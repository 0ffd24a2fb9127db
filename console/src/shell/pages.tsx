import { ChartNoAxesColumn, Coins, Gauge, History, KeyRound, Layers, List, Server, SlidersHorizontal, Terminal } from 'lucide-react'
import { useMemo, type ReactNode } from 'react'
import type { Key } from '@/i18n'
import { SwitchIcon } from '@/ui/glyphs'
import { useMe } from './session'

export interface Page {
  path: '/' | '/services' | '/playground' | '/calls' | '/resilience' | '/quota' | '/spend' | '/batches' | '/versions' | '/keys' | '/settings'
  title: Key
  /** The letter after "g" that goes to the page. */
  letter: string
  icon: ReactNode
  /** Without this permission there is nothing to see on the page. */
  needs?: string
}

export const pages: Page[] = [
  { path: '/', title: 'nav.overview', letter: 'o', needs: 'monitoring:config:read', icon: <Gauge className="ic" aria-hidden /> },
  { path: '/services', title: 'nav.services', letter: 's', needs: 'config:type:read', icon: <Server className="ic" aria-hidden /> },
  { path: '/playground', title: 'nav.playground', letter: 'p', icon: <Terminal className="ic" aria-hidden /> },
  { path: '/calls', title: 'nav.calls', letter: 'c', needs: 'monitoring:metrics:read', icon: <List className="ic" aria-hidden /> },
  { path: '/resilience', title: 'nav.resilience', letter: 'r', needs: 'monitoring:metrics:read', icon: <SwitchIcon /> },
  { path: '/quota', title: 'nav.quota', letter: 'q', needs: 'config:quota:read', icon: <ChartNoAxesColumn className="ic" aria-hidden /> },
  { path: '/spend', title: 'nav.spend', letter: 'm', needs: 'monitoring:quota:read', icon: <Coins className="ic" aria-hidden /> },
  { path: '/batches', title: 'nav.batches', letter: 'b', needs: 'batch:read', icon: <Layers className="ic" aria-hidden /> },
  { path: '/versions', title: 'nav.versions', letter: 'v', needs: 'config:version:read', icon: <History className="ic" aria-hidden /> },
  { path: '/keys', title: 'nav.keys', letter: 'k', needs: 'auth:key:manage', icon: <KeyRound className="ic" aria-hidden /> },
  { path: '/settings', title: 'nav.settings', letter: 't', needs: 'monitoring:config:read', icon: <SlidersHorizontal className="ic" aria-hidden /> },
]

/** How many pages show what runs; the rest is administration. */
export const running = 8

/** The pages that the person may see something on. */
export function usePages(): Page[] {
  const me = useMe()
  return useMemo(() => pages.filter((page) => me === null || page.needs === undefined || me.permissions.includes(page.needs)), [me])
}
