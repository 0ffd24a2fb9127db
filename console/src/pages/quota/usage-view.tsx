import { useQuery } from '@tanstack/react-query'
import { Download, X } from 'lucide-react'
import { useCallback, useMemo, useState } from 'react'
import { quotaConfig, quotaUsage } from '@/api/queries'
import type { Usage } from '@/api/types'
import { useI18n, type Key } from '@/i18n'
import { digits, percent, shorten, utc } from '@/lib/format'
import { download } from '@/lib/money'
import { oneOf } from '@/lib/url'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { Bar, Segments } from '@/ui/parts'
import { SpendChart, strengths } from '../spend/chart'
import { LedgerOff } from '../spend/off'
import { stepName } from '../spend/period'
import { dimensionOf, dimensions, parseOnly, toCsv, totals, windows } from './usage'

/** Requests and tokens by window, who made them, and each window by itself. */
export function UsageView() {
  const { t, locale } = useI18n()
  usePageFact(t('quota.used'))
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
  const shown = useMemo(() => bars.slice(-60), [bars])
  const labels = useMemo(() => shown.map((bar) => stepName(bar.start, window, locale)), [shown, window, locale])
  const layers = useMemo(() => groups.slice(0, 4).map((_, index) => shown.map((bar) => bar.parts[index] ?? 0)), [shown, groups])
  const nothing = useMemo(() => shown.map(() => null), [shown])
  const [cursor, setCursor] = useState<number | null>(null)
  const config = useQuery(quotaConfig)
  const label = (value: string) => (value === '' ? t('quota.nobody') : value)
  const number = useCallback((value: number) => new Intl.NumberFormat(locale).format(value), [locale])
  if (config.data?.enabled === false) return <LedgerOff />
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
            <div className="soft mb-2">{cursor === null || shown[cursor] === undefined ? t('quota.perWindow', { what: t(`quota.${measure}`), window: t(`quota.${window}`) }) : `${labels[cursor]} · ${number(shown[cursor].total)}`}</div>
            <SpendChart labels={labels} layers={layers} foretold={nothing} money={number} onCursor={setCursor} />
            <div className="leg mt-2">
              {layers.map((layer, index) => (
                <span key={index}>
                  <i className="swatch" style={{ opacity: strengths[index] }} aria-hidden="true" />
                  {index === 3 && groups.length > 4 ? t('spend.others') : shorten(label(groups[index]!.name), 28)} <b>{number(cursor === null ? layer.reduce((sum, one) => sum + one, 0) : (layer[cursor] ?? 0))}</b>
                </span>
              ))}
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

/** When a window began, in UTC; a phone has no room for the year. */
function Start({ of }: { of: string }) {
  const whole = utc(of)
  return (
    <>
      <span className="onlydesk">{whole.slice(0, 5)}</span>
      {whole.slice(5)}
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
              <td className="onlydesk">{t(`pg.${row.dimensions.serviceType}` as Key)}</td>
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
