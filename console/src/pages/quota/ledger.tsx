import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Lock } from 'lucide-react'
import { useState } from 'react'
import { api, data } from '@/api/client'
import { quotaConfig, quotaStatus } from '@/api/queries'
import type { QuotaConfig, Sentence } from '@/api/types'
import { T, useI18n, type I18n, type Key } from '@/i18n'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { Guard } from '@/shell/guard'
import { DocsLink } from '@/ui/docs'
import { ErrorNote, useToast } from '@/ui/feedback'
import { FileText, FormViews, type FormView } from '@/ui/file-text'
import { CodeBox, Toggle } from '@/ui/parts'
import { Budgets } from './budgets'
import { windows } from './usage'

/** The budgets, and the ledger that counts what was used. */
export function Ledger() {
  const { t } = useI18n()
  usePageFact(t('quota.sum'))
  usePageCalls([{ path: '/api/monitoring/budgets' }, { path: '/api/config/quota' }, { path: '/api/monitoring/quota/status' }])
  const config = useQuery(quotaConfig)
  const toast = useToast()
  const client = useQueryClient()
  const change = useMutation({
    mutationFn: ({ part }: { part: Partial<Pick<QuotaConfig, 'enabled' | 'failOpen' | 'windows'>>; said: string }) => data(api.PUT('/api/config/quota', { body: part as never }) as never),
    onSuccess: async (_, { said }) => {
      await client.invalidateQueries({ queryKey: ['quota'] })
      toast(said)
    },
  })
  if (config.error !== null) return <ErrorNote error={config.error} title={t('error.load')} retry={() => void config.refetch()} />
  if (config.data === undefined) return null
  const error = change.error !== null && (
    <div className="mb-3">
      <ErrorNote error={change.error} />
    </div>
  )
  if (!config.data.enabled) {
    return (
      <>
        {error}
        <Budgets />
        <div className="panel empty">
          <h2>{t('quota.offTitle')}</h2>
          <p>{t('quota.offText')}</p>
          <Guard needs="config:quota:write" say>
            <button type="button" className="btn pri" disabled={change.isPending} onClick={() => change.mutate({ part: { enabled: true }, said: t('quota.isOn') })}>
              {t('quota.turnOn')}
            </button>
          </Guard>
          <p>{t('quota.keepOn')}</p>
          <CodeBox text={'quota:\n  enabled: true'} />
          <DocsLink page="quota">{t('guide.quota')}</DocsLink>
        </div>
      </>
    )
  }
  return (
    <>
      {error}
      <Budgets />
      <Settings config={config.data} busy={change.isPending} onChange={(part, said) => change.mutate({ part, said })} />
    </>
  )
}

// What a locked field is called, and where it is in the configuration file.
const lockedFields: Record<string, { name: Key; key: string }> = {
  distributedEnabled: { name: 'quota.field.shared', key: 'quota.distributed.enabled' },
  distributedKeyPrefix: { name: 'quota.field.prefix', key: 'quota.distributed.key-prefix' },
  distributedTimeoutMs: { name: 'quota.field.timeout', key: 'quota.distributed.timeout' },
  distributedDegradeToLocal: { name: 'quota.field.alone', key: 'quota.distributed.degrade-to-local' },
  retention: { name: 'quota.field.retention', key: 'quota.retention' },
  flushIntervalSeconds: { name: 'quota.field.flush', key: 'quota.flush-interval-seconds' },
}

function lockedValue(config: QuotaConfig, field: string, t: I18n['t']): string {
  const isOn = (on: boolean) => t(on ? 'common.yes' : 'common.no')
  switch (field) {
    case 'distributedEnabled':
      return isOn(config.distributed.enabled)
    case 'distributedKeyPrefix':
      return config.distributed.keyPrefix
    case 'distributedTimeoutMs':
      return `${config.distributed.timeoutMs} ms`
    case 'distributedDegradeToLocal':
      return isOn(config.distributed.degradeToLocal)
    case 'flushIntervalSeconds':
      return `${config.flushIntervalSeconds} s`
    default:
      return Object.entries(config.retention)
        .map(([window, value]) => `${window} ${value}`)
        .join(', ')
  }
}

/** The settings as the configuration file has them. */
function inFile({ enabled, failOpen, windows, flushIntervalSeconds, retention, distributed }: QuotaConfig): object {
  const { timeoutMs, ...shared } = distributed
  return { quota: { enabled, failOpen, flushIntervalSeconds, windows, retention, distributed: { ...shared, timeout: `${timeoutMs}ms` } } }
}

/** Whether Redis answered just now. */
function Probe({ probe }: { probe: { reachable: boolean; status: string; reason?: string; said?: Sentence[] } | null | undefined }) {
  const { t, said } = useI18n()
  if (probe === undefined || probe === null) return <span className="soft">{t('quota.probe.none')}</span>
  const word = probe.status === 'healthy' ? t('quota.probe.healthy') : probe.status === 'degraded' ? t('quota.probe.degraded') : t('quota.probe.error')
  return (
    <span className={probe.status === 'healthy' ? '' : 'warn font-semibold'}>
      {word}
      {probe.reason !== undefined && probe.reason !== '' && <span className="hint wrap block font-normal">{said(probe.said, probe.reason)}</span>}
    </span>
  )
}

function Settings({ config, busy, onChange }: { config: QuotaConfig; busy: boolean; onChange(part: Partial<Pick<QuotaConfig, 'enabled' | 'failOpen' | 'windows'>>, said: string): void }) {
  const { t, locale, said } = useI18n()
  const number = (value: number) => new Intl.NumberFormat(locale).format(value)
  const [view, setView] = useState<FormView>('form')
  const status = useQuery({ ...quotaStatus, refetchInterval: 5000 })
  return (
    <div className="cols even">
      <section>
        <div className="h2">
          <h2>{t('quota.hot')}</h2>
          <span className="grow" />
          <FormViews label={t('common.form')} value={view} onChange={setView} />
        </div>
        {view === 'yaml' && (
          <div className="panel p-4">
            <FileText hint={t('common.yamlKeep')} value={inFile(config)} />
          </div>
        )}
        <div className="panel grid gap-3 p-4" hidden={view === 'yaml'}>
          <dl className="dl">
            <dt>{t('quota.status')}</dt>
            <dd className={status.data?.degraded ? 'warn font-semibold' : ''}>{status.data?.degraded ? t('quota.degraded', { reason: said(status.data.said, status.data.degradedReason) }) : t('quota.fine')}</dd>
            <dt>{t('quota.backend')}</dt>
            <dd>{config.backendName === 'local' ? t('quota.local') : <code>{config.backendName}</code>}</dd>
            <dt>{t('quota.probe')}</dt>
            <dd data-part="probe">{status.data === undefined ? '–' : <Probe probe={status.data.redisProbe} />}</dd>
            {status.data?.counterMetrics !== undefined && status.data.counterMetrics !== null && (
              <>
                <dt>{t('quota.degradations')}</dt>
                <dd className={status.data.counterMetrics.degradationCount > 0 ? 'warn' : ''} data-part="degradations">
                  <span className="num">{number(status.data.counterMetrics.degradationCount)}</span> <span className="muted">{t('quota.degradationsHint')}</span>
                </dd>
              </>
            )}
          </dl>
          <Guard needs="config:quota:write" say>
            <Toggle checked={config.failOpen} disabled={busy} onChange={(failOpen) => onChange({ failOpen }, t('quota.saved'))}>
              {t('quota.failOpen')}
            </Toggle>
            <div>
              <div className="flab mb-1">{t('quota.windows')}</div>
              <div className="row flex-wrap !gap-4">
                {windows.map((window) => (
                  <Toggle
                    key={window}
                    checked={config.windows.includes(window)}
                    disabled={busy || (config.windows.length === 1 && config.windows[0] === window)}
                    onChange={(on) => onChange({ windows: windows.filter((other) => (other === window ? on : config.windows.includes(other))) }, t('quota.saved'))}
                  >
                    {t(`quota.${window}`)}
                  </Toggle>
                ))}
              </div>
            </div>
            <div>
              <button type="button" className="btn danger" disabled={busy} onClick={() => onChange({ enabled: false }, t('quota.isOff'))}>
                {t('quota.turnOff')}
              </button>
            </div>
          </Guard>
        </div>
      </section>
      <section>
        <div className="h2">
          <h2>{t('quota.locked')}</h2>
        </div>
        <div className="panel">
          {config.restartRequiredFields.map((field) => (
            <div key={field} className="lockrow">
              <Lock className="ic s14 muted" aria-hidden />
              <div className="min-w-0">
                <div className="row flex-wrap">
                  <span className="grow">{lockedFields[field] === undefined ? <code>{field}</code> : t(lockedFields[field].name)}</span>
                  <code className="soft trunc" title={lockedValue(config, field, t)}>{lockedValue(config, field, t)}</code>
                </div>
                <div className="hint">
                  <T k="quota.lockedText" v={{ key: <code>{lockedFields[field]?.key ?? `quota.${field}`}</code> }} />
                </div>
              </div>
            </div>
          ))}
        </div>
      </section>
    </div>
  )
}

