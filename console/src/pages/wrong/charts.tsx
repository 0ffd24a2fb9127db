import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { api, body } from '@/api/client'
import { spentThisMonth } from '@/api/queries'
import { useI18n } from '@/i18n'
import { missing } from '@/lib/format'
import { amount, money } from '@/lib/money'
import { oneOf } from '@/lib/url'
import { merged, refetchEvery, toSeries } from '@/live/history'
import { ranges, type Range } from '@/live/series'
import { useSearchState } from '@/shell/search'
import type { Zoom } from '@/ui/chart'
import { Meter, type Columns, type LineSpec, type MeterSpec } from '@/ui/chart-meter'
import { latency, requests, tokens } from '@/ui/chart-specs'
import { Part } from '@/ui/feedback'
import { Select } from '@/ui/field'
import { Segments } from '@/ui/parts'
import { SinceStart } from '@/ui/since'
import { Figures } from './figures'

/** Whose history is shown: as the API narrows it. */
export type HistoryOf = { by: 'instance'; service: string; instanceId: string } | { by: 'host'; host: string } | { by: 'model'; service: string; model: string } | { by: 'tenant'; tenant: string }

type Name = 'answered' | 'failed' | 'refused' | 'p50' | 'p95' | 'firstToken' | 'tokensIn' | 'tokensOut' | 'cost'

/** What was counted of an object, with what limits, budgets and breakers refused in one line, and the times of one of its services. */
function useHistory(of: HistoryOf, range: Range, wanted: string | undefined) {
  const { data } = useQuery({
    queryKey: ['series', 'of', of, range],
    refetchInterval: refetchEvery[range],
    queryFn: ({ signal }) => body(api.GET('/api/monitoring/series', { params: { query: { ...of, metric: 'requests,latency,ttft,tokens,cost', range } as never }, signal })),
  })
  return useMemo(() => {
    if (data === undefined) return { services: [] }
    const services = data.series.map((one) => one.service!)
    const service = services.find((one) => one === wanted) ?? services[0]
    const all = data.series.length === 0 ? [toSeries(data)] : data.series.map((one) => toSeries(data, one))
    const series = merged(all, all[Math.max(0, services.indexOf(service!))])
    const refused = series.limited.map((limited, at) => (limited === null ? null : limited + (series.breaker[at] ?? 0)))
    return { services, service, series: { ...series, refused } satisfies Columns<Name> }
  }, [data, wanted])
}

const refused: LineSpec<Name> = { series: 'refused', name: 'wrong.chart.refused', tone: 'warn-fill', width: 1.4, dash: [2, 3], legend: 'w d' }
const spend = (currency: string, locale: string): MeterSpec<Name> => ({
  title: 'wrong.chart.spend',
  unit: 'wrong.chart.perHour',
  lines: [{ series: 'cost', name: 'wrong.chart.cost', tone: 'accent', fill: true, legend: '' }],
  reading: (values) => ({ value: values[0] == null ? missing : amount(values[0], locale), unit: values[0] == null ? '' : currency }),
  value: (value) => (value === null ? missing : money(value, currency, locale)),
  max: (value) => (value <= 1 ? '' : amount(value, locale)), // nothing was spent
})

/** Requests, latency, tokens and spend of an object, with their axes, in one of the kept ranges. */
export function ObjectCharts({ of, label }: { of: HistoryOf; label: string }) {
  const { t, locale } = useI18n()
  const [search, setSearch] = useSearchState()
  const range = oneOf(search.range, ranges)
  const { series, services, service } = useHistory(of, range, search.of)
  const { data: spent } = useQuery(spentThisMonth('tenant'))
  const [zoom, setZoom] = useState<Zoom | null>(null)
  const [cursor, setCursor] = useState<number | null>(null)
  const specs = useMemo((): MeterSpec<Name>[] => [requests(refused), latency, tokens, ...(spent?.shown === true ? [spend(spent.currency, locale)] : [])], [spent?.shown, spent?.currency, locale])
  return (
    <section aria-label={label}>
      <div className="h2">
        <h2>{t('wrong.charts')}</h2>
        <span className="grow" />
        {services.length > 1 && <Select quiet label={t('figures.of')} value={service!} options={services.map((value) => ({ value, label: t(`pg.${value}`) }))} onChange={(value) => setSearch({ of: value === services[0] ? undefined : value })} />}
        <Segments
          label={t('overview.range')}
          value={range}
          options={ranges.map((value) => ({ value, label: t(`overview.${value}`) }))}
          onChange={(value) => {
            setZoom(null)
            setSearch({ range: value === '5m' ? undefined : value })
          }}
        />
      </div>
      <div className={`panel meters objmeters n${specs.length}`}>
        {series !== undefined &&
          specs.map((spec) => (
            <Part key={spec.title}>
              <Meter {...{ spec, series, range, zoom, setZoom, cursor, setCursor }} sync="object" height={96} open />
            </Part>
          ))}
      </div>
      <SinceStart range={range} />
      <Figures of={of} range={range} />
    </section>
  )
}
