import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import type { Call } from '@/api/types'
import { pathOf, printable, requestLine } from '@/pages/calls/curl'
import type { CallContent } from '@/pages/calls/content'

const call = (more: Partial<Call> = {}) => ({ requestId: 'r', door: 'chat', service: 'chat', model: 'm', streamed: false, ...more }) as Call
const content = (text: string | undefined, more: Partial<CallContent> = {}, contentType = 'application/json'): CallContent => ({ requestId: 'r', kept: 'content', headers: [], request: { contentType, bytes: text?.length ?? 9, text }, ...more })

/** The arguments that a shell gives to curl, which only says what they are. */
function argumentsOf(line: string): string[] {
  const out = execFileSync('sh', ['-c', `curl() { for one do printf '%s\\0' "$one"; done; }\n${line}`], { env: { PATH: process.env.PATH ?? '', PATCHBAY_KEY: 'sk-own' }, encoding: 'utf8' })
  return out.split('\0').slice(0, -1)
}

const hostile = [
  `it's "quoted" and $(touch /tmp/x) \`id\` \${HOME} $HOME \\ \\n !! # ; & | > < * ? [a] {b,c} ~`, "'", "''", "\\'", "';id;'", '@/etc/passwd', '-X DELETE', 'two\nlines\n', '\ttab', '文字 \u{1F600}', '%s%n', '',
]

describe('a call as a line for a shell', () => {
  it('gives curl the body as it was, whatever is in it', () => {
    for (const text of hostile) {
      for (const body of [JSON.stringify({ model: 'm', messages: [{ role: 'user', content: text }] }), text]) {
        const { text: line } = requestLine(call(), content(body), 'http://127.0.0.1:8080', false)
        const words = argumentsOf(line)
        expect(words.slice(0, 4)).toEqual(['-gN', '-X', 'POST', 'http://127.0.0.1:8080/v1/chat/completions'])
        expect(words[words.indexOf('--data-raw') + 1]).toBe(body)
      }
    }
  })
  it('has the headers, and no secret', () => {
    const headers = [{ name: 'Authorization', value: '****cret', masked: true }, { name: 'X-Router-Priority', value: `a'b $(id)` }, { name: 'Host', value: 'h' }, { name: 'Content-Length', value: '3' }, { name: 'Cookie', value: '****', masked: true }, { name: 'X-Session-Token', value: '****', masked: true }, { name: 'X-Empty', value: '' }]
    const words = argumentsOf(requestLine(call(), content('{}', { headers }), 'http://h', true).text)
    expect(words.filter((_, at) => words[at - 1] === '-H')).toEqual(['Authorization: Bearer sk-own', `X-Router-Priority: a'b $(id)`, 'X-Empty;', 'Content-Type: application/json'])
    const other = argumentsOf(requestLine(call(), content('{}', { headers: [{ name: 'X-Api-Key', value: '****', masked: true }] }), 'http://h', true).text)
    expect(other.filter((_, at) => other[at - 1] === '-H')).toEqual(['X-Api-Key: sk-own', 'Content-Type: application/json'])
  })
  it('names a file where the body is not known whole', () => {
    for (const kept of [undefined, content(undefined), { ...content('{"a":'), request: { contentType: 'application/json', bytes: 99, text: '{"a":', cut: true } }]) {
      const { text, isWhole } = requestLine(call(), kept, 'http://h', false)
      expect([isWhole, argumentsOf(text).slice(-2)]).toEqual([false, ['--data-binary', '@request.json']])
    }
  })
  it('says a form field by field, and its files by name', () => {
    const form = content(`model: whisper-1\nfile: "it's $(id).wav", 12 bytes of audio/wav\nprompt: @/etc/passwd\n`, {}, 'multipart/form-data; boundary=x')
    const words = argumentsOf(requestLine(call({ door: 'transcriptions', service: 'stt' }), form, 'http://h', false).text)
    expect(words.slice(4)).toEqual(['--form-string', 'model=whisper-1', '-F', 'file=@it_s___id_.wav', '--form-string', 'prompt=@/etc/passwd'])
  })
  it('holds nothing that a terminal obeys', () => {
    const pasted = `{"a": "\u009b201~ \u202e x\u007f"}\r\n`
    expect(printable(pasted)).toBe('{"a": "\\u009b201~ \\u202e x\\u007f"} \n')
    expect(JSON.parse(printable(pasted)!)).toEqual(JSON.parse(pasted))
    expect(printable('\u001b[201~ rm -rf')).toBeNull()
    expect(requestLine(call(), content('\u001b[201~ id', {}, 'text/plain'), 'http://h', false).isWhole).toBe(false)
    expect(requestLine(call(), content('{}', { headers: [{ name: 'X-Note', value: 'a\u009bb' }] }), 'http://h', false).text).not.toMatch(/X-Note/)
  })
  it('goes to the door that it came to, with the name that was asked for', () => {
    expect(pathOf(call({ door: 'messages' }))).toBe('/v1/messages')
    expect(pathOf(call({ door: 'gemini', asked: `a/b?'$x` }))).toBe(`/v1beta/models/a%2Fb%3F'%24x:generateContent`)
    expect(pathOf(call({ door: 'gemini', streamed: true }))).toBe('/v1beta/models/m:streamGenerateContent?alt=sse')
    expect(argumentsOf(requestLine(call({ door: 'realtime', asked: `o'm` }), undefined, 'http://h', false).text)[1]).toBe(`http://h/v1/realtime?model=o'm`)
  })
})
