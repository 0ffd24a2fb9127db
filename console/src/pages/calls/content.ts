// What is kept of a call beside its record, made readable.
import { EventParser } from '@/lib/sse'

export interface Body {
  contentType?: string
  bytes: number
  text?: string
  cut?: boolean
}

export interface CallContent {
  requestId: string
  kept: 'none' | 'headers' | 'content'
  headers?: { name: string; value: string; masked?: boolean }[]
  request?: Body
  answer?: Body
}

interface Chunk {
  choices?: { delta?: { content?: string | null; reasoning_content?: string | null }; text?: string }[]
  delta?: { text?: string } | string
}

/** What the events of a streamed answer say together; null where they are none that are known. */
export function spoken(body: Body): string | null {
  if (!(body.contentType ?? '').startsWith('text/event-stream')) return null
  let said = ''
  for (const event of new EventParser().push(new TextEncoder().encode(body.text ?? ''))) {
    try {
      const chunk = JSON.parse(event.data) as Chunk
      const choice = chunk.choices?.[0]
      said += choice?.delta?.content ?? choice?.delta?.reasoning_content ?? choice?.text ?? (typeof chunk.delta === 'string' ? chunk.delta : (chunk.delta?.text ?? ''))
    } catch {
      // [DONE], or an event that was cut off.
    }
  }
  return said === '' ? null : said
}

/** The text with line breaks where it is JSON. */
export function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

/** The request, to send it again; null where not all of it is known. */
export function replayable(content: CallContent | undefined): Record<string, unknown> | null {
  const body = content?.request
  if (body?.text === undefined || body.cut === true) return null
  try {
    const request: unknown = JSON.parse(body.text)
    return typeof request === 'object' && request !== null && !Array.isArray(request) ? (request as Record<string, unknown>) : null
  } catch {
    return null
  }
}
