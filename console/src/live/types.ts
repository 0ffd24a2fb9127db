import type { BreakerState, Call, LiveWindow, Priority, Sentence, ServiceType } from '@/api/types'
import type { Stats } from './stats'

export interface InstanceState {
  id: string
  service: ServiceType
  model: string
  url: string
  host: string
  adapter: string
  /** UNKNOWN until the first check has ended. */
  health: 'HEALTHY' | 'UNHEALTHY' | 'UNKNOWN'
  error: string
  errorSaid?: Sentence[]
  enabled: boolean
  weight: number
  inFlight: number
  /** What was learned, where the requests at a time are. */
  slots?: { now: number; perTokenMs: number; why: string; said?: Sentence[] }
  requests: number
  errors: number
  breaker: BreakerState
  forced: boolean
  failures: number
  failureThreshold: number
  successThreshold: number
  breakerTimeout: number
  /** Trials that succeeded since the breaker is half open. */
  successes: number
  stateSince: number | null
  heldBy: string
  heldReason: string
  lastError: { code: string; text: string; said?: Sentence[] } | null
  lastFailure: number | null
  /** Since when calls or checks of it fail, without a success in between; null where they do not. */
  failingSince: number | null
  nextRetry: number | null
}

/** The state of the gateway at one moment. */
export interface Snapshot {
  time: number
  /** The version of the configuration that is in force. */
  version: number
  instances: InstanceState[]
  /** The models for which requests wait, where the gateway tells. */
  queues?: ModelQueue[]
  /** The readings of the last minute, where the gateway has counted them. */
  stats?: Stats
  /** What was counted since the start of the process, and the last second. */
  totals?: Totals
}

/** The requests that wait for a model, by their priority. */
export interface ModelQueue {
  service: ServiceType
  model: string
  waiting: Record<Priority, number>
  /** How long a new request would wait, in milliseconds; 0 where that is not known. */
  expected: Record<Priority, number>
}

export interface Totals {
  startedAt: string
  answered: number
  failed: number
  breaker: number
  limited: number
  tokensIn: number
  tokensOut: number
  window: LiveWindow
  /** The last second of each service. */
  services?: Map<ServiceType, LiveWindow>
}

export interface CallBatch {
  /** Newest first. */
  calls: Call[]
  /** How many calls the gateway remembers. */
  capacity: number
  samplingRate: number
}

export interface Sink {
  snapshot(snapshot: Snapshot): void
  calls(batch: CallBatch): void
  /** Nothing arrived; the source tries again in so many milliseconds. */
  failed(error: unknown, retryMs: number): void
}

/**
 * Where live data comes from. The store does not know whether it is asked for
 * each second or pushed by an event stream.
 */
export interface Source {
  /** Starts delivering to the sink; the returned function stops it. */
  start(sink: Sink): () => void
}
