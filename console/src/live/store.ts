import type { Call } from '@/api/types'
import { Seconds } from './history'
import { endOf } from './series'
import type { CallBatch, Sink, Snapshot, Source } from './types'

export const maxCalls = 10_000

export type Connection =
  | { kind: 'connecting' }
  | { kind: 'live' }
  | { kind: 'reconnecting'; since: number; retryAt: number }
  | { kind: 'stale'; since: number; retryAt: number }
  | { kind: 'paused' }

/** Data older than this is shown as stale. */
const staleAfter = 2500

export interface LiveState {
  connection: Connection
  snapshot: Snapshot | null
  /** Newest first, at most maxCalls. */
  calls: readonly Call[]
  capacity: number
  samplingRate: number
  /** Counts the batches that brought something; memos depend on it. */
  revision: number
  error: unknown
}

/**
 * What the console knows about the running gateway. It is fed by one source
 * for the whole tab, and pauses while nobody looks at the tab.
 */
export class LiveStore implements Sink {
  private state: LiveState = {
    connection: { kind: 'connecting' }, snapshot: null, calls: [], capacity: 1000, samplingRate: 1, revision: 0, error: null,
  }
  private listeners = new Set<() => void>()
  private seen = new Set<string>()
  /** The time from which calls are known. */
  private knownFrom = Number.POSITIVE_INFINITY
  private lastData = 0
  /** The seconds that were watched. */
  readonly seconds = new Seconds()
  private stop: (() => void) | null = null

  constructor(
    private readonly source: Source,
    private readonly now: () => number = Date.now,
  ) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  get = (): LiveState => this.state

  start(): void {
    if (this.stop === null) this.stop = this.source.start(this)
  }

  /** Stops asking, for instance in a hidden tab; start() goes on. */
  pause(): void {
    this.stop?.()
    this.stop = null
    this.update({ connection: { kind: 'paused' } })
  }

  snapshot(snapshot: Snapshot): void {
    this.seconds.add(snapshot)
    this.update({ snapshot, connection: { kind: 'live' }, error: null })
  }

  calls(batch: CallBatch): void {
    const now = this.now()
    const fresh = batch.calls.filter((call) => !this.seen.has(call.requestId))
    // The calls that were before the connection may come after its first event.
    this.knownFrom = Math.min(this.knownFrom, oldest(batch.calls, now))
    this.lastData = now
    for (const call of fresh) this.seen.add(call.requestId)
    let calls = this.state.calls
    if (fresh.length > 0) {
      calls = [...fresh, ...calls].slice(0, maxCalls)
      if (this.seen.size > maxCalls * 2) this.seen = new Set(calls.map((call) => call.requestId))
    }
    this.update({
      calls, capacity: batch.capacity, samplingRate: batch.samplingRate,
      revision: fresh.length > 0 ? this.state.revision + 1 : this.state.revision,
    })
  }

  failed(error: unknown, retryMs: number): void {
    const now = this.now()
    const since = this.lastData === 0 ? now : this.lastData
    const kind = now - since >= staleAfter ? 'stale' : 'reconnecting'
    this.update({ connection: { kind, since, retryAt: now + retryMs }, error })
  }

  /** Says how old the data are, also between two attempts to get new ones. */
  age(): void {
    const { connection } = this.state
    if (connection.kind === 'reconnecting' && this.now() - connection.since >= staleAfter) this.update({ connection: { ...connection, kind: 'stale' } })
  }

  /** The seconds before now of which calls are known, at most the given ones. */
  watched(seconds: number, now = this.now()): number {
    const held = this.state.calls.length >= maxCalls ? oldest(this.state.calls, now) : this.knownFrom
    return Math.max(1, Math.min(seconds, (now - Math.max(held, this.knownFrom)) / 1000))
  }

  private update(change: Partial<LiveState>): void {
    this.state = { ...this.state, ...change }
    for (const listener of this.listeners) listener()
  }
}

function oldest(calls: readonly Call[], fallback: number): number {
  const last = calls[calls.length - 1]
  return last === undefined ? fallback : endOf(last)
}
