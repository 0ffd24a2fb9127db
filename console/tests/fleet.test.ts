import { describe, expect, it } from 'vitest'
import type { FleetUse } from '@/api/types'
import { translate } from '@/i18n'
import { en } from '@/i18n/en'
import { zh } from '@/i18n/zh'
import { sentences } from '@/pages/overview/fleet-words'

const nothing: FleetUse = {
  calls: 0, streams: 0, hitRate: null, isHitRateTold: false, blindHitRate: null, prefillSavedShare: null, prefillSavedSeconds: 0,
  firstTokenMs: null, expectedMs: null, roundRobinMs: null, estimateRatio: null,
}
const busy: FleetUse = {
  calls: 40, streams: 30, hitRate: 0.62, isHitRateTold: true, blindHitRate: 0.21, prefillSavedShare: 0.55, prefillSavedSeconds: 12,
  firstTokenMs: 470, expectedMs: 450, roundRobinMs: 1410, estimateRatio: 1.05,
}
const say = (use: FleetUse, dictionary: typeof en | typeof zh = en) => sentences((key, values) => translate(dictionary, key, values), 'm', use)

describe('whether the fleet is used well', () => {
  it('is said in plain words', () => {
    expect(say(busy)).toBe(
      'm: the first token comes after 470 ms, 3 times as soon as with round robin (about 1.41 s). ' +
        '62 % of the prompts came from caches, as the engines say; a blind choice would have found 21 %. That saved 55 % of the work on prompts. Estimates are right.',
    )
    expect(say(busy, zh)).toContain('是它的 3 倍')
  })
  it('says what is believed and what is not known', () => {
    expect(say(nothing)).toBe('m: no complete answer yet.')
    expect(say({ ...nothing, calls: 1, hitRate: 0, blindHitRate: 0, prefillSavedShare: 0 })).toBe(
      'm: 1 answer came whole, so that no first token was seen. 0 % of the prompts should have come from caches; a blind choice would have found 0 %.',
    )
  })
  it('tells when estimates are off, and when round robin would do', () => {
    expect(say({ ...busy, estimateRatio: 4 })).toContain('First tokens come 4 times as late as expected.')
    expect(say({ ...busy, estimateRatio: 0.25 })).toContain('First tokens come 4 times sooner than expected.')
    expect(say({ ...busy, roundRobinMs: 480 })).toContain('about as with round robin.')
  })
})
