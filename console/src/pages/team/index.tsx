import { useQuery } from '@tanstack/react-query'
import { ask } from '@/api/client'
import type { TeamPlace } from '@/api/types'
import { useI18n } from '@/i18n'
import { oneOf } from '@/lib/url'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { useMe } from '@/shell/session'
import { ErrorNote } from '@/ui/feedback'
import { Select } from '@/ui/field'
import { Segments } from '@/ui/parts'
import { Audit } from '../keys/audit'
import { ownPace } from '../me/calls'
import { MakeKey, OwnKeys } from '../me/keys'
import { TeamCalls } from './calls'
import { Members } from './members'
import { TeamSpend } from './spend'

const tabs = ['keys', 'members', 'spend', 'calls', 'audit'] as const

/** What the administrator of a team sees and manages: one tenant. */
export default function Team() {
  const { t } = useI18n()
  const me = useMe()
  const [search, setSearch] = useSearchState()
  const teams = (me?.memberships ?? []).filter(({ role }) => role === 'TEAM_ADMIN').map(({ tenant }) => tenant)
  // An administrator of the gateway may look at every team.
  const tenant = me?.role === 'ADMIN' ? (search.tenant ?? teams[0]) : teams.includes(search.tenant ?? '') ? search.tenant : teams[0]
  const at = `/api/team/${encodeURIComponent(tenant ?? '')}`
  const { data: team, error, refetch } = useQuery({ queryKey: ['own', at], enabled: tenant !== undefined, refetchInterval: ownPace, queryFn: ({ signal }) => ask<TeamPlace>(at, 'GET', undefined, signal) })
  usePageFact(tenant ?? '')
  if (tenant === undefined) return <div className="note">{t('team.none')}</div>
  const tab = oneOf(search.tab, tabs)
  const clean = { create: undefined, key: undefined, show: undefined, who: undefined, what: undefined, from: undefined, to: undefined, page: undefined, record: undefined }
  return (
    <>
      <div className="bar">
        {teams.length > 1 && <Select label={t('key.tenant')} value={tenant} options={teams.map((value) => ({ value, label: value }))} onChange={(value) => setSearch({ ...clean, tenant: value })} />}
        <Segments label={t('nav.team')} value={tab} options={tabs.map((value) => ({ value, label: t(`team.tab.${value}`) }))} onChange={(value) => setSearch({ ...clean, tab: value === 'keys' ? undefined : value })} />
        <span className="grow" />
        {tab === 'keys' && <MakeKey />}
      </div>
      {error !== null && <ErrorNote error={error} title={t('error.load')} retry={() => void refetch()} />}
      {team !== undefined && tab === 'keys' && <OwnKeys at={at} places={[team]} mine={me?.name ?? ''} currency={team.budgets.currency} />}
      {tab === 'members' && <Members at={at} tenant={tenant} />}
      {tab === 'spend' && <TeamSpend at={at} />}
      {tab === 'calls' && <TeamCalls at={at} />}
      {tab === 'audit' && <Audit tenant={tenant} />}
    </>
  )
}
