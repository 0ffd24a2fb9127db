import { describe, expect, it } from 'vitest'
import { toError } from '@/api/client'
import { whyOut } from '@/shell/session'

const noon = Date.parse('2026-11-18T12:00:00Z')
const refusal = (code: string) => toError(401, { message: 'no', said: [{ code }] }, '')

describe('the form says why it is shown', () => {
  it('to nobody who was not logged in', () => expect(whyOut(refusal('manage.no_token'), null, noon)).toBeNull())
  it('as the gateway says it of the session', () => expect(whyOut(refusal('manage.session_token'), null, noon)).toEqual([{ code: 'manage.session_token' }]))
  it.each([
    ['out', 'session.isOut'],
    ['2026-11-18T11:00:00Z', 'session.isOver'],
    ['2026-11-18T13:00:00Z', 'session.isGone'],
  ])('by the end %s: %s', (end, key) => expect(whyOut(refusal('manage.no_token'), end, noon)).toBe(key))
})
