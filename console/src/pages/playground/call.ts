import { toError } from '@/api/client'
import { readEvents } from '@/lib/sse'

export interface Sent {
  path: string
  json?: object
  form?: FormData
}

/** What is known of a call while it runs and when it has ended. */
export interface Outcome {
  status: number
  requestId: string
  /** X-Router-Instance. */
  handle: string
  /** The model that answered, where it is not the one that was asked for. */
  served?: string | undefined
  attempts: number
  /** The gateway's own time before the answer began, in milliseconds; null where it does not tell. */
  overheadMs: number | null
  durationMs: number
}

export interface Reply extends Outcome {
  response: Response
}

// The key is in the memory of the tab only: never in storage, URL or logs.
let key = ''
export const gatewayKey = () => key
export function setGatewayKey(next: string): void {
  key = next.trim()
}

/** Sends a request to the unified API; a refusal is thrown as an ApiError. */
export async function send({ path, json, form }: Sent, signal: AbortSignal): Promise<Reply> {
  const began = performance.now()
  const headers: Record<string, string> = { 'x-router-timing': '1' }
  if (json !== undefined) headers['content-type'] = 'application/json'
  if (key !== '') headers.authorization = `Bearer ${key}`
  const response = await fetch(path, { method: 'POST', headers, body: form ?? JSON.stringify(json), signal })
  const requestId = response.headers.get('x-request-id') ?? ''
  if (!response.ok) {
    const text = await response.text()
    let body: unknown = text
    try {
      body = JSON.parse(text)
    } catch {
      // An error of a proxy in between need not be JSON.
    }
    throw toError(response.status, body, requestId)
  }
  return {
    response, requestId, status: response.status,
    handle: response.headers.get('x-router-instance') ?? '',
    served: response.headers.get('x-router-model') ?? undefined,
    attempts: Number(response.headers.get('x-router-attempts') ?? '1'),
    overheadMs: toNumber(response.headers.get('x-router-overhead-ms')),
    durationMs: performance.now() - began,
  }
}

const toNumber = (text: string | null) => (text === null || text === '' ? null : Number(text))

export interface ChatUsage {
  prompt_tokens: number
  completion_tokens: number
}

/** A part of an answer that is streamed. */
export type Delta =
  | { kind: 'text'; text: string }
  | { kind: 'usage'; usage: ChatUsage }
  | { kind: 'finish'; reason: string }
  | { kind: 'error'; error: unknown }

/** The parts of a streamed chat answer, as they arrive. */
export async function* chatDeltas(body: ReadableStream<Uint8Array>, requestId: string, status: number): AsyncGenerator<Delta> {
  for await (const event of readEvents(body)) {
    if (event.data === '[DONE]') return
    let chunk: {
      error?: unknown
      usage?: ChatUsage | null
      choices?: { delta?: { content?: string | null; reasoning_content?: string | null; reasoning?: string | null }; finish_reason?: string | null }[]
    }
    try {
      chunk = JSON.parse(event.data) as typeof chunk
    } catch {
      yield { kind: 'error', error: new Error(event.data) }
      return
    }
    if (chunk.error !== undefined) {
      yield { kind: 'error', error: toError(status, { error: chunk.error }, requestId) }
      return
    }
    const choice = chunk.choices?.[0]
    const said = [choice?.delta?.content, choice?.delta?.reasoning_content, choice?.delta?.reasoning]
    const text = said.find((part) => part !== undefined && part !== null && part !== '')
    if (text !== undefined && text !== null) yield { kind: 'text', text }
    if (choice?.finish_reason) yield { kind: 'finish', reason: choice.finish_reason }
    if (chunk.usage) yield { kind: 'usage', usage: chunk.usage }
  }
}
