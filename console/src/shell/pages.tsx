import { ChartNoAxesColumn, Gauge, History, KeyRound, List, Server, SlidersHorizontal, Terminal } from 'lucide-react'
import type { ReactNode } from 'react'
import type { Key } from '@/i18n'
import { SwitchIcon } from '@/ui/glyphs'

export interface Page {
  path: '/' | '/services' | '/playground' | '/calls' | '/resilience' | '/quota' | '/versions' | '/keys' | '/settings'
  title: Key
  /** The letter after "g" that goes to the page. */
  letter: string
  icon: ReactNode
  /** Without this permission there is nothing to see on the page. */
  needs?: string
}

export const pages: Page[] = [
  { path: '/', title: 'nav.overview', letter: 'o', icon: <Gauge className="ic" aria-hidden /> },
  { path: '/services', title: 'nav.services', letter: 's', icon: <Server className="ic" aria-hidden /> },
  { path: '/playground', title: 'nav.playground', letter: 'p', icon: <Terminal className="ic" aria-hidden /> },
  { path: '/calls', title: 'nav.calls', letter: 'c', icon: <List className="ic" aria-hidden /> },
  { path: '/resilience', title: 'nav.resilience', letter: 'r', icon: <SwitchIcon /> },
  { path: '/quota', title: 'nav.quota', letter: 'q', icon: <ChartNoAxesColumn className="ic" aria-hidden /> },
  { path: '/versions', title: 'nav.versions', letter: 'v', icon: <History className="ic" aria-hidden /> },
  { path: '/keys', title: 'nav.keys', letter: 'k', needs: 'auth:key:manage', icon: <KeyRound className="ic" aria-hidden /> },
  { path: '/settings', title: 'nav.settings', letter: 't', icon: <SlidersHorizontal className="ic" aria-hidden /> },
]

/** How many pages show what runs; the rest is administration. */
export const running = 6
