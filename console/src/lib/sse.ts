// A reader of server-sent events over fetch. EventSource cannot send a body or
// a key, and says nothing about the status of a refused stream.

export interface ServerEvent {
  event: string
  data: string
  id: string
}

/**
 * Splits a stream of bytes into events, however the network has cut them: in
 * the middle of a field, of a character or of a line end. What is left of an
 * event that was not ended by an empty line is not an event.
 */
export class EventParser {
  private decoder = new TextDecoder()
  private rest = ''
  private skipLineFeed = false
  private event = ''
  private data: string[] = []
  private id = ''

  push(chunk: Uint8Array): ServerEvent[] {
    return this.take(this.decoder.decode(chunk, { stream: true }))
  }

  private take(text: string): ServerEvent[] {
    const events: ServerEvent[] = []
    const buffer = this.rest + text
    let start = 0
    // What is left over from the last chunk holds no line end.
    for (let i = this.rest.length; i < buffer.length; i++) {
      const char = buffer.charCodeAt(i)
      if (char === 10 && this.skipLineFeed && i === start) {
        // The second half of a CR LF, which may have come in the next chunk.
        this.skipLineFeed = false
        start = i + 1
        continue
      }
      this.skipLineFeed = false
      if (char !== 10 && char !== 13) continue
      this.line(buffer.slice(start, i), events)
      start = i + 1
      this.skipLineFeed = char === 13
    }
    this.rest = buffer.slice(start)
    return events
  }

  private line(line: string, events: ServerEvent[]): void {
    if (line === '') {
      if (this.data.length > 0) {
        events.push({ event: this.event === '' ? 'message' : this.event, data: this.data.join('\n'), id: this.id })
      }
      this.event = ''
      this.data = []
      return
    }
    if (line.startsWith(':')) return
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    let value = colon < 0 ? '' : line.slice(colon + 1)
    if (value.startsWith(' ')) value = value.slice(1)
    if (field === 'data') this.data.push(value)
    else if (field === 'event') this.event = value
    else if (field === 'id' && !value.includes('\0')) this.id = value
  }
}

/** The events of a response's body, until it ends or the signal aborts it. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body.getReader()
  const parser = new EventParser()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield* parser.push(value)
    }
  } finally {
    // Leaving the loop early must end the request, or the backend goes on.
    reader.cancel().catch(() => undefined)
  }
}
