import { useEffect, useMemo, useState } from 'react'
import { axis, digits, duration, missing, overhead, rate, text } from '@/lib/format'
import { useSeries } from '@/live/context'
import type { Range, Series } from '@/live/series'
import type { Zoom } from '@/ui/chart'
import { Meter, type MeterSpec } from '@/ui/chart-meter'
import { Part } from '@/ui/feedback'

type Column = Exclude<keyof Series, 'step' | 'times'>

const perSecond = (values: (number | null)[]) => ({
  value: values[0] == null ? missing : digits(values.reduce<number>((sum, value) => sum + (value ?? 0), 0)),
  unit: '',
})

const meters: MeterSpec<Column>[] = [
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
  const phone = useMemo(() => matchMedia('(max-width: 767px)').matches, [])
  return (
    <div className={`panel meters ${open ? 'open' : ''}`}>
      {meters.map((spec) => (
        <Part key={spec.title}>
          <Meter {...{ spec, series, range, open, onOpen, zoom, setZoom, cursor, setCursor }} sync="overview" height={open ? 180 : phone ? 44 : 54} />
        </Part>
      ))}
    </div>
  )
}
