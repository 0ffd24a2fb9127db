import { describe, expect, it } from 'vitest'
import { addressesOf, addressOf } from '@/lib/address'

describe('the address of a backend', () => {
  it.each([
    ['127.0.0.1:11434', 'http://127.0.0.1:11434'],
    ['gpu2', 'http://gpu2'],
    ['http://gpu2:8000/v1/chat/completions', 'http://gpu2:8000'],
    ['localhost:11434/api/chat', 'http://localhost:11434'],
    ['  "http://gpu2:8000/v1/" ', 'http://gpu2:8000'],
    ['curl -s "http://gpu2:8000/v1/models" -H "accept: */*"', 'http://gpu2:8000'],
    ['HTTP://GPU2:8000', 'http://gpu2:8000'],
    ['http://gpu2:8000/v1/models?x=1#y', 'http://gpu2:8000'],
    ['api.openai.com', 'https://api.openai.com'],
    ['api.groq.com/openai/v1', 'https://api.groq.com/openai'],
    ['gpu2.lan', 'http://gpu2.lan'],
    ['gpu.example.com:8000', 'http://gpu.example.com:8000'],
    ['gpu.example.com:443', 'https://gpu.example.com:443'],
    ['::1', 'http://[::1]'],
    ['[::1]:11434', 'http://[::1]:11434'],
    ['https://host/gateway/api/v1/embeddings', 'https://host/gateway/api'],
    ['http://host:11434/api', 'http://host:11434'],
    ['https://openrouter.ai/api', 'https://openrouter.ai/api'],
    ['https://openrouter.ai/api/v1/chat/completions', 'https://openrouter.ai/api'],
    ['https://open.bigmodel.cn/api/paas/v4', 'https://open.bigmodel.cn/api/paas/v4'],
  ])('%s is %s', (text, address) => expect(addressOf(text)).toBe(address))

  it.each(['', '   ', 'ftp://x', 'a b', 'http://', 'http://user:secret@host', 'host:port'])('%j is none', (text) => {
    expect(addressOf(text)).toBeNull()
    expect(addressesOf(text)).toEqual([])
  })

  it('a name alone may mean any usual port, a whole address only itself', () => {
    expect(addressesOf('gpu2').slice(0, 3)).toEqual(['http://gpu2', 'http://gpu2:11434', 'http://gpu2:8000'])
    expect(addressesOf('api.openai.com')).toEqual(['https://api.openai.com', 'http://api.openai.com'])
    expect(addressesOf('gpu2:8000')).toEqual(['http://gpu2:8000'])
    expect(addressesOf('http://gpu2')).toEqual(['http://gpu2'])
  })
})
