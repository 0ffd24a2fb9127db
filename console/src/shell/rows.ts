import { useEffect } from 'react'

/** What opens a row of a list, in every list of the pages. */
const openers = 'main .nmad, main button.v, main .tbl td > button.link, main .tbl td:first-child a'

/** Of a list with more rows than these, Tab reaches one. */
const fewRows = 12

const rowOf = (opener: Element): Element => opener.closest('tr') ?? opener
const listOf = (row: Element): Element => row.closest('table') ?? row.parentElement ?? row

/**
 * Arrow keys, j and k walk from row to row of every list; Enter opens one, because the
 * rows' names are buttons. Of a long list only the row that had the focus last
 * is in the order of Tab, so that what is behind the list is a few steps away.
 */
export function useRowKeys(): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !(event.target instanceof HTMLElement)) return
      const isRow = event.target.matches(openers)
      // Where nothing has the focus, j goes into the first list; Calls walk by themselves.
      const isNowhere = event.target === document.body && (event.key === 'j' || event.key === 'k') && document.querySelector('dialog[open], .calltable, .drawer') === null
      if (!isRow && !isNowhere) return
      const rows = [...document.querySelectorAll<HTMLElement>(openers)].filter((row) => row.checkVisibility())
      const at = rows.indexOf(event.target)
      const to = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: Math.max(0, at - 1), Home: 0, End: rows.length - 1 }[event.key]
      if (to === undefined) return
      event.preventDefault()
      rows[to]?.focus()
    }
    const current = new WeakMap<Element, Element>()
    const order = () => {
      const lists = new Map<Element, Element[]>()
      for (const opener of document.querySelectorAll(openers)) {
        const row = rowOf(opener)
        const rows = lists.get(listOf(row))
        if (rows === undefined) lists.set(listOf(row), [row])
        else if (rows.at(-1) !== row) rows.push(row)
      }
      for (const [list, rows] of lists) {
        const chosen = current.get(list)
        const one = chosen !== undefined && rows.includes(chosen) ? chosen : rows[0]
        for (const row of rows) setTabs(row, rows.length <= fewRows || row === one)
      }
    }
    const focus = (event: FocusEvent) => {
      if (!(event.target instanceof Element)) return
      const row = event.target.closest('tr') ?? event.target
      if (!row.matches(openers) && row.querySelector(openers) === null) return
      current.set(listOf(row), row)
      order()
    }
    let frame = 0
    const watch = new MutationObserver(() => {
      cancelAnimationFrame(frame)
      frame = requestAnimationFrame(order)
    })
    watch.observe(document.body, { childList: true, subtree: true })
    document.addEventListener('keydown', press)
    document.addEventListener('focusin', focus)
    return () => {
      cancelAnimationFrame(frame)
      watch.disconnect()
      document.removeEventListener('keydown', press)
      document.removeEventListener('focusin', focus)
    }
  }, [])
}

/** Takes what a row can be operated with out of the order of Tab, or puts it back. */
function setTabs(row: Element, isIn: boolean): void {
  const parts = isIn ? row.querySelectorAll<HTMLElement>('[data-row-out]') : row.querySelectorAll<HTMLElement>('a[href]:not([data-row-out]), button:not([data-row-out]), [tabindex="0"]:not([data-row-out])')
  for (const part of row.matches(isIn ? '[data-row-out]' : 'button:not([data-row-out])') ? [row as HTMLElement, ...parts] : parts) {
    if (isIn) part.removeAttribute('data-row-out')
    else part.setAttribute('data-row-out', '')
    part.tabIndex = isIn ? 0 : -1
  }
}
