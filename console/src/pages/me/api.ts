// What people without a role in the whole gateway may ask: their own keys, usage and calls.
import { toError } from '@/api/client'
import type { Sentence } from '@/api/types'

export interface OwnKey {
  id: string
  name?: string
  tenant: string
  status: 'ACTIVE' | 'SLEEPING' | 'EXPIRED' | 'REVOKED' | 'UNREADABLE'
  expiresAt: string
  createdAt?: string
  models: string[]
  key?: string
}

export interface Person {
  name: string
  tenants: { tenant: string; role?: string; models: { id: string; service: string }[] }[]
  mostKeys: number
  absence: string
  budgets: { currency: string; budgets: { of: string; window: string; unit: 'requests' | 'tokens' | 'cost'; limit: number; used: number }[] }
}

export interface OwnUsage {
  enabled: boolean
  currency: string
  total: { cost: number; requestCount: number; tokenCount: number }
  groups: { name: string; cost: number; requestCount: number; tokenCount: number }[]
}

export interface OwnCall {
  requestId: string
  time: string
  model?: string
  asked?: string
  keyId?: string
  httpStatus?: number
  errorCode?: string
  errorMessage?: string
  said?: Sentence[]
  refusedBy?: string
}

/** The data of a reply of the management API. */
export async function own<T>(path: string, method = 'GET', content?: object, signal?: AbortSignal): Promise<T> {
  const reply = await fetch(path, { method, signal, headers: { 'X-Patchbay-Said': 'true', 'X-Patchbay-Client': 'console' }, body: content === undefined ? undefined : JSON.stringify(content) })
  const body: unknown = await reply.json().catch(() => '')
  if (!reply.ok) throw toError(reply.status, body, reply.headers.get('x-request-id') ?? '')
  return (body as { data: T }).data
}
