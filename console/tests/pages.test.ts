import { describe, expect, it } from 'vitest'
import { listed, pages } from '@/shell/pages'

describe('the menu', () => {
  it('has nine entries at most, whatever the gateway has', () => {
    for (const path of ['/', '/spend', '/tenant']) expect(listed(pages, path).length).toBeLessThanOrEqual(9)
    expect(pages.filter(({ under }) => under === undefined).length).toBeLessThanOrEqual(9)
  })

  it('lists what is part of a page below it, while either is open', () => {
    expect(listed(pages, '/').map(({ path }) => path)).not.toContain('/gateways')
    for (const path of ['/settings', '/gateways']) {
      const shown = listed(pages, path).map((page) => page.path)
      expect(shown[shown.indexOf('/settings') + 1]).toBe('/gateways')
    }
    for (const path of ['/calls', '/runs']) {
      const shown = listed(pages, path).map((page) => page.path)
      expect(shown[shown.indexOf('/calls') + 1]).toBe('/runs')
    }
  })

  it('has a letter of its own for each page', () => {
    expect(new Set(pages.map(({ letter }) => letter)).size).toBe(pages.length)
  })
})
