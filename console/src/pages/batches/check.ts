// What the first lines of a file of requests tell, before it is sent.

/** The endpoints that lines of a batch may have. */
export const endpoints = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses'] as const
export type Endpoint = (typeof endpoints)[number]

/** How much of a file is looked at. */
export const lookedAt = 256 << 10

export type Fault = 'json' | 'id' | 'twice' | 'method' | 'endpoint' | 'other' | 'model'

export interface Checked {
  /** That of the first line, which all lines must have. */
  endpoint: Endpoint | null
  models: string[]
  /** How many lines were looked at. */
  lines: number
  faults: { line: number; fault: Fault }[]
}

const mostFaults = 5

/** Checks lines; the last one of a text that was cut is left out. */
export function checkLines(text: string, isCut: boolean): Checked {
  const all = text.replace(/^\uFEFF/, '').split('\n')
  if (isCut) all.pop()
  const checked: Checked = { endpoint: null, models: [], lines: 0, faults: [] }
  const ids = new Set<string>()
  for (const [index, line] of all.entries()) {
    if (line.trim() === '') continue
    checked.lines++
    const fault = checkLine(line, checked, ids)
    if (fault !== null && checked.faults.length < mostFaults) checked.faults.push({ line: index + 1, fault })
  }
  return checked
}

function checkLine(line: string, checked: Checked, ids: Set<string>): Fault | null {
  let read: { custom_id?: unknown; method?: unknown; url?: unknown; body?: { model?: unknown } } | null
  try {
    read = JSON.parse(line) as typeof read
  } catch {
    return 'json'
  }
  const { custom_id: id, method, url, body } = read ?? {}
  if (typeof id !== 'string' || id === '') return 'id'
  if (ids.has(id)) return 'twice'
  ids.add(id)
  if (method !== 'POST') return 'method'
  const endpoint = endpoints.find((one) => one === url)
  if (endpoint === undefined) return 'endpoint'
  checked.endpoint ??= endpoint
  if (endpoint !== checked.endpoint) return 'other'
  if (typeof body?.model !== 'string' || body.model === '') return 'model'
  if (!checked.models.includes(body.model)) checked.models.push(body.model)
  return null
}
