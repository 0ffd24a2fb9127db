import { useEffect } from 'react'

/** What opens a row of a list, in every list of the pages. */
const openers = 'main .nmad, main button.v, main .tbl td > button.link, main .tbl td:first-child a'

/** Arrow keys walk from row to row of every list; Enter opens one, because the rows' names are buttons. */
export function useRowKeys(): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !(event.target instanceof HTMLElement) || !event.target.matches(openers)) return
      const rows = [...document.querySelectorAll<HTMLElement>(openers)].filter((row) => row.checkVisibility())
      const at = rows.indexOf(event.target)
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key]
      if (to === undefined) return
      event.preventDefault()
      rows[to]?.focus()
    }
    document.addEventListener('keydown', press)
    return () => document.removeEventListener('keydown', press)
  }, [])
}
