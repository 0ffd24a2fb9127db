import { useEffect, useLayoutEffect, useRef, useState, type RefObject } from 'react'
import { flushSync } from 'react-dom'

/** The width of an element, followed while it changes. */
export function useWidth<T extends HTMLElement>(): [RefObject<T | null>, number] {
  const ref = useRef<T>(null)
  const [width, setWidth] = useState(0)
  useLayoutEffect(() => {
    const element = ref.current
    if (element === null) return
    const measure = () => setWidth(Math.round(element.getBoundingClientRect().width))
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  return [ref, width]
}

/** Whether the page is being printed: paper is white, and has all rows of a list. */
export function usePrinting(): boolean {
  const [printing, setPrinting] = useState(false)
  useEffect(() => {
    const query = matchMedia('print')
    // The browser prints when the listeners have returned.
    const set = (is: boolean) => () => flushSync(() => setPrinting(is))
    const [begin, end, follow] = [set(true), set(false), () => set(query.matches)()]
    addEventListener('beforeprint', begin)
    addEventListener('afterprint', end)
    query.addEventListener('change', follow)
    return () => {
      removeEventListener('beforeprint', begin)
      removeEventListener('afterprint', end)
      query.removeEventListener('change', follow)
    }
  }, [])
  return printing
}
