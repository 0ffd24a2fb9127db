// What somebody who is new has tried already. It ticks itself, on every page.
import { useSyncExternalStore } from 'react'

export const steps = ['chat', 'break', 'test', 'call', 'roll'] as const
export type Step = (typeof steps)[number] | 'hidden'

const place = 'patchbay.steps'
const listeners = new Set<() => void>()
let done: ReadonlySet<Step> | null = null

function read(): ReadonlySet<Step> {
  if (done === null) {
    let text = ''
    try {
      text = localStorage.getItem(place) ?? ''
    } catch {
      // A browser that keeps nothing shows the list again after a reload.
    }
    done = new Set(text.split(',').filter((step): step is Step => step === 'hidden' || (steps as readonly string[]).includes(step)))
  }
  return done
}

export function markStep(step: Step): void {
  if (read().has(step)) return
  done = new Set([...read(), step])
  try {
    localStorage.setItem(place, [...done].join(','))
  } catch {
    // See above.
  }
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

export const useSteps = (): ReadonlySet<Step> => useSyncExternalStore(subscribe, read)
