// The charts: what the gateway remembers, and the seconds since then.
import { queryOptions } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { LiveHistory, LiveWindow, ServiceType } from '@/api/types'
import { counts, rangeShape, type Range, type Series } from './series'
import { wholeStats, type Stat } from './stats'
import type { Snapshot } from './types'

/** How often a range that nobody extends is asked for again. */
export const refetchEvery: Record<Range, number> = { '5m': 2000, '1h': 15_000, '24h': 60_000, '7d': 300_000, '30d': 300_000 }

/** What the gateway has kept: counts of all services and the times of each, as those of a chat and of an embedding have no
 *  figure in common. It is asked for again once a step, for seconds twice a minute. */
export const history = (range: Range) =>
  queryOptions({
    queryKey: ['series', range],
    retry: false,
    staleTime: 10_000,
    refetchInterval: { ...refetchEvery, '5m': 30_000 }[range], // seconds come by the stream
    queryFn: async ({ signal }) => {
      const ask = (by: 'total' | 'service', metric: string) => body(api.GET('/api/monitoring/series', { params: { query: { range, by, metric } }, signal }))
      const [total, service] = await Promise.all([ask('total', 'requests,tokens,cost'), ask('service', 'latency,ttft,overhead')])
      return { began: Date.parse(total.startedAt), all: toRates(total), services: new Map(service.series.map((one) => [one.service!, toRates(service, one)])) }
    },
  })

/** What a range comes to, for each service, model and instance. */
export const whole = (range: Range) =>
  queryOptions({
    queryKey: ['series', 'whole', range],
    retry: false,
    refetchInterval: refetchEvery[range],
    queryFn: async ({ signal }) => {
      const ask = (by: 'total' | 'service' | 'model' | 'instance') => body(api.GET('/api/monitoring/series', { params: { query: { range, by, metric: 'whole' } }, signal }))
      const [total, service, model, instance] = await Promise.all([ask('total'), ask('service'), ask('model'), ask('instance')])
      return wholeStats({ total, service, model, instance })
    },
  })

const quantiles = ['p50', 'p95', 'firstToken', 'overhead50', 'overhead95'] as const
type Quantiles = (typeof quantiles)[number]

/** Counts of all services, with the times of one of them, which may have been asked for a second later. */
export function withTimes<S extends Series>(series: S, of: Series | undefined): S {
  const places = new Map(of?.times.map((time, at) => [time, at]))
  const column = (name: Quantiles) => series.times.map((time) => of?.[name][places.get(time) ?? -1] ?? null)
  return { ...series, ...Object.fromEntries(quantiles.map((name) => [name, column(name)])) }
}

/** The service with the times that are shown at first: chat, or else the one with the most requests. */
export function leading(services: ReadonlyMap<ServiceType, Stat>): ServiceType | undefined {
  const used = [...services].filter(([, stat]) => stat.p95 !== null).toSorted(([, a], [, b]) => b.requests - a.requests)
  return (used.find(([service]) => service === 'chat') ?? used[0])?.[0]
}

/** A second holds too few requests: its rate is the mean of so many seconds up to it. */
const rateOver = 5

/** Rates as they are drawn: those of seconds are the mean of the last ones. */
export function smoothed<S extends Series & { cost?: (number | null)[] }>(series: S): S {
  if (series.step !== 1) return series
  return { ...series, ...Object.fromEntries([...counts, 'cost' as const].map((name) => [name, smooth(series[name] ?? [], rateOver)])) }
}

export const toSeries = (reply: LiveHistory, of = reply.series[0]) => smoothed(toRates(reply, of))

/** A range of which nothing is known yet. */
export function unknown(range: Range, now: number): Series {
  const { step, points } = rangeShape[range]
  const from = new Date((Math.floor(now / 1000 / step) - points) * step * 1000).toISOString()
  return toRates({ startedAt: from, range, stepSeconds: step, from, points, watched: [], series: [], omitted: 0 })
}

/** Counts of each step become rates, by the time of it that was watched: the last one has not ended. */
export function toRates(reply: LiveHistory, of = reply.series[0]): Series & { cost: (number | null)[] } {
  const step = reply.stepSeconds
  const from = Math.round(Date.parse(reply.from) / 1000)
  const column = (values: (number | null)[] | null | undefined) => Array.from({ length: reply.points }, (_, i) => values?.[i] ?? null)
  const rates = (values: (number | null)[] | null | undefined) => column(values).map((value, i) => (value === null ? null : value / (reply.watched[i] || step)))
  return {
    step,
    times: Array.from({ length: reply.points }, (_, i) => from + i * step),
    answered: rates(of?.requests?.answered),
    failed: rates(of?.requests?.failed),
    breaker: rates(of?.requests?.breakerOpen),
    limited: rates(of?.requests?.limited),
    cost: rates(of?.cost).map((value) => (value === null ? null : value * 3600)), // by the hour
    tokensIn: rates(of?.tokens?.input),
    tokensOut: rates(of?.tokens?.output),
    p50: column(of?.latency?.p50),
    p95: column(of?.latency?.p95),
    firstToken: column(of?.ttft?.p50),
    overhead50: column(of?.overhead?.p50),
    overhead95: column(of?.overhead?.p95),
  }
}

/** What several have together, moment by moment: sums, unknown where none of them is known, and the times of one of them. */
export function merged<S extends Series>(all: readonly S[], times = all[0]): S {
  const first = all[0]!
  if (all.length === 1) return first
  const whole = { ...first } as S & Record<string, (number | null)[]>
  for (const name of Object.keys(first).filter((key) => key !== 'step' && key !== 'times' && !(quantiles as readonly string[]).includes(key))) {
    const columns = all.map((one) => (one as unknown as Record<string, (number | null)[]>)[name]!)
    const column = first.times.map((_, at) => {
      const known = columns.map((values) => values[at] ?? null).filter((value) => value !== null)
      return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0)
    })
    Object.assign(whole, { [name]: column })
  }
  return withTimes(whole, times)
}

/** The mean of each value and those before it; a gap stays a gap. */
export function smooth(values: (number | null)[], over: number): (number | null)[] {
  return values.map((value, i) => {
    if (value === null) return null
    let sum = 0
    let steps = 0
    for (let back = 0; back < over && i - back >= 0; back++) {
      const earlier = values[i - back]
      if (earlier === null || earlier === undefined) break
      sum += earlier
      steps++
    }
    return sum / steps
  })
}

/** One second, as two snapshots tell it. */
interface Second {
  time: number
  counts: Record<(typeof counts)[number], number>
  all: Record<Quantiles, number | null>
  services: Map<ServiceType, Record<Quantiles, number | null>>
}

const timesOf = (window: LiveWindow): Record<Quantiles, number | null> => ({
  p50: window.latency?.p50 ?? null,
  p95: window.latency?.p95 ?? null,
  firstToken: window.ttft?.p50 ?? null,
  overhead50: window.overhead?.p50 ?? null,
  overhead95: window.overhead?.p95 ?? null,
})

const kept = 330

/** The last seconds, from the differences of one snapshot to the next. */
export class Seconds {
  private list: Second[] = []
  private before: Snapshot | null = null

  add(snapshot: Snapshot): void {
    const { before } = this
    const now = snapshot.totals
    if (now === undefined || before?.time === snapshot.time) return
    this.before = snapshot
    const then = before?.totals
    const gap = before === null ? Number.POSITIVE_INFINITY : snapshot.time - before.time
    if (then === undefined || then.startedAt !== now.startedAt || gap > 1900 || gap < 0) return
    const of = Object.fromEntries(counts.map((name) => [name, now[name] - then[name]])) as Second['counts']
    this.list.push({
      time: Math.round(snapshot.time / 1000) - 1,
      counts: of,
      all: timesOf(now.window),
      services: new Map([...(now.services ?? [])].map(([service, window]) => [service, timesOf(window)])),
    })
    if (this.list.length > kept) this.list.splice(0, this.list.length - kept)
  }

  /** Extends the seconds that the gateway told by those that were seen since, with the times of a service. */
  extend(series: Series, until: number, service?: ServiceType): Series {
    const last = series.times[series.times.length - 1]
    if (last === undefined || series.step !== 1) return series
    const end = Math.floor(until / 1000) - 1
    if (end <= last) return series
    const byTime = new Map(this.list.map((second) => [second.time, second]))
    const result: Series = { ...series, times: [...series.times] }
    for (const name of [...counts, ...quantiles]) result[name] = [...series[name]]
    for (let time = last + 1; time <= end; time++) {
      // Snapshots a little apart from a second may round to the one beside it.
      const second = byTime.get(time) ?? (byTime.has(time - 1) ? byTime.get(time + 1) : undefined)
      result.times.push(time)
      for (const name of counts) result[name].push(second?.counts[name] ?? null)
      const times = service === undefined ? second?.all : second?.services.get(service)
      for (const name of quantiles) result[name].push(times?.[name] ?? null)
    }
    const surplus = result.times.length - series.times.length
    result.times.splice(0, surplus)
    for (const name of [...counts, ...quantiles]) result[name].splice(0, surplus)
    return result
  }
}
