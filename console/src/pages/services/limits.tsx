import { api, body } from '@/api/client'
import { useMonitoring } from '@/api/monitoring'
import type { ServiceType } from '@/api/types'
import { useI18n } from '@/i18n'
import { ErrorNote } from '@/ui/feedback'
import { Bar } from '@/ui/parts'

interface Limit {
  enabled: boolean
  globalLimit: { capacity: number; remaining: number }
  clientLimits: { clientIp?: string; ip?: string; remaining: number; capacity: number }[]
}

/** What is left of the rate limit of a service, once a second, and of those of its clients. */
export function Limits({ service }: { service: ServiceType }) {
  const { t } = useI18n()
  const query = useMonitoring<{ services: Record<string, Limit> }>('rate-limit', (signal) => body(api.GET('/api/monitoring/rate-limit', { signal })), 1000)
  const limit = query.data?.services[service]
  if (query.error !== null) return <ErrorNote error={query.error} title={t('error.load')} />
  if (limit === undefined || !limit.enabled) return null
  const { capacity, remaining } = limit.globalLimit
  const left = capacity > 0 ? remaining / capacity : 0
  return (
    <div className="mb-3" data-part="limit">
      <div className="row mb-1">
        <span className="grow soft">{t('res.now')}</span>
        <span className={left < 0.1 ? 'warn font-semibold' : 'soft'}>{t('res.limitOf', { n: Math.floor(remaining), k: capacity })}</span>
      </div>
      <Bar share={left} kind={left < 0.1 ? 'wn' : ''} />
      {limit.clientLimits.length > 0 && <div className="hint mt-1">{t('res.clients', { n: limit.clientLimits.length })}</div>}
      {limit.clientLimits.slice(0, 10).map((client, index) => (
        <div key={index} className="row text-[12px]">
          <code className="grow trunc">{client.clientIp ?? client.ip}</code>
          <span className="w-[90px]">
            <Bar share={client.capacity > 0 ? client.remaining / client.capacity : 0} />
          </span>
          <span className="num w-[60px]">{Math.floor(client.remaining)}</span>
        </div>
      ))}
    </div>
  )
}
