import { describe, expect, it } from 'vitest'
import { checkLines } from '@/pages/batches/check'

const line = (id: string, more: object = {}) => JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body: { model: 'm' }, ...more })

describe('the first lines of a file of requests', () => {
  it('tell the endpoint and the models', () =>
    expect(checkLines(`\uFEFF${line('a')}\r\n\n${line('b', { body: { model: 'n' } })}\n`, false)).toEqual({ endpoint: '/v1/chat/completions', models: ['m', 'n'], lines: 2, faults: [] }))
  it('leave out the one that is cut', () => expect(checkLines(`${line('a')}\n{"custom`, true)).toMatchObject({ lines: 1, faults: [] }))
  it.each([
    ['{', 'json'], ['7', 'id'], ['null', 'id'], [line(''), 'id'], [line('first'), 'twice'], [line('b', { method: 'GET' }), 'method'],
    [line('b', { url: '/v1/other' }), 'endpoint'], [line('b', { url: '/v1/embeddings' }), 'other'], [line('b', { body: {} }), 'model'], [line('b', { body: null }), 'model'],
  ])('%s: %s', (second, fault) => expect(checkLines(`${line('first')}\n${second}`, false).faults).toEqual([{ line: 2, fault }]))
})
