import { useQuery } from '@tanstack/react-query'
import { Coins, Gauge, History, KeyRound, Layers, List, Network, Route, Server, SlidersHorizontal, Terminal, UserRound, Users } from 'lucide-react'
import { useMemo, type ReactNode } from 'react'
import { batchesAreOn, gateways } from '@/api/queries'
import type { Key } from '@/i18n'
import { runsAreOn } from '@/pages/runs/api'
import { isGuest, useMe } from './session'

export type PagePath = '/' | '/services' | '/playground' | '/calls' | '/runs' | '/spend' | '/batches' | '/keys' | '/versions' | '/settings' | '/gateways' | '/me' | '/team'

/** An entry of the menu. There are nine at most, because more are not grasped at a glance; what is part of another page has `under`. */
export interface Page {
  path: PagePath
  title: Key
  /** The letter after "g" that goes to the page. */
  letter: string
  icon: ReactNode
  /** Without this permission there is nothing to see on the page. */
  needs?: string
  /** The page that it is part of: it is listed below that one while either is open. */
  under?: PagePath
  /** It is listed only where the gateway has such a thing. */
  where?: 'batches' | 'gateways' | 'runs'
  /** It shows what runs; the others are administration. */
  runs?: true
}

export const pages: Page[] = [
  { path: '/', title: 'nav.overview', letter: 'o', runs: true, needs: 'monitoring:config:read', icon: <Gauge className="ic" aria-hidden /> },
  { path: '/services', title: 'nav.services', letter: 's', runs: true, needs: 'config:type:read', icon: <Server className="ic" aria-hidden /> },
  { path: '/playground', title: 'nav.playground', letter: 'p', runs: true, icon: <Terminal className="ic" aria-hidden /> },
  { path: '/calls', title: 'nav.calls', letter: 'c', runs: true, needs: 'monitoring:metrics:read', icon: <List className="ic" aria-hidden /> },
  { path: '/runs', title: 'nav.runs', letter: 'r', runs: true, needs: 'run:read', under: '/calls', where: 'runs', icon: <Route className="ic" aria-hidden /> },
  { path: '/spend', title: 'nav.spend', letter: 'm', runs: true, needs: 'monitoring:quota:read', icon: <Coins className="ic" aria-hidden /> },
  { path: '/batches', title: 'nav.batches', letter: 'b', runs: true, needs: 'batch:read', where: 'batches', icon: <Layers className="ic" aria-hidden /> },
  { path: '/keys', title: 'nav.keys', letter: 'k', needs: 'auth:key:manage', icon: <KeyRound className="ic" aria-hidden /> },
  { path: '/versions', title: 'nav.versions', letter: 'v', needs: 'config:version:read', icon: <History className="ic" aria-hidden /> },
  { path: '/settings', title: 'nav.settings', letter: 't', needs: 'monitoring:config:read', icon: <SlidersHorizontal className="ic" aria-hidden /> },
  { path: '/gateways', title: 'wrong.gateways', letter: 'w', needs: 'monitoring:config:read', under: '/settings', where: 'gateways', icon: <Network className="ic" aria-hidden /> },
]

/** The pages of people with a role in a tenant: they are the whole menu of who has no other role, and in the menu of the person for the others. */
export const ownPages: Page[] = [
  { path: '/me', title: 'nav.me', letter: 'y', runs: true, icon: <UserRound className="ic" aria-hidden /> },
  { path: '/team', title: 'nav.team', letter: 'e', runs: true, icon: <Users className="ic" aria-hidden /> },
]

/** Those of them that the person may see. */
export function useOwnPages(): Page[] {
  const memberships = useMe()?.memberships
  return useMemo(() => ownPages.filter(({ path }) => (memberships ?? []).some(({ role }) => path === '/me' || role === 'TEAM_ADMIN')), [memberships])
}

/** The pages that the person may see something on, of what the gateway has. */
export function usePages(): Page[] {
  const me = useMe()
  const may = (permission: string) => me === null || me.permissions.includes(permission)
  const [readsBatches, readsGateways] = [may('batch:read'), may('monitoring:config:read')]
  const { data: isOn = false } = useQuery({ ...batchesAreOn, enabled: readsBatches })
  const { data: cluster } = useQuery({ ...gateways, enabled: readsGateways, refetchInterval: 60_000, retry: false })
  const { data: governs = false } = useQuery({ ...runsAreOn, enabled: may('run:read') })
  const several = (cluster?.members.length ?? 0) > 1
  const own = useOwnPages()
  return useMemo(
    () =>
      isGuest(me) ? own : pages.filter(({ needs, where }) => {
        if (where === 'batches' && !isOn) return false
        if (where === 'gateways' && !several) return false
        if (where === 'runs' && !governs) return false
        return me === null || needs === undefined || me.permissions.includes(needs)
      }),
    [me, own, isOn, several, governs],
  )
}

/** The entries of the menu while a page is open: what is part of a page is below it then. */
export function listed(seen: readonly Page[], path: string): Page[] {
  const open = seen.find((page) => page.path === path)
  return seen.filter(({ under }) => under === undefined || under === path || under === open?.under)
}
