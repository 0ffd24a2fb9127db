import { expect, test } from 'vitest'
import { drawnLines, type Kind } from '../src/ui/sight'

const height = { head: 40, row: 30 }
const rows = (count: number): Kind[] => Array.from({ length: count }, () => 'row')

test('the lines in sight are drawn, with room for the others', () => {
  const { drawn, after } = drawnLines(rows(10), { from: 3, to: 5, height }, new Set())
  expect(drawn).toEqual([{ index: 3, gap: 90 }, { index: 4, gap: 0 }])
  expect(after).toBe(150)
})

test('lines that are kept have the room of those between', () => {
  const { drawn, after } = drawnLines(['head', ...rows(9)], { from: 3, to: 4, height }, new Set([-1, 1, 9]))
  expect(drawn).toEqual([{ index: 1, gap: 40 }, { index: 3, gap: 30 }, { index: 9, gap: 150 }])
  expect(after).toBe(0)
})

test('a list that is out of sight is room alone', () => {
  expect(drawnLines(rows(4), { from: 4, to: 0, height }, new Set())).toEqual({ drawn: [], after: 120 })
})
