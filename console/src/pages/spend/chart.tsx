import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { usePreferences } from '@/shell/preferences'
import { useWidth } from '@/ui/size'

const token = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()

/** The colour of a layer: the accent, paler with each one, so that shades tell them apart without colour. */
export const strengths = [1, 0.66, 0.42, 0.26, 0.14]

function shade(strength: number): string {
  const hex = (name: string) => [1, 3, 5].map((at) => parseInt(token(name).slice(at, at + 2), 16))
  const back = hex('panel')
  const mixed = hex('accent').map((value, index) => Math.round(value * strength + back[index]! * (1 - strength)))
  return `rgb(${mixed.join(',')})`
}

/**
 * Bars over the steps of a period, one layer on the other, with both axes. The
 * last layer is what is foretold, drawn as an outline.
 */
export function SpendChart({ labels, layers, foretold, money, onCursor }: {
  labels: string[]
  layers: number[][]
  foretold: (number | null)[]
  money(micros: number): string
  onCursor(step: number | null): void
}) {
  const [box, width] = useWidth<HTMLDivElement>()
  const { shown } = usePreferences()
  const plot = useRef<uPlot | null>(null)
  const latest = useRef({ labels, money, onCursor })
  latest.current = { labels, money, onCursor }
  const count = layers.length
  const steps = labels.length
  useEffect(() => {
    const element = box.current
    if (element === null || width === 0) return
    const font = '11px system-ui, sans-serif'
    const bars = uPlot.paths.bars!({ size: [0.72, 40], align: 0 })
    const axis = { stroke: token('ink-3'), font, ticks: { show: false } }
    const chart = new uPlot(
      {
        width,
        height: 220,
        padding: [10, 8, 0, 0],
        legend: { show: false },
        cursor: { points: { show: false }, drag: { x: false, y: false }, y: false },
        scales: { x: { time: false, range: () => [-0.6, steps - 0.4] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.06 : 1] } },
        axes: [
          { ...axis, size: 24, grid: { show: false }, space: (u) => widest(u.ctx, font, latest.current.labels) + 14, incrs: [1, 2, 3, 5, 6, 7, 10, 14, 20, 50, 100], values: (_, splits) => splits.map((at) => latest.current.labels[at] ?? '') },
          { ...axis, size: 62, grid: { stroke: token('line'), width: 1 }, space: 40, values: (_, splits) => splits.map((at) => latest.current.money(at)) },
        ],
        series: [
          {},
          { paths: bars, stroke: token('control'), width: 1, dash: [3, 3], points: { show: false } },
          // The whole first: the layers below are drawn over it.
          ...Array.from({ length: count }, (_, index): uPlot.Series => ({ paths: bars, fill: shade(strengths[Math.min(strengths.length - 1, count - 1 - index)]!), width: 0, points: { show: false } })),
        ],
        hooks: { setCursor: [(u) => latest.current.onCursor(u.cursor.idx ?? null)] },
      },
      data(labels, layers, foretold),
      element,
    )
    plot.current = chart
    return () => {
      chart.destroy()
      plot.current = null
    }
    // The data are set below; a new chart is only needed for another look.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [width, shown, count, steps])
  useEffect(() => {
    plot.current?.setData(data(labels, layers, foretold), true)
  }, [labels, layers, foretold])
  return <div ref={box} className="spendplot" aria-hidden="true" />
}

/** How wide the longest of the labels is, in pixels. */
function widest(context: CanvasRenderingContext2D, font: string, labels: readonly string[]): number {
  context.save()
  context.font = font
  const width = Math.max(0, ...labels.map((label) => context.measureText(label).width))
  context.restore()
  return width
}

function data(labels: string[], layers: number[][], foretold: (number | null)[]): uPlot.AlignedData {
  const sums = layers.map((_, index) => labels.map((__, step) => layers.slice(0, layers.length - index).reduce((sum, layer) => sum + layer[step]!, 0)))
  return [labels.map((_, step) => step), foretold, ...sums] as uPlot.AlignedData
}
