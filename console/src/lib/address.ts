// The address of a backend as people write it, and as the gateway wants it: the root of its API.

/** What the roots of APIs are followed by where an address was copied from a call or a manual. */
const endings = [
  /\/v1\/(chat\/completions|completions|embeddings|models|messages|responses|rerank|audio\/\w+|images\/\w+)$/,
  /\/v1$/,
  /\/v1beta\/models(\/.*)?$/,
  /\/v1beta$/,
]

/** Those of Ollama's own API, which nobody has on the internet: other APIs have their roots below /api. */
const ollamaEndings = [/\/api\/(chat|generate|tags|embed|embeddings|ps|show|version)$/, /^\/api$/]

/** Ports that model servers listen on by default: Ollama, vLLM, llama.cpp, LM Studio, SGLang, Xinference. */
const usualPorts = [11434, 8000, 8080, 1234, 30000, 9997]

const isNumber = (host: string) => /^[\d.]+$/.test(host) || host.includes(':')
/** Whether a name is one of the internet, where HTTPS is usual. */
const isPublic = (host: string) => !isNumber(host) && host.includes('.') && !/\.(local|lan|internal|intern|home|localdomain|localhost|test)$/.test(host)

interface Read {
  scheme: string
  host: string
  port: string
  path: string
}

function read(text: string): Read | null {
  // Of a copied command, the address in it.
  const address = /\s/.test(text.trim()) ? (/\bhttps?:\/\/[^\s"'<>]+/i.exec(text)?.[0] ?? text) : text
  const plain = address.trim().replace(/^["'<]+|["'>]+$/g, '').replace(/[?#].*$/, '')
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(plain)?.[1] ?? ''
  let rest = plain.slice(scheme === '' ? 0 : scheme.length + 3)
  if (/^[0-9a-f]*:[0-9a-f:]*:[0-9a-f:]*$/i.test(rest)) rest = `[${rest}]`
  const found = /^(\[[0-9a-f:.]+\]|[^\s/:@[\]]+)(?::(\d{1,5}))?(\/\S*)?$/i.exec(rest)
  if (found === null || !['', 'http', 'https'].includes(scheme.toLowerCase())) return null
  const [, host = '', port = '', path = ''] = found
  return { scheme: scheme.toLowerCase(), host: host.toLowerCase(), port, path: rootOf(path.replace(/\/+$/, ''), isPublic(host) ? endings : [...endings, ...ollamaEndings]) }
}

function rootOf(path: string, known: readonly RegExp[]): string {
  const ending = known.find((one) => one.test(path))
  return ending === undefined ? path : path.replace(ending, '').replace(/\/+$/, '')
}

const write = ({ scheme, host, port, path }: Read) => `${scheme}://${host}${port === '' ? '' : `:${port}`}${path}`

/** The root of an API, by any spelling of its address; null where it is none. */
export function addressOf(text: string): string | null {
  const found = read(text)
  if (found === null) return null
  const scheme = found.scheme !== '' ? found.scheme : found.port === '443' || (found.port === '' && isPublic(found.host)) ? 'https' : 'http'
  return write({ ...found, scheme })
}

/** Where the backend of an address may be, the likeliest first: a name alone may mean any of the usual ports. */
export function addressesOf(text: string): string[] {
  const [found, first] = [read(text), addressOf(text)]
  if (found === null || first === null) return []
  if (found.scheme !== '' || found.port !== '') return [first]
  if (isPublic(found.host)) return [first, write({ ...found, scheme: 'http' })]
  return [first, ...usualPorts.map((port) => write({ ...found, scheme: 'http', port: String(port) }))]
}
