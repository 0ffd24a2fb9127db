// Readings of models and instances in a span of time.
import type { Call, LiveHistory, LiveWindow, ServiceType } from '@/api/types'
import { quantile } from '@/lib/format'
import { endOf, outcome } from './series'

export interface Stat {
  requests: number
  /** Failed, or turned away by open breakers; what limits and budgets refuse is none. */
  errors: number
  /** Requests in a second. */
  rate: number
  /** 0 to 1, null without requests. */
  errorRate: number | null
  p95: number | null
  firstToken: number | null
}

export interface Stats {
  total: Stat
  /** By "service model". */
  models: Map<string, Stat>
  /** By "service instanceId". */
  instances: Map<string, Stat>
  services: Map<ServiceType, Stat>
}

export const empty: Stat = { requests: 0, errors: 0, rate: 0, errorRate: null, p95: null, firstToken: null }

export const noStats: Stats = { total: empty, models: new Map(), instances: new Map(), services: new Map() }

/** The readings of what the gateway counted in so many seconds. */
export function toStat(window: LiveWindow | null | undefined, seconds: number): Stat {
  if (window == null || window.requests === 0) return empty
  return {
    requests: window.requests,
    errors: window.errors,
    rate: window.requests / Math.max(1, seconds),
    errorRate: window.errors / window.requests,
    p95: window.latency?.p95 ?? null,
    firstToken: window.ttft?.p50 ?? null,
  }
}

/** The readings of a range, as the gateway tells what it comes to; its time is that in which it counted. */
export function wholeStats(of: Record<'total' | 'service' | 'model' | 'instance', LiveHistory>): Stats {
  const read = <K>(reply: LiveHistory, key: (one: LiveHistory['series'][number]) => K) => {
    const seconds = reply.watched.reduce((sum, one) => sum + one, 0)
    return new Map(reply.series.map((one) => [key(one), toStat(one.whole, seconds)] as const))
  }
  return {
    total: read(of.total, () => '').get('') ?? empty,
    services: read(of.service, (one) => one.service!),
    models: read(of.model, (one) => `${one.service} ${one.model}`),
    instances: read(of.instance, (one) => `${one.service} ${one.instanceId}`),
  }
}

class Sum {
  requests = 0
  errors = 0
  durations: number[] = []
  firstTokens: number[] = []

  add(durationMs: number, failed: boolean, firstToken: number | undefined): void {
    this.requests++
    if (failed) this.errors++
    else this.durations.push(durationMs)
    if (firstToken !== undefined) this.firstTokens.push(firstToken)
  }

  stat(seconds: number): Stat {
    const sort = (values: number[]) => values.sort((a, b) => a - b)
    return {
      requests: this.requests,
      errors: this.errors,
      rate: this.requests / seconds,
      errorRate: this.requests === 0 ? null : this.errors / this.requests,
      p95: quantile(sort(this.durations), 0.95),
      firstToken: quantile(sort(this.firstTokens), 0.5),
    }
  }
}

/** Sums up the calls (newest first) that ended in the last seconds, where the gateway's own counts do not arrive. */
export function summarise(calls: readonly Call[], seconds: number, watched: number, now: number): Stats {
  const from = now - seconds * 1000
  const total = new Sum()
  const models = new Map<string, Sum>()
  const instances = new Map<string, Sum>()
  const services = new Map<ServiceType, Sum>()
  for (const call of calls) {
    if (endOf(call) < from) {
      // Calls are in the order of their ends, except for what ended together.
      if (Date.parse(call.time) < from - 600_000) break
      continue
    }
    const kind = outcome(call)
    const failed = kind === 'failed' || kind === 'breaker'
    const first = call.streamed ? call.timeToFirstTokenMs : undefined
    total.add(call.durationMs, failed, first)
    sum(models, `${call.service} ${call.model}`).add(call.durationMs, failed, first)
    sum(services, call.service).add(call.durationMs, failed, first)
    const tries = call.tries ?? []
    if (tries.length === 0 && call.instance !== '') sum(instances, `${call.service} ${call.instance}`).add(call.durationMs, failed, first)
    for (const attempt of tries) {
      const bad = attempt.errorCode !== undefined && attempt.errorCode !== ''
      sum(instances, `${call.service} ${attempt.instance}`).add((attempt.endMs ?? call.durationMs) - (attempt.pickMs ?? 0), bad, first)
    }
  }
  const finish = <K>(sums: Map<K, Sum>) => new Map([...sums].map(([key, value]) => [key, value.stat(watched)] as const))
  // Services have no time in common.
  const all = services.size > 1 ? { ...total.stat(watched), p95: null, firstToken: null } : total.stat(watched)
  return { total: all, models: finish(models), instances: finish(instances), services: finish(services) }
}

function sum<K>(sums: Map<K, Sum>, key: K): Sum {
  let found = sums.get(key)
  if (found === undefined) {
    found = new Sum()
    sums.set(key, found)
  }
  return found
}
