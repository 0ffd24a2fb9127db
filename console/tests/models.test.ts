import { describe, expect, it } from 'vitest'
import { namesOf, offered, toggled } from '@/pages/keys/models'

const names = ['bge-m3', 'llama3:8b', 'qwen3:4b', 'qwen3:8b']

describe('the models of a key', () => {
  it('are offered as they are configured, found and called', () => {
    const services = { chat: { instances: [{ name: 'qwen3:8b' }, { name: '', models: ['discover'] }], aliases: { gpt: 'qwen3:8b' } } }
    expect(namesOf(services as never, ['llama3:8b', 'qwen3:8b', '*'])).toEqual(['gpt', 'llama3:8b', 'qwen3:8b'])
  })
  it('are narrowed by what is typed', () => {
    expect(offered(names, '')).toEqual(names)
    expect(offered(names, 'QWEN')).toEqual(['qwen3:4b', 'qwen3:8b'])
    expect(offered(names, 'bge-m3, lla')).toEqual(['bge-m3', 'llama3:8b'])
    expect(offered(names, 'mistral*')).toEqual(names)
  })
  it('are several, and free text stays', () => {
    expect(toggled('', 'bge-m3')).toBe('bge-m3')
    expect(toggled('bge-m3, qw', 'qwen3:8b')).toBe('bge-m3, qwen3:8b')
    expect(toggled('mistral*', 'bge-m3')).toBe('mistral*, bge-m3')
    expect(toggled('bge-m3, qwen3:8b', 'bge-m3')).toBe('qwen3:8b')
  })
})
