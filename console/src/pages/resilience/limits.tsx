import { api, body } from '@/api/client'
import { useI18n } from '@/i18n'
import { DocsLink } from '@/ui/docs'
import { ErrorNote } from '@/ui/feedback'
import { Bar } from '@/ui/parts'
import { useMonitoring } from './query'

interface Limit {
  enabled: boolean
  algorithm: string
  globalLimit: { capacity: number; remaining: number; refillRate: number }
  clientLimits: { clientIp?: string; ip?: string; remaining: number; capacity: number }[]
}

/** What is left of each rate limit, once a second. */
export function Limits() {
  const { t } = useI18n()
  const query = useMonitoring<{ services: Record<string, Limit> }>('rate-limit', (signal) => body(api.GET('/api/monitoring/rate-limit', { signal })), 1000)
  const limits = Object.entries(query.data?.services ?? {}).filter(([, limit]) => limit.enabled)
  return (
    <section>
      <div className="h2">
        <h2 className="grow">{t('res.limits')}</h2>
        <DocsLink page="limits" section="rate-limits">
          {t('guide.how')}
        </DocsLink>
      </div>
      <div className="panel p-3">
        {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} />}
        {limits.length === 0 && <p className="muted">{t('res.limitOff')}</p>}
        {limits.map(([service, limit]) => {
          const { capacity, remaining, refillRate } = limit.globalLimit
          const left = capacity > 0 ? remaining / capacity : 0
          return (
            <div key={service} className="mb-3">
              <div className="row mb-1">
                <b className="font-semibold">{service}</b>
                <code className="muted">{limit.algorithm.toLowerCase()}</code>
                <span className="grow" />
                <span className={left < 0.1 ? 'warn font-semibold' : 'soft'}>{t('res.limitOf', { n: Math.floor(remaining), k: capacity })}</span>
              </div>
              <Bar share={left} kind={left < 0.1 ? 'wn' : ''} />
              <div className="hint mt-1">
                {t('services.limitSentence', { capacity, rate: refillRate })}
                {limit.clientLimits.length > 0 && ` ${t('res.clients', { n: limit.clientLimits.length })}`}
              </div>
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
        })}
      </div>
    </section>
  )
}
