import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const css = readFileSync('src/styles/tokens.css', 'utf8')

function tokens(theme: 'light' | 'dark'): Record<string, string> {
  const block = new RegExp(`\\[data-theme="${theme}"\\] \\{([^}]+)\\}`).exec(css)![1]!
  return Object.fromEntries([...block.matchAll(/--([\w-]+):\s*(#[0-9A-Fa-f]{6})/g)].map((match) => [match[1]!, match[2]!]))
}

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!
}

function contrast(a: string, b: string): number {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x)
  return (high! + 0.05) / (low! + 0.05)
}

const surfaces = ['bg', 'panel', 'raised', 'well']
const pairs: [string, string[], number][] = [
  ['ink', surfaces, 4.5], ['ink-2', surfaces, 4.5], ['ink-3', surfaces, 4.5], ['accent', surfaces, 4.5], ['warn', surfaces, 4.5], ['bad', surfaces, 4.5],
  ['accent', ['accent-soft'], 4.5], ['warn', ['warn-soft'], 4.5], ['bad', ['bad-soft'], 4.5], ['ink-3', ['accent-soft'], 4.5],
  ['control', ['bg', 'panel', 'raised'], 3], ['cable', ['well'], 3], ['warn-fill', ['well'], 3], ['bad-fill', ['well'], 3],
]

describe.each(['light', 'dark'] as const)('the %s theme', (theme) => {
  const values = tokens(theme)
  it.each(pairs)('%s can be read on %s', (text, backgrounds, needed) => {
    for (const background of backgrounds) expect(contrast(values[text]!, values[background]!), background).toBeGreaterThanOrEqual(needed)
  })
})
