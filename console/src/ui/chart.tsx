import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { usePreferences } from '@/shell/preferences'
import { useWidth } from './size'

export type Tone = 'accent' | 'ink-3' | 'warn-fill' | 'bad-fill'

export interface Line {
  values: (number | null)[]
  tone: Tone
  width?: number
  dash?: number[]
  fill?: boolean
}

export interface Zoom {
  min: number
  max: number
}

interface Props {
  times: number[]
  lines: Line[]
  /** The top of the axis; its bottom is 0. */
  max: number
  height: number
  /** Charts of one key share the crosshair. */
  sync: string
  /** The two first lines bound a band. */
  band?: boolean
  zoom: Zoom | null
  onZoom(zoom: Zoom | null): void
  /** The index under the crosshair, null when there is none. */
  onCursor(index: number | null): void
  step: number
}

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
}

/** Hatches spans longer than three steps in which nothing was known. */
function drawGaps(plot: uPlot, step: number): void {
  const times = plot.data[0]
  const values = plot.data[1]!
  const { ctx, bbox } = plot
  const from = values.findIndex((value) => value !== null)
  if (from < 0) return
  for (let i = from; i < times.length; i++) {
    if (values[i] !== null) continue
    let end = i
    while (end + 1 < times.length && values[end + 1] === null) end++
    if ((end - i + 1) * step > 3) {
      const x0 = Math.max(bbox.left, plot.valToPos(times[i]! - step / 2, 'x', true))
      const x1 = Math.min(bbox.left + bbox.width, plot.valToPos(times[end]! + step / 2, 'x', true))
      ctx.save()
      ctx.beginPath()
      ctx.rect(x0, bbox.top, x1 - x0, bbox.height)
      ctx.clip()
      ctx.strokeStyle = color('line')
      ctx.lineWidth = devicePixelRatio
      ctx.beginPath()
      for (let x = x0 - bbox.height; x < x1; x += 5 * devicePixelRatio) {
        ctx.moveTo(x, bbox.top + bbox.height)
        ctx.lineTo(x + bbox.height, bbox.top)
      }
      ctx.stroke()
      ctx.restore()
    }
    i = end
  }
}

function drawGrid(plot: uPlot): void {
  const { ctx, bbox } = plot
  const line = (fraction: number, style: string) => {
    // The last line is on the canvas, not below it.
    const y = Math.min(Math.round(bbox.top + bbox.height * fraction) + 0.5, bbox.top + bbox.height - 0.5)
    ctx.strokeStyle = style
    ctx.lineWidth = 1
    ctx.beginPath()
    ctx.moveTo(bbox.left, y)
    ctx.lineTo(bbox.left + bbox.width, y)
    ctx.stroke()
  }
  line(0, color('line'))
  line(0.5, color('line'))
  line(1, color('control'))
}

/** Indexes without a neighbour, which a line alone would not show. */
function alone(plot: uPlot, index: number): number[] {
  const values = plot.data[index]!
  const found: number[] = []
  for (let i = 0; i < values.length; i++) {
    if (values[i] != null && values[i - 1] == null && values[i + 1] == null) found.push(i)
  }
  return found
}

/** A chart of lines over time: no boxes, no smoothing, gaps stay gaps. */
export function Chart({ times, lines, max, height, sync, band, zoom, onZoom, onCursor, step }: Props) {
  const [box, width] = useWidth<HTMLDivElement>()
  const { shown } = usePreferences()
  const plot = useRef<uPlot | null>(null)
  const latest = useRef({ max, onZoom, onCursor, zoom, times })
  latest.current = { max, onZoom, onCursor, zoom, times }
  const shape = lines.map((line) => `${line.tone}/${line.width}/${line.dash?.join()}/${line.fill}`).join(' ')

  useEffect(() => {
    const element = box.current
    if (element === null || width === 0) return
    const chart = new uPlot(
      {
        width,
        height,
        pxAlign: 1,
        padding: [0, 0, 0, 0],
        legend: { show: false },
        axes: [{ show: false }, { show: false }],
        scales: {
          x: { time: true, range: () => xRange(latest.current) },
          y: { range: () => [0, latest.current.max] },
        },
        cursor: { sync: { key: sync }, points: { show: false }, drag: { x: true, y: false, setScale: false } },
        series: [
          {},
          ...lines.map((line): uPlot.Series => ({
            stroke: color(line.tone),
            width: line.width ?? 1.6,
            dash: line.dash,
            fill: line.fill ? `${color(line.tone)}17` : undefined,
            spanGaps: false,
            points: { show: true, size: 3, fill: color(line.tone), filter: (u, index) => alone(u, index) },
          })),
        ],
        bands: band ? [{ series: [1, 2], fill: `${color('accent')}1a` }] : [],
        hooks: {
          drawClear: [(u) => drawGrid(u), (u) => drawGaps(u, step)],
          setCursor: [(u) => latest.current.onCursor(u.cursor.idx ?? null)],
          setSelect: [
            (u) => {
              if (u.select.width < 4) return
              latest.current.onZoom({ min: u.posToVal(u.select.left, 'x'), max: u.posToVal(u.select.left + u.select.width, 'x') })
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
            },
          ],
        },
      },
      [times, ...lines.map((line) => line.values)] as uPlot.AlignedData,
      element,
    )
    const reset = () => latest.current.onZoom(null)
    chart.over.addEventListener('dblclick', reset)
    plot.current = chart
    return () => {
      chart.over.removeEventListener('dblclick', reset)
      chart.destroy()
      plot.current = null
    }
    // The data are set below; a new chart is only needed for another look.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [width, height, shown, shape, sync, band, step])

  useEffect(() => {
    plot.current?.setData([times, ...lines.map((line) => line.values)] as uPlot.AlignedData, true)
  }, [times, lines, max, zoom])

  return <div ref={box} className="w-full" aria-hidden="true" style={{ height }} />
}

function xRange({ zoom, times }: { zoom: Zoom | null; times: number[] }): [number, number] {
  if (zoom !== null) return [zoom.min, zoom.max]
  return [times[0] ?? 0, times[times.length - 1] ?? 1]
}

/** A line of 48 to 72 px without axes. */
export function Sparkline({ values, width = 48, height = 16 }: { values: (number | null)[]; width?: number; height?: number }) {
  const max = Math.max(...values.map((value) => value ?? 0), 0.001)
  let path = ''
  let pen = false
  values.forEach((value, index) => {
    if (value === null) {
      pen = false
      return
    }
    const x = (index / Math.max(1, values.length - 1)) * width
    const y = height - 1 - (value / max) * (height - 2)
    path += `${pen ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`
    pen = true
  })
  return (
    <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      <path d={path} fill="none" stroke="var(--accent)" strokeWidth="1.25" />
    </svg>
  )
}
