import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Download, Lock, X } from 'lucide-react'
import { useMemo, useState } from 'react'
import { api, data } from '@/api/client'
import { quotaConfig, quotaStatus, quotaUsage } from '@/api/queries'
import type { QuotaConfig, Usage, Sentence } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { digits, percent, shorten, stamp } from '@/lib/format'
import { download } from '@/lib/money'
import { oneOf } from '@/lib/url'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { Guard } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { DocsLink } from '@/ui/docs'
import { ErrorNote, useToast } from '@/ui/feedback'
import { FileText, FormViews, type FormView } from '@/ui/file-text'
import { Bar, CodeBox, Segments, Toggle } from '@/ui/parts'
import { Budgets } from './budgets'
import { dimensionOf, dimensions, parseOnly, toCsv, totals, windows } from './usage'

export default function Quota() {
  const { t } = useI18n()
  usePageFact(t('quota.sum'))
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
      <UsageView />
      <Settings config={config.data} busy={change.isPending} onChange={(part, said) => change.mutate({ part, said })} />
    </>
  )
}

/** Fewer bars than these do not reach the right end of the chart. */
const fewBars = 16

function UsageView() {
  const { t, locale } = useI18n()
  const [search, setSearch] = useSearchState()
  const window = oneOf(search.window, windows)
  const by = oneOf(search.by, dimensions)
  const measure = oneOf(search.of, ['requests', 'tokens'] as const)
  const query = useQuery({ ...quotaUsage(window), refetchInterval: 3000 })
  const only = useMemo(() => parseOnly(search.only ?? ''), [search.only])
  const all = useMemo(() => query.data ?? [], [query.data])
  const rows = useMemo(() => (only === null ? all : all.filter((row) => dimensionOf(row, only.by) === only.value)), [all, only])
  usePageCalls([{ path: `/api/monitoring/quota/usage?window=${window}` }, { path: '/api/monitoring/quota/status' }, { path: '/api/monitoring/budgets' }])
  const { bars, groups } = useMemo(() => totals(rows, by, measure), [rows, by, measure])
  const max = Math.max(1, ...bars.map((bar) => bar.total))
  const label = (value: string) => (value === '' ? t('quota.nobody') : value)
  const number = (value: number) => new Intl.NumberFormat(locale).format(value)
  return (
    <>
      <div className="bar">
        <Segments label={t('quota.window')} value={window} options={windows.map((value) => ({ value, label: t(`quota.${value}`) }))} onChange={(value) => setSearch({ window: value })} />
        <Segments label={t('quota.by')} value={by} options={dimensions.map((value) => ({ value, label: t(`quota.${value}`) }))} onChange={(value) => setSearch({ by: value })} />
        {only !== null && (
          <button type="button" className="btn sm" aria-label={t('quota.all', { name: only.value })} title={t('quota.all', { name: only.value })} onClick={() => setSearch({ only: undefined })}>
            <code>{shorten(only.value, 20)}</code>
            <X className="ic s14" aria-hidden />
          </button>
        )}
        <Segments
          label={t('quota.value')}
          value={measure}
          options={[
            { value: 'requests' as const, label: t('quota.requests') },
            { value: 'tokens' as const, label: t('quota.tokens') },
          ]}
          onChange={(value) => setSearch({ of: value })}
        />
        <span className="grow onlydesk" />
        <button type="button" className="btn" disabled={rows.length === 0} onClick={() => download(`quota-${window.toLowerCase()}.csv`, toCsv(rows), 'text/csv')}>
          <Download className="ic s14" aria-hidden />
          {t('quota.csv')}
        </button>
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && rows.length === 0 && <div className="panel muted p-4">{t('quota.noUse')}</div>}
      {rows.length > 0 && (
        <div className="cols quota">
          <div className="panel p-4">
            <div className="qbars" aria-hidden="true">
              {bars.slice(-60).map((bar) => (
                <div key={bar.start} className="qbar" title={`${stamp(bar.start)} · ${number(bar.total)}`} style={{ height: `${(bar.total / max) * 100}%` }}>
                  {bar.parts.map((part, index) => (
                    <i key={index} style={{ height: `${(part / Math.max(1, bar.total)) * 100}%`, opacity: [1, 0.62, 0.38, 0.2][Math.min(3, index)] }} />
                  ))}
                </div>
              ))}
            </div>
            <div className="xax mt-1">
              <span>
                {stamp(bars[Math.max(0, bars.length - 60)]!.start).slice(0, 16)}
                {/* Few bars are at the left: so is the name of the last. */}
                {bars.length > 1 && bars.length < fewBars && ` – ${stamp(bars[bars.length - 1]!.start).slice(0, 16)}`}
              </span>
              {bars.length >= fewBars && <span>{stamp(bars[bars.length - 1]!.start).slice(0, 16)}</span>}
            </div>
          </div>
          <div className="panel">
            <table className="tbl fx">
              <thead>
                <tr>
                  <th>{t(`quota.${by}`)}</th>
                  <th className="num w-[90px]">{t(`quota.${measure}`)}</th>
                  <th className="num w-[64px]">{t('common.share')}</th>
                  <th className="onlydesk qshare w-[84px]">
                    <span className="sr-only">{t('common.share')}</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {groups.map((group) => (
                  <tr key={group.name}>
                    <td className="cut" title={group.name}>
                      {group.name === '' ? (
                        <code>{label(group.name)}</code>
                      ) : (
                        <button type="button" className="link trunc max-w-full" title={t('quota.only', { name: group.name })} onClick={() => setSearch({ only: `${by}~${group.name}` })}>
                          <code>{group.name}</code>
                        </button>
                      )}
                    </td>
                    <td className="num">{number(group.value)}</td>
                    <td className="num">{percent(group.share, 0)}</td>
                    <td className="onlydesk qshare">
                      <Bar share={group.share} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </div>
      )}
      {rows.length > 0 && <UsageTable rows={rows} label={label} />}
    </>
  )
}

/** When a window began; a phone has no room for the year and the seconds. */
function Start({ of }: { of: string }) {
  const whole = stamp(of)
  return (
    <>
      <span className="onlydesk">{whole.slice(0, 5)}</span>
      {whole.slice(5, 16)}
      <span className="onlydesk">{whole.slice(16)}</span>
    </>
  )
}

function UsageTable({ rows, label }: { rows: Usage[]; label(value: string): string }) {
  const { t } = useI18n()
  const shown = rows.toSorted((a, b) => b.windowStart.localeCompare(a.windowStart)).slice(0, 200)
  return (
    <div className="panel tw mt-4 max-h-[360px] overflow-y-auto" tabIndex={0}>
      <table className="tbl">
        <thead>
          <tr>
            <th>{t('quota.start')}</th>
            <th className="onlydesk">{t('common.service')}</th>
            <th className="w-[30%]">{t('common.model')}</th>
            <th className="onlydesk">{t('quota.tenant')}</th>
            <th className="onlydesk">{t('quota.key')}</th>
            <th className="onlydesk">{t('quota.user')}</th>
            <th className="num">{t('quota.requests')}</th>
            <th className="num">{t('quota.tokens')}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((row, index) => (
            <tr key={index}>
              <td className="soft">
                <Start of={row.windowStart} />
              </td>
              <td className="onlydesk">{row.dimensions.serviceType}</td>
              <td className="cut" title={row.dimensions.model}>
                <code>{row.dimensions.model}</code>
              </td>
              <td className="soft onlydesk">{label(row.dimensions.tenantId)}</td>
              <td className="soft onlydesk">{label(row.dimensions.apiKeyId)}</td>
              <td className="soft onlydesk">{label(row.dimensions.userId)}</td>
              <td className="num">{digits(row.requestCount)}</td>
              <td className="num">{digits(row.tokenCount)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

// Where a locked field is in the configuration file.
const yamlKeys: Record<string, string> = {
  distributedEnabled: 'quota.distributed.enabled',
  distributedKeyPrefix: 'quota.distributed.key-prefix',
  distributedTimeoutMs: 'quota.distributed.timeout',
  distributedDegradeToLocal: 'quota.distributed.degrade-to-local',
  retention: 'quota.retention',
  flushIntervalSeconds: 'quota.flush-interval-seconds',
}

function lockedValue(config: QuotaConfig, field: string): string {
  switch (field) {
    case 'distributedEnabled':
      return String(config.distributed.enabled)
    case 'distributedKeyPrefix':
      return config.distributed.keyPrefix
    case 'distributedTimeoutMs':
      return `${config.distributed.timeoutMs} ms`
    case 'distributedDegradeToLocal':
      return String(config.distributed.degradeToLocal)
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
            {config.backendName === 'local' && <p className="hint">{t('quota.resets')}</p>}
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
                <div className="row">
                  <code className="grow trunc" title={field}>{field}</code>
                  <code className="soft trunc">{lockedValue(config, field)}</code>
                </div>
                <div className="hint">
                  <T k="quota.lockedText" v={{ key: <code>{yamlKeys[field] ?? `quota.${field}`}</code> }} />
                </div>
              </div>
            </div>
          ))}
        </div>
      </section>
    </div>
  )
}

