import { useMemo, useRef, useState } from 'react'
import { useI18n, type Key } from '@/i18n'
import { clock, niceMax, stamp, type Reading } from '@/lib/format'
import { rangeShape, type Range } from '@/live/series'
import { Chart, type Line, type Zoom } from './chart'
import { Value } from './parts'

type Values = (number | null)[]

/** What a meter draws: columns of values over the same times. */
export type Columns<K extends string> = { step: number; times: number[] } & Record<K, Values>

export interface LineSpec<K extends string> {
  series: K
  name: Key | 'p95' | 'p50'
  tone: Line['tone']
  width?: number
  dash?: number[]
  fill?: boolean
  legend: string
}

export interface MeterSpec<K extends string> {
  title: Key
  lines: LineSpec<K>[]
  band?: boolean
  /** The number of the whole meter, of the values of its lines. */
  reading(values: (number | null)[]): Reading
  value(value: number | null): string
  max(value: number): string
  unit?: Key
  /** A reading without a line of its own. */
  extra?: { series: K; name: Key }
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

/** A moment of a range: of a day or longer with its date, else the time. */
const moment = (seconds: number, range: Range) => (rangeShape[range].step >= 300 ? stamp(seconds * 1000).slice(5, 16) : clock(seconds * 1000))

/** One reading with its lines over time: the top of its axis, its times, and a legend with values. */
export function Meter<K extends string>({ spec, series, range, sync, height, open, onOpen, zoom, setZoom, cursor, setCursor }: {
  spec: MeterSpec<K>
  series: Columns<K>
  range: Range
  /** Charts of one key share the crosshair. */
  sync: string
  height: number
  /** Whether the chart is large enough to have its table. */
  open: boolean
  /** Makes the chart large or small; without it, it stays as it is. */
  onOpen?(): void
  zoom: Zoom | null
  setZoom(zoom: Zoom | null): void
  cursor: number | null
  setCursor(index: number | null): void
}) {
  const { t } = useI18n()
  const [table, setTable] = useState(false)
  const lines = useMemo(
    () => spec.lines.map(({ series: name, tone, width, dash, fill }): Line => ({ values: quiet(series[name], tone) ? series[name].map(() => null) : series[name], tone, width, dash, fill })),
    [spec, series],
  )
  const top = useTop(Math.max(0, ...lines.flatMap((line) => line.values.map((value) => value ?? 0))))
  const last = series.times.length - 1
  const at = (name: K, index: number | null): number | null => {
    if (index !== null) return series[name][index] ?? null
    // Now is the last value of the latest seconds: one second may have none.
    for (let i = last; i > last - 5 && i >= 0; i--) if (series[name][i] !== null) return series[name][i]!
    return null
  }
  const now = spec.lines.map((line) => at(line.series, null))
  const name = (line: { name: LineSpec<K>['name'] }) => (line.name === 'p95' || line.name === 'p50' ? line.name : t(line.name))
  const title = t(spec.title)
  return (
    <section className="meter" aria-label={title}>
      <div className="lab">
        {onOpen === undefined ? (
          title
        ) : (
          <button type="button" className="plain border-0 bg-transparent p-0" title={t('overview.enlarge')} aria-expanded={open} onClick={onOpen}>
            {title}
          </button>
        )}
        {open && (
          <button type="button" className="link ml-auto" aria-pressed={table} aria-label={`${t('common.table')}: ${title}`} onClick={() => setTable(!table)}>
            {t('common.table')}
          </button>
        )}
      </div>
      <div className="val">
        <Value reading={spec.reading(now)} />
        {spec.unit !== undefined && <span className="u">{t(spec.unit)}</span>}
      </div>
      {open && table ? (
        <PointTable {...{ spec, series, title, name, range }} />
      ) : (
        <>
          <div className="plot" style={{ height }}>
            <span className="ymax">{spec.max(top)}</span>
            <Chart times={series.times} lines={lines} max={top} height={height} sync={sync} band={spec.band} zoom={zoom} onZoom={setZoom} onCursor={setCursor} step={series.step} />
          </div>
          <div className="xax">
            <span>{zoom === null ? t(`overview.ago.${range}`) : moment(zoom.min, range)}</span>
            <span>{cursor !== null ? moment(series.times[cursor] ?? 0, range) : zoom === null ? t('common.now') : moment(zoom.max, range)}</span>
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

function PointTable<K extends string>({ spec, series, title, name, range }: { spec: MeterSpec<K>; series: Columns<K>; title: string; name(line: LineSpec<K>): string; range: Range }) {
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
              <td>{moment(time, range)}</td>
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
