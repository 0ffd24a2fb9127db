import { useQuery } from '@tanstack/react-query'
import { gateways } from '@/api/queries'
import type { Gateway } from '@/api/types'
import { T, useI18n, type I18n, type Key } from '@/i18n'
import { since, stamp } from '@/lib/format'
import { useNow } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { ErrorNote } from '@/ui/feedback'
import { HealthGlyph, type Health } from '@/ui/glyphs'
import { Running } from './parts'

const stores: Record<string, Key> = { configDatabase: 'wrong.store.config', ledgerDatabase: 'wrong.store.ledger', redis: 'wrong.store.redis', sharedLimits: 'wrong.store.limits', sharedBudgets: 'wrong.store.budgets' }
const glyphs: Record<Gateway['state'], Health> = { up: 'healthy', behind: 'unknown', away: 'unhealthy', draining: 'disabled' }

/** Whether a gateway is there, has the latest configuration and reaches its stores. */
const isWell = (one: Gateway) => one.state === 'up' && Object.values(one.stores).every(Boolean)

/** What is not as it should be, in short sentences. */
export function complaints(members: readonly Gateway[], t: I18n['t']): string[] {
  const said: string[] = []
  for (const state of ['away', 'behind', 'draining'] as const) {
    const some = members.filter((one) => one.state === state)
    if (some.length > 0) said.push(t(`wrong.gateways.${state}`, { n: some.length, names: some.map((one) => one.address).join(t('common.comma')) }))
  }
  for (const [name, key] of Object.entries(stores)) {
    const some = members.filter((one) => one.state !== 'away' && one.stores[name] === false)
    if (some.length > 0) said.push(t('wrong.gateways.store', { store: t(key), names: some.map((one) => one.address).join(t('common.comma')) }))
  }
  const versions = [...new Set(members.filter((one) => one.state !== 'away').map((one) => one.version))].toSorted()
  if (versions.length > 1) said.push(t('wrong.gateways.versions', { versions: versions.join(t('common.comma')) }))
  return said
}

/** The gateways that share the configuration or Redis with this one, and what runs here. */
export default function GatewaysPage() {
  const { t, lang, locale, said: tell } = useI18n()
  const now = useNow()
  const query = useQuery(gateways)
  usePageCalls([{ path: '/api/cluster' }, { path: '/api/monitoring/running' }])
  const cluster = query.data
  const members = cluster?.members ?? []
  const well = members.filter(isWell).length
  const said = complaints(members, t)
  if (cluster?.reached === false) said.unshift(t('wrong.gateways.unreached', { why: tell(cluster.said, cluster.reason) }))
  return (
    <>
      <div className="head">
        <div className="grow">
          <h2>{cluster === undefined ? t('overview.loading') : cluster.source === 'none' ? t('wrong.alone') : <T k={well === members.length && said.length === 0 ? 'wrong.gatewaysWell' : well === members.length ? 'wrong.gatewaysThere' : 'wrong.gatewaysBehind'} v={{ n: members.length, well }} />}</h2>
          <p>{said.join(lang === 'zh' ? '' : ' ')}</p>
        </div>
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} />}
      {members.length > 0 && (
        <div className="panel">
          {members.map((one) => (
            <div key={one.id} className="pr obj gw">
              <span className={`pill ${one.state === 'up' ? '' : one.state === 'away' ? 'bd' : 'wn'}`}>
                <HealthGlyph state={glyphs[one.state]} /> {t(`wrong.gateway.${one.state}`)}
              </span>
              <span className="min-w-0">
                <b className="break-words">{one.address}</b> {one.id === cluster?.self && <span className="muted">{t('wrong.thisOne')}</span>}
                <span className="muted block">{[t('wrong.program', { version: one.version }), t('wrong.configVersion', { n: one.configVersion }), t('wrong.started', { time: stamp(one.startedAt) })].join(' · ')}</span>
                <span className="muted block">
                  {Object.entries(one.stores).map(([name, isReached], index) => (
                    <span key={name} className={isReached ? '' : 'bad'}>
                      {index > 0 && t('common.comma')}
                      {t(isReached ? 'wrong.reaches' : 'wrong.reachesNot', { store: stores[name] === undefined ? name : t(stores[name]) })}
                    </span>
                  ))}
                </span>
              </span>
              <span className="muted nowrap" title={stamp(one.lastSeen, true)}>{t('wrong.heard', { ago: since(Date.parse(one.lastSeen), now, locale) })}</span>
            </div>
          ))}
        </div>
      )}
      <Running question={{}} title={t('wrong.runningHere')} />
    </>
  )
}
