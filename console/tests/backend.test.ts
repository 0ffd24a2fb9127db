import { describe, expect, it } from 'vitest'
import { instancesOf, keyOf, type Backend } from '@/pages/services/backend'
import { toForm } from '@/pages/services/form'

const backend: Backend = {
  baseUrl: 'http://gpu2:11434', adapter: 'ollama', loads: true, errors: [],
  models: [
    { id: 'qwen3', serviceType: 'chat', exists: false },
    { id: 'bge-m3', serviceType: 'embedding', exists: false },
    { id: 'old', serviceType: 'chat', exists: true },
  ],
}
const all = new Set(backend.models.map(keyOf))

describe('a backend is added', () => {
  it('with the models that are chosen and not there yet, and its dialect', () =>
    expect(instancesOf(backend, toForm(null), all, false)).toEqual([
      { serviceType: 'chat', instance: { name: 'qwen3', baseUrl: 'http://gpu2:11434', adapter: 'ollama' } },
      { serviceType: 'embedding', instance: { name: 'bge-m3', baseUrl: 'http://gpu2:11434', adapter: 'ollama' } },
    ]))
  it('for all its service types where it serves what it lists later', () =>
    expect(instancesOf(backend, toForm(null), new Set(), true)).toEqual([
      { serviceType: 'chat', instance: { models: ['discover'], baseUrl: 'http://gpu2:11434', adapter: 'ollama' } },
      { serviceType: 'embedding', instance: { models: ['discover'], baseUrl: 'http://gpu2:11434', adapter: 'ollama' } },
    ]))
  it('with what was typed below the fold', () => {
    const [first] = instancesOf(backend, { ...toForm(null), weight: '3', maxConcurrency: 'auto', apiKey: 'k', adapter: 'openai' }, all, false)
    expect(first!.instance).toEqual({ name: 'qwen3', baseUrl: 'http://gpu2:11434', adapter: 'openai', weight: 3, maxConcurrency: 'auto', apiKey: 'k' })
  })
})
