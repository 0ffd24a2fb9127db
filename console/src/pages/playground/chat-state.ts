import { useCallback, useEffect, useRef, useState } from 'react'
import { markStep } from '@/shell/steps'
import { chatDeltas, send, type ChatUsage } from './call'

export interface Answer {
  model: string
  text: string
  state: 'waiting' | 'streaming' | 'done' | 'stopped' | 'failed'
  error: unknown
  requestId: string
  handle: string
  /** The model that answered, where it is not the one that was asked for. */
  served?: string | undefined
  attempts: number
  overheadMs: number | null
  began: number
  firstTokenMs: number | null
  endMs: number | null
  usage: ChatUsage | null
  /** How many events the stream had. */
  events: number
  /** The moments of the stream's events, for the tape below the answer. */
  ticks: number[]
}

export interface Turn {
  id: number
  content: string
  image: string | null
  answers: Answer[]
}

export interface ChatParameters {
  models: string[]
  system: string
  temperature: number
  topP: number
  maxTokens: number
  stream: boolean
}

export interface Exchange {
  request: object
  response: string
}

type Content = string | ({ type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } })[]

/** The request for the next answer: what was said so far to this model. */
export function chatRequest(turns: readonly Turn[], lane: number, parameters: ChatParameters): object {
  const messages: { role: string; content: Content }[] = []
  if (parameters.system.trim() !== '') messages.push({ role: 'system', content: parameters.system })
  for (const turn of turns) {
    messages.push({
      role: 'user',
      content: turn.image === null ? turn.content : [{ type: 'text', text: turn.content }, { type: 'image_url', image_url: { url: turn.image } }],
    })
    const answer = turn.answers[lane]
    if (answer !== undefined && answer.text !== '' && turn !== turns[turns.length - 1]) messages.push({ role: 'assistant', content: answer.text })
  }
  return {
    model: parameters.models[lane] ?? '',
    messages,
    temperature: parameters.temperature,
    top_p: parameters.topP,
    max_tokens: parameters.maxTokens,
    ...(parameters.stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  }
}

/**
 * How many tokens came in a second, once the first was there. Where nobody told how many
 * there were, as of an answer that was stopped, it is by the events, which most engines send
 * one for each token.
 */
export function speedOf(answer: Answer, elapsedMs: number, recorded?: number): { perSecond: number; isTold: boolean } | null {
  const first = answer.firstTokenMs
  if (first === null) return null
  const told = answer.usage?.completion_tokens ?? recorded ?? 0
  const [count, until] = told > 1 ? [told, elapsedMs] : [answer.events, answer.ticks.at(-1) ?? elapsedMs]
  return count > 1 && until > first ? { perSecond: ((count - 1) / (until - first)) * 1000, isTold: told > 1 } : null
}

const place = 'patchbay.chat'
const keptTurns = 40
const keptCharacters = 200_000

/** What a browser keeps of a conversation: what was asked and answered, without pictures and failures, and when the last event of each came. */
export function keep(turns: readonly Turn[]): string {
  const ended = (answer: Answer) => answer.state === 'done' || answer.state === 'stopped'
  let list = turns.filter((turn) => turn.answers.every(ended)).slice(-keptTurns).map((turn) => ({ ...turn, image: null, answers: turn.answers.map((answer) => ({ ...answer, error: null, ticks: answer.ticks.slice(-1) })) }))
  while (list.length > 0 && JSON.stringify(list).length > keptCharacters) list = list.slice(1)
  return list.length === 0 ? '' : JSON.stringify(list)
}

/** The conversation that keep has written; none where it cannot be read. */
export function restore(text: string | null): Turn[] {
  try {
    const list = JSON.parse(text ?? '[]') as Turn[]
    const good = (turn: Turn) => typeof turn.content === 'string' && Array.isArray(turn.answers) && turn.answers.every((answer) => typeof answer.text === 'string' && typeof answer.model === 'string')
    return Array.isArray(list) && list.every(good) ? list.map((turn, index) => ({ ...turn, id: index + 1 })) : []
  } catch {
    return []
  }
}

function stored(): Turn[] {
  try {
    return restore(localStorage.getItem(place))
  } catch {
    return []
  }
}

function store(turns: readonly Turn[]): void {
  try {
    const text = keep(turns)
    if (text === '') localStorage.removeItem(place)
    else localStorage.setItem(place, text)
  } catch {
    // A browser that keeps nothing shows the conversation until the reload.
  }
}

const fresh = (model: string): Answer => ({
  model, text: '', state: 'waiting', error: null, requestId: '', handle: '', attempts: 0, overheadMs: null, began: performance.now(), firstTokenMs: null, endMs: null, usage: null, events: 0, ticks: [],
})

/** A conversation with one model, or with two side by side; one that begins with given turns is not kept. */
export function useChat(begun: Turn[] | null) {
  const [turns, setTurns] = useState<Turn[]>(() => begun ?? stored())
  const [raw, setRaw] = useState<Exchange[]>([])
  const abort = useRef<AbortController | null>(null)
  const next = useRef(turns.length + 1)
  useEffect(() => () => abort.current?.abort(), [])
  const busy = turns.at(-1)?.answers.some((answer) => answer.state === 'waiting' || answer.state === 'streaming') ?? false

  useEffect(() => {
    if (busy) return
    if (begun === null) store(turns)
    if (turns.at(-1)?.answers.some((answer) => answer.state === 'done')) markStep('chat')
  }, [turns, busy, begun])

  const stop = useCallback(() => abort.current?.abort(), [])
  const clear = useCallback(() => {
    abort.current?.abort()
    setTurns([])
    setRaw([])
  }, [])
  /** Takes back a turn and all after it, to write it anew. */
  const rewind = useCallback((id: number) => setTurns((all) => all.filter((turn) => turn.id < id)), [])

  const ask = useCallback(
    (content: string, image: string | null, parameters: ChatParameters) => {
      abort.current?.abort()
      const controller = new AbortController()
      abort.current = controller
      const turn: Turn = { id: next.current++, content, image, answers: parameters.models.map(fresh) }
      const history = [...turns, turn]
      setTurns(history)
      setRaw([])
      parameters.models.forEach((_, lane) => {
        const request = chatRequest(history, lane, parameters)
        const answer = { ...turn.answers[lane]! }
        let frame = 0
        // Many events may come in one frame; the page is drawn once for each.
        const show = () => {
          if (frame === 0) {
            frame = requestAnimationFrame(() => {
              frame = 0
              const shown = { ...answer, ticks: answer.ticks.slice(-240) }
              setTurns((all) => all.map((old) => (old.id === turn.id ? { ...old, answers: old.answers.map((other, i) => (i === lane ? shown : other)) } : old)))
            })
          }
        }
        void run(request, parameters.stream, controller.signal, answer, show).then((response) => {
          show()
          setRaw((all) => {
            const copy = [...all]
            copy[lane] = { request, response }
            return copy
          })
        })
      })
    },
    [turns],
  )
  return { turns, raw, busy, ask, stop, clear, rewind }
}

/** Runs one call and writes what arrives into the answer. */
async function run(json: object, stream: boolean, signal: AbortSignal, answer: Answer, show: () => void): Promise<string> {
  const since = () => performance.now() - answer.began
  try {
    const reply = await send({ path: '/v1/chat/completions', json }, signal)
    Object.assign(answer, { requestId: reply.requestId, handle: reply.handle, served: reply.served, attempts: reply.attempts, overheadMs: reply.overheadMs })
    if (!stream || reply.response.body === null) {
      const text = await reply.response.text()
      const body = JSON.parse(text) as { choices?: { message?: { content?: string } }[]; usage?: ChatUsage }
      Object.assign(answer, { text: body.choices?.[0]?.message?.content ?? '', usage: body.usage ?? null, state: 'done', endMs: since() })
      return text
    }
    answer.state = 'streaming'
    for await (const delta of chatDeltas(reply.response.body, reply.requestId, reply.status)) {
      if (delta.kind === 'text') {
        answer.firstTokenMs ??= since()
        answer.text += delta.text
        answer.events++
        answer.ticks.push(since())
      } else if (delta.kind === 'usage') answer.usage = delta.usage
      else if (delta.kind === 'error') Object.assign(answer, { state: 'failed', error: delta.error })
      show()
    }
    answer.endMs = since()
    if (answer.state === 'streaming') answer.state = 'done'
    return answer.text
  } catch (error) {
    answer.endMs = since()
    if (signal.aborted) answer.state = 'stopped'
    else Object.assign(answer, { state: 'failed', error, requestId: answer.requestId === '' ? ((error as { requestId?: string }).requestId ?? '') : answer.requestId })
    return String((error as Error).message)
  }
}
