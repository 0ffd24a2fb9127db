import { ApiError, toError, unauthorized } from '@/api/client'
import { toCall, type Call, type LiveChange, type LiveInstance, type LiveSnapshot, type LiveWindow } from '@/api/types'
import { splitId } from '@/lib/format'
import { readEvents } from '@/lib/sse'
import { firstTail, PollingSource, readCalls } from './polling'
import { toStat, type Stats } from './stats'
import type { InstanceState, Sink, Snapshot, Source } from './types'

/** A stream that says nothing for so long is a dead line. */
const silence = 3500
/** One that has said nothing yet gets longer: a busy machine may need it to begin. */
const beginning = 15_000
/** A timer that is so late was held up together with the events: the tab did not run. */
const late = 1000

/** Follows the gateway's one live connection; asks each second where there is none. */
export class StreamSource implements Source {
  private lastId = ''

  start(sink: Sink): () => void {
    const abort = new AbortController()
    let stopPolling: (() => void) | undefined
    let timer: ReturnType<typeof setTimeout> | undefined
    let failures = 0
    const run = async () => {
      try {
        await this.follow(sink, abort.signal, () => {
          failures = 0
          stopPolling?.()
          stopPolling = undefined
        })
        throw new Error('the live connection has ended')
      } catch (error) {
        if (abort.signal.aborted) return
        if (error instanceof ApiError && [403, 404, 429].includes(error.status)) {
          // Too many readers, or an older gateway: ask, and try again later.
          stopPolling ??= new PollingSource().start(sink)
          timer = setTimeout(() => void run(), 60_000)
          return
        }
        const retry = Math.min(5000, 1000 * 2 ** Math.max(0, Math.min(failures++, 4) - 1))
        sink.failed(error, retry)
        timer = setTimeout(() => void run(), retry)
      }
    }
    void run()
    return () => {
      abort.abort()
      clearTimeout(timer)
      stopPolling?.()
    }
  }

  private async follow(sink: Sink, outer: AbortSignal, arrived: () => void): Promise<void> {
    const dead = new AbortController()
    let watchdog: ReturnType<typeof setTimeout> | undefined
    const expect = (within: number) => {
      clearTimeout(watchdog)
      const due = Date.now() + within
      watchdog = setTimeout(() => (Date.now() - due > late ? expect(silence) : dead.abort()), within)
    }
    expect(beginning)
    const signal = AbortSignal.any([outer, dead.signal])
    try {
      const query = new URLSearchParams({ topics: 'snapshot,change,call', brief: 'true' })
      if (this.lastId !== '') query.set('lastEventId', this.lastId)
      const response = await fetch(`/api/monitoring/live?${query}`, { headers: { accept: 'text/event-stream' }, signal })
      if (response.status === 401) unauthorized.dispatchEvent(new Event('unauthorized'))
      if (!response.ok || response.body === null) {
        throw toError(response.status, await response.json().catch(() => ''), response.headers.get('x-request-id') ?? '')
      }
      const feed = new Feed(sink)
      // What was before the first event; calls that come twice are counted once.
      void readCalls(firstTail, signal).then((batch) => feed.remember(batch), () => undefined)
      for await (const event of readEvents(response.body)) {
        expect(silence)
        arrived()
        if (event.id !== '') this.lastId = event.id
        feed.take(event.event, JSON.parse(event.data))
      }
    } finally {
      clearTimeout(watchdog)
      dead.abort()
    }
  }
}

/** Turns the events of one connection into what the store takes. */
export class Feed {
  private calls: Call[] = []
  private capacity = 1000
  private latest: Snapshot | null = null

  constructor(private readonly sink: Sink) {}

  /** Takes the calls that the gateway remembered before the connection. */
  remember(batch: { calls: Call[]; capacity: number; samplingRate: number }): void {
    this.capacity = batch.capacity
    this.sink.calls(batch)
  }

  take(event: string, data: unknown): void {
    if (event === 'call') this.calls.unshift(toCall(data as Call))
    else if (event === 'change') this.change(data as LiveChange)
    else if (event === 'snapshot') this.snapshot(data as LiveSnapshot)
  }

  private snapshot(live: LiveSnapshot): void {
    this.latest = toSnapshot(live)
    this.sink.snapshot(this.latest)
    this.sink.calls({ calls: this.calls, capacity: this.capacity, samplingRate: live.samplingRate })
    this.calls = []
  }

  /** A breaker that opens is shown at once; the next snapshot has the rest. */
  private change(change: LiveChange): void {
    if (this.latest === null || change.kind !== 'breaker') return
    const { instanceId, service, to, forced = false } = change
    const at = Date.parse(change.time)
    // What was counted in the state before says nothing about the new one.
    const changed = (instance: InstanceState): InstanceState => ({
      ...instance, breaker: to as InstanceState['breaker'], forced, stateSince: at, successes: 0,
      failures: to === 'OPEN' && !forced ? Math.max(instance.failures, instance.failureThreshold) : instance.failures,
      nextRetry: to === 'OPEN' && !forced ? at + instance.breakerTimeout : null,
    })
    const instances = this.latest.instances.map((instance) => (instance.id === instanceId && instance.service === service ? changed(instance) : instance))
    this.latest = { ...this.latest, instances }
    this.sink.snapshot(this.latest)
  }
}

export function toSnapshot(live: LiveSnapshot): Snapshot {
  const { answered, failed, breakerOpen, limited } = live.total.requests
  return {
    time: Date.parse(live.time),
    version: live.configVersion,
    instances: live.instances.map(toInstance),
    queues: live.models
      .filter((model) => model.queueLength > 0)
      .map(({ service, model, queue, expectedWaitMs }) => ({ service, model, waiting: queue, expected: expectedWaitMs ?? { interactive: 0, normal: 0, batch: 0 } })),
    stats: toStats(live),
    totals: {
      startedAt: live.startedAt,
      answered, failed, breaker: breakerOpen, limited,
      tokensIn: live.total.tokensIn,
      tokensOut: live.total.tokensOut,
      window: live.total.lastSecond,
      services: new Map(live.services.map((one) => [one.service, one.lastSecond])),
    },
  }
}

const time = (value: string | null | undefined) => (value ? Date.parse(value) : null)

function toInstance(live: LiveInstance): InstanceState {
  const { breaker } = live
  return {
    id: live.id,
    service: live.service,
    model: live.model,
    url: live.url,
    host: splitId(live.id).host,
    adapter: live.adapter.toLowerCase(),
    health: live.health === 'HEALTHY' || live.health === 'UNHEALTHY' ? live.health : 'UNKNOWN',
    error: live.healthError ?? '',
    errorSaid: live.healthSaid ?? undefined,
    enabled: live.enabled,
    weight: live.weight,
    inFlight: live.inFlight,
    requests: live.requests.answered + live.requests.failed,
    errors: live.requests.failed,
    breaker: breaker.state,
    forced: breaker.forced ?? false,
    failures: breaker.failureCount ?? 0,
    failureThreshold: breaker.failureThreshold ?? 0,
    successThreshold: breaker.successThreshold ?? 0,
    breakerTimeout: breaker.timeout ?? 0,
    successes: breaker.successCount ?? 0,
    stateSince: time(breaker.stateSince),
    heldBy: breaker.heldBy ?? '',
    heldReason: breaker.heldReason ?? '',
    lastError: breaker.lastError ?? null,
    lastFailure: time(breaker.lastFailure),
    failingSince: time(breaker.failingSince),
    nextRetry: time(breaker.nextRetry),
  }
}

/** The readings of the last minute, as the gateway has counted them. */
function toStats(live: LiveSnapshot): Stats {
  // A gateway that has just started has not counted for a minute.
  const seconds = Math.min(60, Math.floor((Date.parse(live.time) - Date.parse(live.startedAt)) / 1000))
  const stat = (window: LiveWindow) => toStat(window, seconds)
  return {
    total: stat(live.total.lastMinute),
    models: new Map(live.models.map((model) => [`${model.service} ${model.model}`, stat(model.lastMinute)])),
    instances: new Map(live.instances.map((instance) => [`${instance.service} ${instance.id}`, stat(instance.lastMinute)])),
    services: new Map(live.services.map((service) => [service.service, stat(service.lastMinute)])),
  }
}
