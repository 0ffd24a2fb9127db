import { useQuery } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { ServiceType } from '@/api/types'
import { useI18n } from '@/i18n'
import { digits, duration, text } from '@/lib/format'
import { Sparkline } from '@/ui/chart'
import { useWidth } from '@/ui/size'

type Values = (number | null)[]

const last = (values: Values): number | null => values.findLast((value) => value !== null) ?? null

/** Adds up what several instances did, moment by moment; unknown where none of them is known. */
export function sumOf(all: Values[], join: (a: number, b: number) => number): Values {
  return Array.from({ length: Math.max(0, ...all.map((one) => one.length)) }, (_, at) => {
    const known = all.map((one) => one[at] ?? null).filter((value) => value !== null)
    return known.length === 0 ? null : known.reduce(join)
  })
}

/** The last hour of one or more instances: requests, failures and the worst latency. */
export function Charts({ service, ids }: { service: ServiceType; ids: string[] }) {
  const { t } = useI18n()
  const [box, width] = useWidth<HTMLDivElement>()
  const { data } = useQuery({
    queryKey: ['series', 'of instances'],
    refetchInterval: 15_000,
    queryFn: ({ signal }) => body(api.GET('/api/monitoring/series', { params: { query: { metric: 'requests,latency', by: 'instance', range: '1h' } as never }, signal })),
  })
  const mine = (data?.series ?? []).filter((series) => series.service === service && ids.includes(series.instanceId ?? ''))
  const add = (a: number, b: number) => a + b
  const answered = sumOf(mine.map((one) => (one.requests?.answered ?? []) as Values), add)
  const failed = sumOf(mine.map((one) => (one.requests?.failed ?? []) as Values), add)
  const p95 = sumOf(mine.map((one) => (one.latency?.p95 ?? []) as Values), Math.max)
  const charts: { label: string; values: Values; now: string }[] = [
    { label: t('wrong.chart.answered'), values: answered, now: last(answered) === null ? '–' : digits(last(answered)!) },
    { label: t('wrong.chart.failed'), values: failed, now: last(failed) === null ? '–' : digits(last(failed)!) },
    { label: t('wrong.chart.p95'), values: p95, now: text(duration(last(p95))) },
  ]
  return (
    <div className="panel objcharts" ref={box}>
      {charts.map((chart) => (
        <figure key={chart.label}>
          <figcaption>
            <span className="muted">{chart.label}</span> <b>{chart.now}</b>
          </figcaption>
          <Sparkline values={chart.values} width={Math.max(80, Math.floor((width < 700 ? width - 24 : width / 3 - 32)))} height={54} />
          <span className="muted text-[11px]">{t('wrong.chart.hour')}</span>
        </figure>
      ))}
    </div>
  )
}
