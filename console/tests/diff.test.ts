import { describe, expect, it } from 'vitest'
import { changedPart, diffLines, hunks } from '@/lib/diff'
import { maskSecrets, yamlLines } from '@/lib/yaml'

function apply(a: string[], b: string[]) {
  const lines = diffLines(a, b)
  expect(lines.filter((line) => line.kind !== 'add').map((line) => line.text)).toEqual(a)
  expect(lines.filter((line) => line.kind !== 'del').map((line) => line.text)).toEqual(b)
  return lines
}

describe('the difference of two texts', () => {
  it('gives both texts back, whatever they are', () => {
    apply([], [])
    apply(['a'], [])
    apply([], ['a'])
    let seed = 7
    const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n
    for (let run = 0; run < 300; run++) {
      const text = () => Array.from({ length: random(14) }, () => 'abcd'[random(4)]!)
      apply(text(), text())
    }
  })
  it('is short and numbers the lines', () => {
    const lines = apply(['x', 'load: a', 'y'], ['x', 'load: b', 'y'])
    expect(lines.map((line) => [line.kind, line.left, line.right])).toEqual([['same', 1, 1], ['del', 2, null], ['add', null, 2], ['same', 3, 3]])
  })
  it('stays quick with large texts', () => {
    const a = Array.from({ length: 4000 }, (_, i) => `line ${i}`)
    apply(a, a.map((line, i) => (i % 50 === 0 ? `${line} changed` : line)))
  })
  it('folds what is equal', () => {
    const a = Array.from({ length: 40 }, (_, i) => `l${i}`)
    const b = a.with(20, 'new')
    expect(hunks(diffLines(a, b)).map((hunk) => (hunk.kind === 'gap' ? hunk.count : `${hunk.lines.length} lines`))).toEqual([17, '8 lines', 16])
  })
  it('marks the word that changed', () => {
    const part = changedPart('  weight: 10', '  weight: 12')
    expect('  weight: 10'.slice(part.head, part.tailA)).toBe('10')
    expect('  weight: 12'.slice(part.head, part.tailB)).toBe('12')
  })
})

describe('YAML', () => {
  it('is what the configuration file looks like', () => {
    expect(yamlLines({ services: { chat: { loadBalancer: 'round_robin', rateLimit: { enabled: true }, instances: [{ name: 'm', baseUrl: 'http://a:1', headers: {}, apiKey: '' }, { name: 'n' }] } } })).toEqual([
      'services:', '  chat:', '    load-balancer: round_robin', '    rate-limit:', '      enabled: true', '    instances:',
      '      - name: m', '        base-url: http://a:1', '        headers: {}', '        api-key: ""', '      - name: n',
    ])
  })
  it('quotes what would be misread', () => {
    expect(yamlLines({ a: 'true', b: '12', c: 'a: b', d: '# x', e: ' y', f: '****1234', g: 'x\ny' })).toEqual(['a: "true"', 'b: "12"', 'c: "a: b"', 'd: "# x"', 'e: " y"', 'f: "****1234"', 'g: "x\\ny"'])
  })
  it('never shows a secret', () => {
    const masked = maskSecrets({ instances: [{ name: 'm', apiKey: 'sk-abcdefgh1234', headers: { Authorization: 'Bearer x', 'X-A': 'b' } }] })
    expect(masked).toEqual({ instances: [{ name: 'm', apiKey: '****1234', headers: { Authorization: '****', 'X-A': 'b' } }] })
  })
})
