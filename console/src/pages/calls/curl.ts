// A recorded request as a line for a shell. What the caller sent may be anything, so every
// value is quoted, and what a terminal would obey instead of showing is never in the line.
import type { Call } from '@/api/types'
import type { paths } from '@/api/schema'
import { shell } from '@/lib/snippets'
import type { Body, CallContent } from './content'

type Door = Call['door']

// The path of each door; the compiler wants all of them, and that the API has them.
const doorPaths: Record<Door, keyof paths> = {
  chat: '/v1/chat/completions',
  embeddings: '/v1/embeddings',
  rerank: '/v1/rerank',
  speech: '/v1/audio/speech',
  transcriptions: '/v1/audio/transcriptions',
  images: '/v1/images/generations',
  image_edits: '/v1/images/edits',
  messages: '/v1/messages',
  responses: '/v1/responses',
  completions: '/v1/completions',
  moderations: '/v1/moderations',
  translations: '/v1/audio/translations',
  count_tokens: '/v1/messages/count_tokens',
  ollama_chat: '/ollama/api/chat',
  ollama_generate: '/ollama/api/generate',
  ollama_embed: '/ollama/api/embed',
  ollama_embeddings: '/ollama/api/embeddings',
  input_tokens: '/v1/responses/input_tokens',
  compact: '/v1/responses/compact',
  gemini: '/v1beta/models/{model}:generateContent',
  gemini_count_tokens: '/v1beta/models/{model}:countTokens',
  gemini_embed: '/v1beta/models/{model}:embedContent',
  gemini_batch_embed: '/v1beta/models/{model}:batchEmbedContents',
  tokenize: '/tokenize',
  detokenize: '/detokenize',
  score: '/v1/score',
  classify: '/classify',
  pooling: '/pooling',
  infill: '/infill',
  realtime: '/v1/realtime',
}

/** Where the call went, with the name that was asked for. */
export function pathOf(call: Pick<Call, 'door' | 'model' | 'asked' | 'streamed'>): string {
  const model = encodeURIComponent(call.asked ?? call.model)
  if (call.door === 'gemini' && call.streamed) return `/v1beta/models/${model}:streamGenerateContent?alt=sse`
  if (call.door === 'realtime') return `${doorPaths.realtime}?model=${model}`
  return doorPaths[call.door].replace('{model}', model)
}

// What curl says itself, what belongs to one connection or one request, and what the line has anyway.
const ownHeaders = /^(host|connection|content-length|transfer-encoding|accept-encoding|user-agent|content-type|cookie|x-request-id|traceparent|tracestate|expect|origin|referer|forwarded|via|x-forwarded-.*|x-real-ip|upgrade|sec-.*)$/i

/** Characters that a terminal obeys: pasted, they would end the quotes of the paste itself. */
// eslint-disable-next-line no-control-regex
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g

const hasControls = (text: string) => text.search(controls) >= 0

/** The text of a body that means the same and that a terminal shows; null where there is none. */
export function printable(text: string): string | null {
  if (!hasControls(text)) return text
  try {
    JSON.parse(text)
  } catch {
    return null
  }
  // In JSON that is right, those below a space stand between values only, and others within texts.
  return text.replace(controls, (one) => (one < ' ' ? ' ' : `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`))
}

const fileOf: Partial<Record<Door, string>> = { transcriptions: 'audio.wav', translations: 'audio.wav', image_edits: 'image.png' }

/** The fields of a form as the gateway lists them, one in a line; files are named and not kept. */
function formWords(text: string): string[] {
  return text.split('\n').flatMap((line) => {
    const cut = line.indexOf(': ')
    if (cut <= 0) return []
    const [name, value] = [line.slice(0, cut), line.slice(cut + 2)]
    const file = /^"((?:[^"\\]|\\.)*)", \d+ bytes of /.exec(value)
    if (hasControls(line)) return []
    // curl takes a value that begins with @ or < for the name of a file, unless it is a --form-string.
    return [file === null ? shell`--form-string ${`${name}=${value}`}` : shell`-F ${`${name}=@${(file[1] ?? '').replace(/[^\w.-]/g, '_') || 'file'}`}`]
  })
}

function bodyWords(call: Pick<Call, 'door'>, body: Body | undefined): { words: string[]; isWhole: boolean } {
  const isForm = (body?.contentType ?? '').startsWith('multipart/') || fileOf[call.door] !== undefined
  if (isForm) {
    const words = body?.text === undefined || body.cut === true ? [] : formWords(body.text)
    return words.length > 0 ? { words, isWhole: false } : { words: [shell`-F ${`file=@${fileOf[call.door] ?? 'file'}`}`], isWhole: false }
  }
  const text = body?.text === undefined || body.cut === true ? null : printable(body.text)
  const type = body?.contentType === undefined || body.contentType === '' || hasControls(body.contentType) ? 'application/json' : body.contentType
  const header = shell`-H ${`Content-Type: ${type}`}`
  if (text === null || (text === '' && body!.bytes > 0)) return { words: [header, '--data-binary @request.json'], isWhole: false }
  return { words: [header, shell`--data-raw ${text}`], isWhole: true }
}

/** A call to send again, and whether its body is in it: else it is to be put into the file that the line names. */
export function requestLine(call: Call, content: CallContent | undefined, origin: string, secured: boolean): { text: string; isWhole: boolean } {
  const isSocket = call.door === 'realtime'
  const words = [(isSocket ? 'curl -gN ' : 'curl -gN -X POST ') + shell`${origin + pathOf(call)}`]
  const headers = (content?.headers ?? []).filter((header) => !ownHeaders.test(header.name) && !hasControls(header.name + header.value) && /^[\w!#$%&'*+.^`|~-]+$/.test(header.name))
  const credentials = headers.filter((header) => header.masked === true && /^(authorization|x-api-key|api-key|x-goog-api-key)$/i.test(header.name))
  // The name of a header that is one of these holds nothing that a shell would read.
  for (const header of credentials) words.push(/^authorization$/i.test(header.name) ? '-H "Authorization: Bearer $PATCHBAY_KEY"' : `-H "${header.name}: $PATCHBAY_KEY"`)
  if (credentials.length === 0 && secured) words.push('-H "Authorization: Bearer $PATCHBAY_KEY"')
  for (const header of headers) if (header.masked !== true && !header.value.endsWith('…')) words.push(shell`-H ${header.value === '' ? `${header.name};` : `${header.name}: ${header.value}`}`)
  // A WebSocket begins with an upgrade and has no body; the key is a name of ours in base64.
  if (isSocket) return { text: [...words, ...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: cGF0Y2hiYXktY29uc29sZQ=='].map((header) => shell`-H ${header}`)].join(' \\\n  '), isWhole: true }
  const { words: more, isWhole } = bodyWords(call, content?.request)
  return { text: [...words, ...more].join(' \\\n  '), isWhole }
}
