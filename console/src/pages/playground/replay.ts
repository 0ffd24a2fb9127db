// A request that is to be sent again, on its way from the page of calls. It is
// handed over in memory only: what callers wrote belongs neither into an address
// nor into the storage of the browser.
import { useEffect, useState } from 'react'
import type { ServiceType } from '@/api/types'
import type { Answer, ChatParameters, Turn } from './chat-state'

export interface Replay {
  requestId: string
  service: ServiceType
  request: Record<string, unknown>
}

let waiting: Replay | null = null

export function replayInPlayground(replay: Replay): void {
  waiting = replay
}

/** The request that the page of calls handed over for this tab, if it did. */
export function useReplay(service: ServiceType): Replay | null {
  const [replay] = useState(() => (waiting?.service === service ? waiting : null))
  useEffect(() => {
    waiting = null
  }, [])
  return replay
}

/** A member of the request, where it has the type that is wanted. */
export function given(replay: Replay | null, member: string, otherwise: string): string
export function given(replay: Replay | null, member: string, otherwise: number): number
export function given(replay: Replay | null, member: string, otherwise: unknown): unknown {
  const value = replay?.request[member]
  return typeof value === typeof otherwise ? value : otherwise
}

/** The texts of a member that has one or several. */
export function givenTexts(replay: Replay | null, member: string): string | null {
  const value = replay?.request[member]
  if (typeof value === 'string') return value
  if (!Array.isArray(value)) return null
  const texts = value.map((item: unknown) => (typeof item === 'string' ? item : (item as { text?: unknown } | null)?.text))
  return texts.every((item) => typeof item === 'string') ? texts.map((item) => item.replaceAll('\n', ' ')).join('\n') : null
}

interface Message {
  role?: unknown
  content?: unknown
}

/** The text of a message and its picture. */
function partsOf(content: unknown): { text: string; image: string | null } {
  if (!Array.isArray(content)) return { text: typeof content === 'string' ? content : '', image: null }
  const parts = content as { type?: string; text?: string; image_url?: { url?: string } }[]
  return {
    text: parts.map((part) => part.text ?? '').join('\n').trim(),
    image: parts.find((part) => part.image_url?.url?.startsWith('data:'))?.image_url?.url ?? null,
  }
}

export interface ReplayedChat {
  turns: Turn[]
  draft: string
  image: string | null
  form: Omit<ChatParameters, 'models'>
}

const answered = (model: string, text: string): Answer => ({
  model, text, state: 'done', error: null, requestId: '', handle: '', attempts: 0, overheadMs: null, began: 0, firstTokenMs: null, endMs: null, usage: null, events: 0, ticks: [],
})

/** A chat request as the page has it: earlier turns, and the last message to be sent again. */
export function replayedChat(replay: Replay, defaults: Omit<ChatParameters, 'models'>): ReplayedChat {
  const messages = Array.isArray(replay.request.messages) ? (replay.request.messages as Message[]) : []
  const system: string[] = []
  const turns: Turn[] = []
  const model = given(replay, 'model', '')
  for (const { role, content } of messages) {
    const { text, image } = partsOf(content)
    const last = turns.at(-1)
    if (role === 'system' || role === 'developer') system.push(text)
    else if (role === 'assistant' && last !== undefined) last.answers = [answered(model, (last.answers[0]?.text ?? '') + text)]
    else if (role === 'user') turns.push({ id: turns.length + 1, content: text, image, answers: [] })
  }
  const unanswered = turns.at(-1)?.answers.length === 0 ? turns.pop() : undefined
  const limit = given(replay, 'max_completion_tokens', given(replay, 'max_tokens', defaults.maxTokens))
  return {
    turns, draft: unanswered?.content ?? '', image: unanswered?.image ?? null,
    form: {
      system: system.join('\n\n'), temperature: given(replay, 'temperature', defaults.temperature), topP: given(replay, 'top_p', defaults.topP), maxTokens: limit,
      stream: replay.request.stream === true,
    },
  }
}

/** The name under which what is typed is kept; what is played again does not meet what was typed before. */
export const keptAs = (name: string, replay: Replay | null): string => (replay === null ? `playground ${name}` : `playground ${name} ${replay.requestId}`)
