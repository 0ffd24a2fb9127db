import { useEffect, useLayoutEffect, useRef, useState, type FocusEvent, type RefObject } from 'react'
import { usePrinting } from './size'

/** Of more rows than these, only those in sight are drawn: hundreds that change each second or move at once would hold up the page. */
export const manyRows = 40
/** How far outside of the window a line is drawn, in pixels. */
const margin = 160

/** A line of a table: the heading of a group, or a row. */
export type Kind = 'head' | 'row'

/** A line that is drawn, and the height of those before it that are not. */
export interface Drawn {
  index: number
  gap: number
}

/**
 * The lines of a table that are drawn, and what the table needs for that. Its
 * rows (tr[data-id]) have the keys of their lines. Keys walk to the first and the
 * last row and to those beside the one with the focus, also where a heading is
 * between them, so these are drawn wherever they are, and so is the one at kept.
 */
export function useTableLines<T extends { key: string; kind: Kind }>(lines: readonly T[], isMany: boolean, kept = -1) {
  const table = useRef<HTMLTableElement>(null)
  const [held, setHeld] = useState('')
  const at = lines.findIndex((line) => line.key === held)
  const beside = at < 0 ? [] : [at - 2, at - 1, at, at + 1, at + 2]
  const first = lines.findIndex((line) => line.kind === 'row')
  const { drawn, after, rowHeight } = useLinesInSight(table, lines.map((line) => line.kind), [first, lines.length - 1, kept, ...beside], isMany)
  const props = { ref: table, 'aria-rowcount': rowHeight === undefined ? undefined : lines.length + 1, onFocus: (event: FocusEvent) => setHeld(event.target.closest('tr')?.dataset.id ?? '') }
  return { drawn: drawn.map((one): T & Drawn => ({ ...lines[one.index]!, ...one })), after, rowHeight, props }
}

/** The room of rows that are not drawn. */
export const Gap = ({ height, columns }: { height: number; columns: number }) =>
  height > 0 && (
    <tr className="gap" aria-hidden>
      <td colSpan={columns} style={{ height }} />
    </tr>
  )

interface Sight {
  from: number
  to: number
  height: Record<Kind, number>
}

/**
 * Which lines of a table are drawn: those that the window shows, and the ones
 * in kept. The table scrolls with the page; its rows (tr[data-id], busy until
 * they are whole) are equally high, and so are its headings (tr.grouphead), which
 * can be rows as well. On paper there are all lines, and rowHeight is undefined, as it is for few rows.
 */
function useLinesInSight(table: RefObject<HTMLTableElement | null>, kinds: readonly Kind[], kept: readonly number[], isMany: boolean): { drawn: Drawn[]; after: number; rowHeight: number | undefined } {
  const isWhole = usePrinting() || !isMany
  const [sight, setSight] = useState<Sight>({ from: 0, to: manyRows, height: { head: 40, row: 36 } })
  const look = () => {
    if (isWhole || table.current === null) return
    const next = linesInSight(table.current, kinds, sight.height)
    if (next.from !== sight.from || next.to !== sight.to || next.height.head !== sight.height.head || next.height.row !== sight.height.row) setSight(next)
  }
  // What is above the table, and how high a row is, can change with whatever is drawn.
  useLayoutEffect(look)
  useEffect(() => {
    let frame = 0
    const soon = () => {
      cancelAnimationFrame(frame)
      frame = requestAnimationFrame(look)
    }
    document.addEventListener('scroll', soon, { capture: true, passive: true })
    addEventListener('resize', soon)
    return () => {
      cancelAnimationFrame(frame)
      document.removeEventListener('scroll', soon, { capture: true })
      removeEventListener('resize', soon)
    }
  })
  if (isWhole) return { drawn: kinds.map((_, index) => ({ index, gap: 0 })), after: 0, rowHeight: undefined }
  return { ...drawnLines(kinds, sight, new Set(kept)), rowHeight: sight.height.row }
}

function linesInSight(table: HTMLTableElement, kinds: readonly Kind[], old: Record<Kind, number>): Sight {
  const heightOf = (row: Element | null | undefined) => row?.getBoundingClientRect().height
  const height = { head: heightOf([...table.querySelectorAll('tr.grouphead')].at(-1)) ?? old.head, row: heightOf(table.querySelector('tr[data-id]:not([aria-busy], .grouphead)')) ?? old.row }
  let bottom = table.getBoundingClientRect().top + (table.tHead?.getBoundingClientRect().height ?? 0)
  let [from, to] = [kinds.length, 0]
  for (const [index, kind] of kinds.entries()) {
    const top = bottom
    bottom += height[kind]
    if (bottom < -margin || top > innerHeight + margin) continue
    from = Math.min(from, index)
    to = index + 1
  }
  return { from, to, height }
}

/** The lines from one to another and those that are kept, with the height of what lies between them. */
export function drawnLines(kinds: readonly Kind[], { from, to, height }: Sight, kept: ReadonlySet<number>): { drawn: Drawn[]; after: number } {
  const drawn: Drawn[] = []
  let gap = 0
  for (const [index, kind] of kinds.entries()) {
    if ((index < from || index >= to) && !kept.has(index)) {
      gap += height[kind]
      continue
    }
    drawn.push({ index, gap })
    gap = 0
  }
  return { drawn, after: gap }
}
