// @vitest-environment node
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { Away, loadPart } from '@/lib/parts'

const fails = () => Promise.reject(new TypeError('Failed to fetch dynamically imported module'))

describe('a part of the console that is not there', () => {
  const kept = new Map<string, string>()
  beforeEach(() => {
    kept.clear()
    vi.stubGlobal('sessionStorage', { getItem: (name: string) => kept.get(name) ?? null, setItem: (name: string, value: string) => kept.set(name, value) })
  })
  it('has the page loaded anew where the gateway answers, and only once', async () => {
    const reload = vi.fn()
    void loadPart(fails, () => Promise.resolve(true), reload)
    await vi.waitFor(() => expect(reload).toHaveBeenCalledTimes(1))
    await expect(loadPart(fails, () => Promise.resolve(true), reload)).rejects.toThrow('Failed to fetch')
    expect(reload).toHaveBeenCalledTimes(1)
  })
  it('leaves the page alone while the gateway is away', async () => {
    const reload = vi.fn()
    await expect(loadPart(fails, () => Promise.resolve(false), reload)).rejects.toBeInstanceOf(Away)
    expect(reload).not.toHaveBeenCalled()
  })
  it('is loaded where it is there', async () => expect(await loadPart(() => Promise.resolve(7))).toBe(7))
})
