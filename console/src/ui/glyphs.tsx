import type { ReactNode } from 'react'

/** Two jacks and a hanging cable. */
export function Mark() {
  return (
    <svg viewBox="0 0 24 20" width="24" height="20" fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" aria-hidden="true">
      <circle cx="5" cy="5" r="3.2" />
      <circle cx="19" cy="5" r="3.2" />
      <path d="M5 8.6C5 20 19 20 19 8.6" />
    </svg>
  )
}

export type Health = 'healthy' | 'unhealthy' | 'unknown' | 'disabled' | 'idle'

const jack: Record<Health, ReactNode> = {
  healthy: <circle cx="6" cy="6" r="2" fill="currentColor" stroke="none" />,
  unhealthy: <path d="M4.4 4.4l3.2 3.2M7.6 4.4 4.4 7.6" />,
  unknown: null,
  idle: null,
  disabled: <path d="M3.8 6h4.4" />,
}

/** Health is a jack: a dot, a cross, a bar or a dotted ring. */
export function HealthGlyph({ state }: { state: Health }) {
  return (
    <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round">
      <circle cx="6" cy="6" r="4.4" strokeDasharray={state === 'unknown' || state === 'idle' ? '1.4 2.2' : undefined} />
      {jack[state]}
    </svg>
  )
}

/** A breaker is the switch of a circuit diagram: flat is closed, up is open. */
export function BreakerGlyph({ state }: { state: 'CLOSED' | 'OPEN' | 'HALF_OPEN' }) {
  return (
    <svg viewBox="0 0 20 12" width="20" height="12" aria-hidden="true" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round">
      <path d="M1 8h2.2M16.8 8H19" />
      {state === 'CLOSED' && <path d="M5 8h10" />}
      {state === 'OPEN' && <path d="M5 8 13.2 2.6" />}
      {state === 'HALF_OPEN' && (
        <>
          <path d="M5 8 14 5.1" />
          <path d="M15 2.2a8 8 0 0 1 1 3.2" strokeDasharray="1 2" />
        </>
      )}
      <circle cx="4.4" cy="8" r="1.5" fill="currentColor" stroke="none" />
      <circle cx="15.6" cy="8" r="1.5" fill="currentColor" stroke="none" />
    </svg>
  )
}
