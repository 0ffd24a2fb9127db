import { createContext, useContext, useEffect } from 'react'

/** Sets the one-line fact beside the page's title. */
export const FactContext = createContext<(fact: string) => void>(() => undefined)

export function usePageFact(fact: string): void {
  const set = useContext(FactContext)
  useEffect(() => {
    set(fact)
    return () => set('')
  }, [fact, set])
}
