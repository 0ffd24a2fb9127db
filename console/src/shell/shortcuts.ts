import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { usePages } from './pages'

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}

/** The keys that work on every page: Ctrl-K, "/", "?", and "g" with a letter. */
export function useShortcuts(actions: { openPalette(): void; openHelp(): void }): void {
  const navigate = useNavigate()
  const pages = usePages()
  const latest = useRef({ ...actions, pages })
  useEffect(() => {
    latest.current = { ...actions, pages }
  })
  useEffect(() => {
    let afterG = 0
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        latest.current.openPalette()
        return
      }
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return
      if (event.key === '?') latest.current.openHelp()
      else if (event.key === '/') {
        event.preventDefault()
        const filter = document.querySelector<HTMLInputElement>('input[data-filter]')
        if (filter === null) latest.current.openPalette()
        else filter.focus()
      } else if (Date.now() - afterG < 1200) {
        const page = latest.current.pages.find((candidate) => candidate.letter === event.key)
        if (page !== undefined) void navigate({ to: page.path })
      }
      afterG = event.key === 'g' ? Date.now() : 0
    }
    document.addEventListener('keydown', press)
    return () => document.removeEventListener('keydown', press)
  }, [navigate])
}
