import { useEffect, useMemo, useState } from 'react'
import type { ServiceType } from '@/api/types'
import { overhead } from '@/lib/format'
import { useSeries } from '@/live/context'
import type { Range, Series } from '@/live/series'
import type { Zoom } from '@/ui/chart'
import { Meter, type MeterSpec } from '@/ui/chart-meter'
import { latency, percentiles, requests, tokens } from '@/ui/chart-specs'
import { Part } from '@/ui/feedback'

type Column = Exclude<keyof Series, 'step' | 'times'>

const meters: MeterSpec<Column>[] = [
  requests(
    { series: 'breaker', name: 'overview.refused', tone: 'bad-fill', width: 1.4, dash: [2, 3], legend: 'b d' },
    { series: 'limited', name: 'overview.limited', tone: 'warn-fill', width: 1.4, legend: 'w' },
  ),
  latency,
  tokens,
  percentiles('overview.overhead', 'overhead95', 'overhead50', overhead),
]

/** Four charts in one strip that share time range and crosshair; times are those of one service. */
export function Meters({ range, service, open, onOpen }: { range: Range; service: ServiceType | undefined; open: boolean; onOpen(): void }) {
  const series = useSeries(range, service)
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
