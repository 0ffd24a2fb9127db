// Names for the parts of the generated types that the pages use, and exact
// shapes where the document says less than the gateway answers.
import type { components } from './schema'

export type ServiceType = components['schemas']['ServiceType']
export type Difference = components['schemas']['Difference']
export type Change = components['schemas']['Change']
export type Instance = components['schemas']['Instance']
export type Service = components['schemas']['Service']
export type Key = components['schemas']['Key'] & { createdAt?: string; createdBy?: string }

export const serviceTypes: ServiceType[] = ['chat', 'embedding', 'rerank', 'tts', 'stt', 'imgGen', 'imgEdit']

export type BreakerState = 'CLOSED' | 'OPEN' | 'HALF_OPEN'

export interface Try {
  instance: string
  pickMs?: number
  connectMs?: number
  reusedConnection?: boolean
  firstByteMs?: number
  endMs?: number
  errorCode?: string
}

/** One call as /api/monitoring/calls remembers it: names and numbers only. */
export interface Call {
  requestId: string
  time: string
  service: ServiceType
  model: string
  instance: string
  status: string
  httpStatus: number
  errorCode?: string
  streamed: boolean
  durationMs: number
  timeToFirstTokenMs?: number
  usage?: { promptTokens: number; completionTokens: number; totalTokens: number }
  attempts: number
  timeline?: {
    receivedMs?: number
    limiterMs?: number
    firstByteMs?: number
    endMs?: number
    queuedMs?: number
    upstreamMs?: number
    gatewayMs?: number
  }
  tries?: Try[]
  traceId?: string
}

export interface Version {
  version: number
  current: boolean
  createdAt: string
  origin: string
  author: string
  summary: string
}

export interface Usage {
  dimensions: { tenantId: string; apiKeyId: string; userId: string; serviceType: string; model: string }
  window: 'MINUTE' | 'HOUR' | 'DAY' | 'MONTH'
  windowStart: string
  requestCount: number
  tokenCount: number
}

export interface QuotaConfig {
  enabled: boolean
  failOpen: boolean
  windows: string[]
  flushIntervalSeconds: number
  retention: Record<string, string>
  distributed: { enabled: boolean; keyPrefix: string; timeoutMs: number; degradeToLocal: boolean }
  backendName: string
  hotEditableFields: string[]
  restartRequiredFields: string[]
}

export interface Explain {
  strategy: string
  candidates: {
    instanceId: string
    handle: string
    eligible: boolean
    weight: number
    chance: number
    why?: string
    reason?: string
  }[]
  pick: string | null
  why: string
}
