import { useQuery } from '@tanstack/react-query'
import { gateways } from '@/api/queries'
import { T, useI18n } from '@/i18n'
import { since } from '@/lib/format'
import { useNow } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { ErrorNote } from '@/ui/feedback'
import { Running } from './parts'

/** The gateways that share the configuration or Redis with this one, and what runs here. */
export default function GatewaysPage() {
  const { t, locale } = useI18n()
  const now = useNow()
  const query = useQuery(gateways)
  usePageCalls([{ path: '/api/cluster' }])
  const cluster = query.data
  const members = cluster?.members ?? []
  const well = members.filter((one) => one.state === 'up').length
  return (
    <>
      <div className="head">
        <div className="grow">
          <h2>{cluster === undefined ? t('overview.loading') : cluster.source === 'none' ? t('wrong.alone') : <T k={well === members.length ? 'wrong.gatewaysWell' : 'wrong.gatewaysBehind'} v={{ n: members.length, well }} />}</h2>
          <p>{cluster?.reason ?? ''}</p>
        </div>
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} />}
      {members.length > 0 && (
        <div className="panel">
          {members.map((one) => (
            <div key={one.id} className="pr obj">
              <span className={one.state === 'up' ? 'soft' : 'bad font-semibold'}>{t(`wrong.gateway.${one.state}` as 'wrong.gateway.up')}</span>
              <span className="min-w-0">
                <b>{one.address}</b> {one.id === cluster?.self && <span className="muted">{t('wrong.thisOne')}</span>}
                <code className="muted block">{one.version} · {t('wrong.configVersion', { n: one.configVersion })} · {Object.entries(one.stores).map(([name, ok]) => `${name} ${ok ? '✓' : '✗'}`).join(', ')}</code>
              </span>
              <span className="muted nowrap">{since(Date.parse(one.lastSeen), now, locale)}</span>
            </div>
          ))}
        </div>
      )}
      <Running question={{}} title={t('wrong.runningHere')} />
    </>
  )
}
