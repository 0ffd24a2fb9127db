import { describe, expect, it } from 'vitest'
import { draftOf, fromDraft } from '@/shell/draft'

const begin = { name: '', apiKey: '', services: [] as string[], limits: { a: '' }, on: false }

describe('what is kept of a form', () => {
  it('has no secret in it', () => {
    const text = draftOf({ ...begin, name: 'm', apiKey: 'sk-secret' }, ['apiKey'])!
    expect(text).not.toContain('sk-secret')
    expect(fromDraft(text, begin)).toEqual({ ...begin, name: 'm' })
  })
  it('is nothing where it is too long', () => expect(draftOf('x'.repeat(300_000), [])).toBeNull())
  it('is a text as it is', () => expect(fromDraft(draftOf('half a question', []), '')).toBe('half a question'))
  it.each([null, '', '{', '[]', '7', 'null', '{"name":7,"services":"x","other":1}'])('%j leaves the form as it begins', (text) => expect(fromDraft(text, begin) ?? begin).toEqual(begin))
})
