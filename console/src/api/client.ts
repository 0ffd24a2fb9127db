// The one client of the gateway's API. Its types come from the gateway's own
// OpenAPI document (scripts/generate-api.mjs), so the two cannot drift apart.
import createClient from 'openapi-fetch'
import type { paths } from './schema'
import type { Sentence } from './types'

const asConsole = { 'X-Patchbay-Said': 'true', 'X-Patchbay-Client': 'console' }

export const api = createClient<paths>({ baseUrl: '', headers: asConsole })

/** Tells that a session has ended: a reply said that nobody is logged in. */
export const unauthorized = new EventTarget()
api.use({
  onResponse: ({ response, schemaPath }) => {
    if (response.status === 401 && schemaPath !== '/api/auth/me') unauthorized.dispatchEvent(new Event('unauthorized'))
  },
})

/** What the gateway answered instead of what was asked for. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  constructor(
    readonly status: number,
    message: string,
    readonly requestId: string,
    readonly code: string,
    readonly body: unknown,
    /** The message as codes and values; the errors of the unified API have none. */
    readonly said?: Sentence[],
  ) {
    super(message)
  }
}

/**
 * The gateway has three shapes of error: the envelope of the management API,
 * the object of the unified API and the plain one of monitoring. The pages see
 * one.
 */
export function toError(status: number, body: unknown, requestId: string): ApiError {
  let message = ''
  let code = ''
  if (typeof body === 'string') message = body
  if (typeof body === 'object' && body !== null) {
    const object = body as Record<string, unknown>
    const inner = object.error
    if (typeof inner === 'object' && inner !== null) {
      message = String((inner as Record<string, unknown>).message ?? '')
      code = String((inner as Record<string, unknown>).code ?? '')
    } else {
      message = String(object.message ?? inner ?? '')
      code = String(object.errorCode ?? '')
    }
  }
  const { said } = (typeof body === 'object' && body !== null ? body : {}) as { said?: Sentence[] }
  return new ApiError(status, message === '' ? `HTTP ${status}` : message, requestId, code, body, said)
}

interface Reply<T> {
  data?: T
  error?: unknown
  response: Response
}

/** The body of a good reply; every other reply is thrown as an ApiError. */
export async function body<T>(pending: Promise<Reply<T>>): Promise<T> {
  const reply = await pending
  if (!reply.response.ok) {
    throw toError(reply.response.status, reply.error, reply.response.headers.get('x-request-id') ?? '')
  }
  return reply.data as T
}

/** The data of a good reply in the management API's envelope. */
export async function data<T>(pending: Promise<Reply<{ data?: T }>>): Promise<T> {
  return (await body(pending)).data as T
}

/** The data together with the version of the configuration that it shows. */
export async function versioned<T>(pending: Promise<Reply<{ data?: T }>>): Promise<{ data: T; version: number }> {
  const reply = await pending
  const value = await data(Promise.resolve(reply))
  const version = Number((reply.response.headers.get('etag') ?? '').replaceAll('"', ''))
  return { data: value, version: Number.isFinite(version) ? version : 0 }
}

/** The data of the reply of an operation below a path that is put together, such as that of one team. */
export async function ask<T>(path: string, method = 'GET', content?: object, signal?: AbortSignal): Promise<T> {
  const reply = await fetch(path, { method, signal, headers: { ...asConsole, ...(content === undefined ? {} : { 'Content-Type': 'application/json' }) }, body: content === undefined ? undefined : JSON.stringify(content) })
  const answer: unknown = await reply.json().catch(() => '')
  if (reply.status === 401) unauthorized.dispatchEvent(new Event('unauthorized'))
  if (!reply.ok) throw toError(reply.status, answer, reply.headers.get('x-request-id') ?? '')
  return (answer as { data: T }).data
}

/** What was said about each field of a request, by the names that its form has for them. */
export function fieldErrors(error: unknown, say: (said: Sentence[], text: string | undefined) => string): Record<string, string> {
  const fields: Record<string, string> = {}
  if (!(error instanceof ApiError) || error.status !== 400) return fields
  const alone = error.said?.length === 1 ? error.message : undefined
  for (const { field, ...sentence } of error.said ?? []) {
    if (field === undefined) continue
    const text = say([sentence], sentence.text ?? alone?.slice(field.length + 2))
    for (const whole of field.includes('"') ? [field] : field.split(', ')) {
      const name = whole.replace(/^(instance|services\.[\w-]+)\./, '')
      fields[name] = fields[name] === undefined ? text : `${fields[name]}; ${text}`
    }
  }
  return fields
}

/** What was said about a field and about the parts of it, such as budgets.day of budgets. */
export function errorsAt(errors: Record<string, string>, field: string): string | undefined {
  const found = Object.entries(errors).filter(([name]) => name === field || name.startsWith(`${field}.`) || name.startsWith(`${field}[`))
  return found.length === 0 ? undefined : found.map(([name, text]) => (name === field ? text : `${name.slice(field.length).replace(/^\./, '')} ${text}`)).join('; ')
}
