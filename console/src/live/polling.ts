import { api, body, versioned } from '@/api/client'
import { toCall, type BreakerStatus, type Call, type CallList, type InstanceStatus, type ServiceType } from '@/api/types'
import { splitId } from '@/lib/format'
import type { InstanceState, Sink, Snapshot, Source } from './types'

const interval = 1000
const timeout = 2500
const tail = 250
/** How many calls are asked for that were before the page; with them a page load stays below 60 KB. */
export const firstTail = 40

/** Asks the monitoring API once a second. */
export class PollingSource implements Source {
  start(sink: Sink): () => void {
    let stopped = false
    let timer: ReturnType<typeof setTimeout> | undefined
    let failures = 0
    let latest = ''
    const abort = new AbortController()

    const tick = async () => {
      const began = Date.now()
      const signal = AbortSignal.any([abort.signal, AbortSignal.timeout(timeout)])
      try {
        // The state is small and comes first; the first batch of calls is large.
        const state = readSnapshot(signal).then((snapshot) => {
          if (!stopped) sink.snapshot(snapshot)
        })
        const [batch] = await Promise.all([readCalls(latest === '' ? firstTail : tail, signal), state])
        if (stopped) return
        if (batch.calls.length > 0) latest = batch.calls[0]!.requestId
        sink.calls(batch)
        failures = 0
        timer = setTimeout(tick, Math.max(100, interval - (Date.now() - began)))
      } catch (error) {
        if (stopped) return
        const retry = Math.min(5000, 1000 * 2 ** Math.max(0, Math.min(failures++, 4) - 1))
        latest = ''
        sink.failed(error, retry)
        timer = setTimeout(tick, retry)
      }
    }
    void tick()
    return () => {
      stopped = true
      clearTimeout(timer)
      abort.abort()
    }
  }
}

export async function readCalls(limit: number, signal: AbortSignal): Promise<{ calls: Call[]; capacity: number; samplingRate: number }> {
  // The other form of the reply, a call in each line, is not asked for.
  const reply = (await body(api.GET('/api/monitoring/calls', { params: { query: { limit, brief: true } }, signal }))) as CallList
  return { calls: reply.calls.map(toCall), capacity: reply.capacity, samplingRate: reply.samplingRate }
}

async function readSnapshot(signal: AbortSignal): Promise<Snapshot> {
  const [instances, breakers, current] = await Promise.all([
    body(api.GET('/api/monitoring/instances', { signal })),
    body(api.GET('/api/monitoring/circuit-breaker', { signal })),
    versioned(api.GET('/api/config/version/current', { signal })),
  ])
  const byKey = new Map<string, BreakerStatus>()
  for (const breaker of breakers.instances) byKey.set(`${breaker.service} ${breaker.id}`, breaker)
  const states: InstanceState[] = []
  for (const [service, list] of Object.entries(instances.services)) {
    for (const status of list.instances) {
      states.push(merge(service as ServiceType, status, byKey.get(`${service} ${status.id}`)))
    }
  }
  return { time: Date.now(), version: current.version, instances: states }
}

function merge(service: ServiceType, status: InstanceStatus, breaker: BreakerStatus | undefined): InstanceState {
  const { model, url, host } = splitId(status.id)
  const time = (value: string | null | undefined) => (value ? Date.parse(value) : null)
  return {
    id: status.id,
    service,
    model,
    url,
    host,
    adapter: status.adapter.toLowerCase(),
    health: status.lastHealthCheck === null ? 'UNKNOWN' : status.status === 'HEALTHY' ? 'HEALTHY' : 'UNHEALTHY',
    error: status.error ?? '',
    enabled: status.enabled,
    weight: status.weight,
    inFlight: status.inFlight,
    requests: status.requestCount ?? 0,
    errors: status.errorCount ?? 0,
    breaker: breaker?.state ?? 'CLOSED',
    forced: breaker?.forced ?? false,
    failures: breaker?.failureCount ?? 0,
    failureThreshold: breaker?.failureThreshold ?? 0,
    successThreshold: breaker?.successThreshold ?? 0,
    breakerTimeout: breaker?.timeout ?? 0,
    successes: breaker?.successCount ?? 0,
    stateSince: time(breaker?.stateSince),
    heldBy: breaker?.heldBy ?? '',
    heldReason: breaker?.heldReason ?? '',
    lastError: breaker?.lastError ?? null,
    lastFailure: time(breaker?.lastFailure),
    failingSince: time(breaker?.failingSince),
    nextRetry: time(breaker?.nextRetry),
  }
}
