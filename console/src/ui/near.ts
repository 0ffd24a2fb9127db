import { useEffect, useState, type RefObject } from 'react'
import { manyRows } from './sight'
import { usePrinting } from './size'

/** How far outside of the window a row is near, in pixels. */
const margin = 200
/** How many rows become whole in one frame. */
const atOnce = 12

/** Which rows (tr[data-id]) of a list are in sight, or nearly; null means all. Few rows at a time become whole. */
export function useNearRows(list: RefObject<HTMLElement | null>, count: number): ReadonlySet<string> | null {
  const printing = usePrinting()
  const [near, setNear] = useState<ReadonlySet<string>>(new Set())
  const isOn = count > manyRows && !printing
  useEffect(() => {
    const box = list.current
    if (!isOn || box === null) return
    let frame = 0
    const soon = () => {
      cancelAnimationFrame(frame)
      frame = requestAnimationFrame(look)
    }
    let held: ReadonlySet<string> = new Set()
    const look = () => {
      const found = new Set<string>()
      const fresh: string[] = []
      for (const row of box.querySelectorAll<HTMLElement>('tr[data-id]')) {
        const { top, bottom } = row.getBoundingClientRect()
        if (bottom < -margin || top > innerHeight + margin) continue
        const id = row.dataset.id ?? ''
        if (held.has(id)) found.add(id)
        else if (top < innerHeight && bottom > 0) fresh.unshift(id)
        else fresh.push(id)
      }
      for (const id of fresh.slice(0, atOnce)) found.add(id)
      if (fresh.length > atOnce) soon()
      if (fresh.length === 0 && found.size === held.size) return
      held = found
      setNear(found)
    }
    look()
    const size = new ResizeObserver(soon)
    size.observe(box)
    // Rows come and go with the filter, and change places with the order.
    const order = new MutationObserver((changes) => changes.some((change) => change.target instanceof HTMLTableSectionElement) && soon())
    order.observe(box, { childList: true, subtree: true })
    document.addEventListener('scroll', soon, { capture: true, passive: true })
    addEventListener('resize', soon)
    return () => {
      cancelAnimationFrame(frame)
      size.disconnect()
      order.disconnect()
      document.removeEventListener('scroll', soon, { capture: true })
      removeEventListener('resize', soon)
    }
  }, [isOn, list])
  return isOn ? near : null
}
