import { describe, expect, it } from 'vitest'
import { connect, tools } from '@/lib/tools'

describe('how tools are connected', () => {
  it('has address and model, quoted, and never a key', () => {
    for (const { value } of tools) {
      const text = connect(value, 'https://gw.example', `o'model`)
      expect(text).toContain('https://gw.example')
      expect(text).toContain('model')
      expect(text).not.toContain('pb-')
    }
    expect(connect('claude', 'https://gw.example', `a'; rm -rf /`)).toContain(`--model 'a'\\''; rm -rf /'`)
    expect(connect('codex', 'https://gw.example', 'm"x')).toContain('model = "m\\"x"')
  })
})
