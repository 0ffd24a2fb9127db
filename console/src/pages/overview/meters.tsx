import { useEffect, useMemo, useRef, useState } from 'react'
import { useI18n, type Key } from '@/i18n'
import { axis, clock, digits, duration, missing, niceMax, overhead, rate, text, type Reading } from '@/lib/format'
import { useSeries } from '@/live/context'
import type { Range, Series } from '@/live/series'
import { Chart, type Line, type Zoom } from '@/ui/chart'
import { Part } from '@/ui/feedback'
import { Value } from '@/ui/parts'

interface LineSpec {
  series: Exclude<keyof Series, 'step' | 'times'>
  name: Key | 'p95' | 'p50'
  tone: Line['tone']
  width?: number
  dash?: number[]
  fill?: boolean
  legend: string
}

interface MeterSpec {
  title: Key
  lines: LineSpec[]
  band?: boolean
  /** The number of the whole meter, of the values of its lines. */
  reading(values: (number | null)[]): Reading
  value(value: number | null): string
  max(value: number): string
  unit?: Key
  /** A reading without a line of its own. */
  extra?: { series: LineSpec['series']; name: Key }
}

const perSecond = (values: (number | null)[]) => ({
  value: values[0] == null ? missing : digits(values.reduce<number>((sum, value) => sum + (value ?? 0), 0)),
  unit: '',
})

const meters: MeterSpec[] = [
  {
    title: 'overview.requests',
    unit: 'common.perSecond',
    lines: [
      { series: 'answered', name: 'overview.answered', tone: 'accent', fill: true, legend: '' },
      { series: 'failed', name: 'overview.failed', tone: 'bad-fill', width: 1.4, legend: 'b' },
      { series: 'breaker', name: 'overview.refused', tone: 'bad-fill', width: 1.4, dash: [2, 3], legend: 'b d' },
      { series: 'limited', name: 'overview.limited', tone: 'warn-fill', width: 1.4, legend: 'w' },
    ],
    reading: perSecond,
    value: (value) => rate(value),
    max: (value) => digits(value),
  },
  {
    title: 'overview.latency',
    band: true,
    lines: [
      { series: 'p95', name: 'p95', tone: 'accent', legend: '' },
      { series: 'p50', name: 'p50', tone: 'ink-3', width: 1.2, legend: 'n' },
    ],
    extra: { series: 'firstToken', name: 'pg.firstToken' },
    reading: (values) => duration(values[0]),
    value: (value) => text(duration(value)),
    max: (value) => axis(duration(value)),
  },
  {
    title: 'overview.tokens',
    unit: 'common.perSecond',
    lines: [
      { series: 'tokensOut', name: 'overview.out', tone: 'accent', legend: '' },
      { series: 'tokensIn', name: 'overview.in', tone: 'ink-3', width: 1.2, legend: 'n' },
    ],
    reading: perSecond,
    value: (value) => (value === null ? missing : digits(value)),
    max: (value) => digits(value),
  },
  {
    title: 'overview.overhead',
    band: true,
    lines: [
      { series: 'overhead95', name: 'p95', tone: 'accent', legend: '' },
      { series: 'overhead50', name: 'p50', tone: 'ink-3', width: 1.2, legend: 'n' },
    ],
    reading: (values) => overhead(values[0]),
    value: (value) => text(overhead(value)),
    max: (value) => axis(overhead(value)),
  },
]

/** Four charts in one strip that share time range and crosshair. */
export function Meters({ range, open, onOpen }: { range: Range; open: boolean; onOpen(): void }) {
  const series = useSeries(range)
  const [zoom, setZoom] = useState<Zoom | null>(null)
  const [cursor, setCursor] = useState<number | null>(null)
  useEffect(() => setZoom(null), [range])
  return (
    <div className={`panel meters ${open ? 'open' : ''}`}>
      {meters.map((spec) => (
        <Part key={spec.title}>
          <Meter {...{ spec, series, range, open, onOpen, zoom, setZoom, cursor, setCursor }} />
        </Part>
      ))}
    </div>
  )
}

/** Failures are coloured where there are some; a gateway without any is ink and petrol. */
const quiet = (values: readonly (number | null)[], tone: Line['tone']) => (tone === 'bad-fill' || tone === 'warn-fill') && !values.some((value) => value !== null && value > 0)

/** The top of an axis grows at once and shrinks only after 30 seconds. */
function useTop(value: number): number {
  const held = useRef({ top: 0, since: 0 })
  const wanted = niceMax(value)
  const now = Date.now()
  if (wanted >= held.current.top) held.current = { top: wanted, since: now }
  else if (now - held.current.since > 30_000) held.current = { top: wanted, since: now }
  return held.current.top
}

function Meter({ spec, series, range, open, onOpen, zoom, setZoom, cursor, setCursor }: {
  spec: MeterSpec
  series: Series
  range: Range
  open: boolean
  onOpen(): void
  zoom: Zoom | null
  setZoom(zoom: Zoom | null): void
  cursor: number | null
  setCursor(index: number | null): void
}) {
  const { t } = useI18n()
  const [table, setTable] = useState(false)
  const phone = useMemo(() => matchMedia('(max-width: 767px)').matches, [])
  const lines = useMemo(
    () => spec.lines.map(({ series: name, tone, width, dash, fill }): Line => ({ values: quiet(series[name], tone) ? series[name].map(() => null) : series[name], tone, width, dash, fill })),
    [spec, series],
  )
  const top = useTop(Math.max(0, ...lines.flatMap((line) => line.values.map((value) => value ?? 0))))
  const last = series.times.length - 1
  const at = (name: LineSpec['series'], index: number | null) => {
    if (index !== null) return series[name][index] ?? null
    // Now is the last value of the latest seconds: one second may have none.
    for (let i = last; i > last - 5 && i >= 0; i--) if (series[name][i] !== null) return series[name][i]!
    return null
  }
  const now = spec.lines.map((line) => at(line.series, null))
  const name = (line: { name: LineSpec['name'] | Key }) => (line.name === 'p95' || line.name === 'p50' ? line.name : t(line.name))
  const title = t(spec.title)
  return (
    <section className="meter" aria-label={title}>
      <div className="lab">
        <button type="button" className="plain border-0 bg-transparent p-0" title={t('overview.enlarge')} aria-expanded={open} onClick={onOpen}>
          {title}
        </button>
        {open && (
          <button type="button" className="link ml-auto" aria-pressed={table} onClick={() => setTable(!table)}>
            {t('common.table')}
          </button>
        )}
      </div>
      <div className="val">
        <Value reading={spec.reading(now)} />
        {spec.unit !== undefined && <span className="u">{t(spec.unit)}</span>}
      </div>
      {open && table ? (
        <PointTable {...{ spec, series, title, name }} />
      ) : (
        <>
          <div className="plot">
            <span className="ymax">{spec.max(top)}</span>
            <Chart times={series.times} lines={lines} max={top} height={open ? 180 : phone ? 44 : 54} sync="overview" band={spec.band} zoom={zoom} onZoom={setZoom} onCursor={setCursor} step={series.step} />
          </div>
          <div className="xax">
            <span>{zoom === null ? t(`overview.ago.${range}`) : clock(zoom.min * 1000)}</span>
            <span>{cursor !== null ? clock(series.times[cursor]! * 1000) : zoom === null ? t('common.now') : clock(zoom.max * 1000)}</span>
          </div>
        </>
      )}
      <div className="leg">
        {spec.lines.map((line) => (
          <span key={line.series}>
            <i className={`k ${quiet(series[line.series], line.tone) ? `n ${line.dash === undefined ? '' : 'd'}` : line.legend}`} aria-hidden="true" />
            {name(line)} <b>{spec.value(at(line.series, cursor))}</b>
          </span>
        ))}
        {spec.extra !== undefined && (
          <span>
            {t(spec.extra.name)} <b>{spec.value(at(spec.extra.series, cursor))}</b>
          </span>
        )}
      </div>
    </section>
  )
}

function PointTable({ spec, series, title, name }: { spec: MeterSpec; series: Series; title: string; name(line: LineSpec): string }) {
  const { t } = useI18n()
  const from = Math.max(0, series.times.length - 20)
  return (
    <div className="max-h-[200px] overflow-auto" tabIndex={0}>
      <table className="tbl">
        <caption className="sr-only">{t('overview.chartTable', { title })}</caption>
        <thead>
          <tr>
            <th>{t('overview.time')}</th>
            {spec.lines.map((line) => (
              <th key={line.series} className="num">
                {name(line)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {series.times.slice(from).map((time, index) => (
            <tr key={time}>
              <td>{clock(time * 1000)}</td>
              {spec.lines.map((line) => (
                <td key={line.series} className="num">
                  {spec.value(series[line.series][from + index] ?? null)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
