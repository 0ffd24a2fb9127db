import { memo, useEffect, useMemo, useRef, useState } from 'react'
import { useLive } from '@/live/context'
import type { Bay, Cable, CableKind } from './bay-layout'

const inset = 10
const maxBeads = 8
/** Above this many requests a second the width says enough. */
const beadsUpTo = 20

/** Cables hang: the sag grows with the distance of the two jacks. */
function path(y1: number, x2: number, y2: number): string {
  const x1 = inset
  const pull = (x2 - x1) * 0.42
  const sag = 9 + 0.035 * Math.abs(y2 - y1)
  return `M${x1} ${y1}C${x1 + pull} ${y1 + sag} ${x2 - pull} ${y2 + sag} ${x2} ${y2}`
}

const strokes: Record<CableKind, string> = { flow: 'c-ok', idle: 'c-id', half: 'c-wn', open: 'c-bd', unreachable: 'c-bd', none: '' }

/** The drawing between the rows; screen readers have the rows. */
export function Cables({ bay, width, bright }: { bay: Bay; width: number; bright: Set<string> | null }) {
  if (width === 0) return null
  const x2 = width - inset
  return (
    <svg width={width} height={bay.height} viewBox={`0 0 ${width} ${bay.height}`} aria-hidden="true">
      {bay.cables.map((cable) => (
        <CablePath key={cable.key} {...{ x2, cable }} dim={bright !== null && !(bright.has(cable.model) && bright.has(cable.jack))} />
      ))}
      <Beads bay={bay} x2={x2} />
      {bay.models.map((row) => (
        <Plug key={row.key} x={inset} y={row.y} kind={row.kind} source />
      ))}
      {bay.jacks.map((row) => (
        <Plug key={row.key} x={x2} y={row.y} kind={row.kind} />
      ))}
    </svg>
  )
}

const CablePath = memo(function CablePath({ cable, x2, dim }: { cable: Cable; x2: number; dim: boolean }) {
  const out = cable.kind === 'open' || cable.kind === 'unreachable'
  // The plug of a cable that carries nothing by force hangs short of its jack.
  const endX = out ? x2 - 34 : x2
  const endY = out ? cable.y2 + 8 : cable.y2
  const d = path(cable.y1, endX, endY)
  return (
    <g className={`cab ${dim ? 'dim' : ''}`}>
      {cable.kind !== 'idle' && <path className="case" d={d} strokeWidth={cable.width + 3} />}
      <path className={`cb ${strokes[cable.kind]}`} d={d} strokeWidth={cable.width} />
      {out && (
        <g transform={`translate(${endX} ${endY}) rotate(-14)`}>
          <rect className="plug" x="-2" y="-4" width="10" height="8" rx="1.5" />
          <path className="cb c-bd" d="M8 -2h4M8 2h4" strokeWidth="1.5" />
        </g>
      )}
    </g>
  )
})

/** A jack: filled when it carries, empty when it does not, crossed when dead. */
function Plug({ x, y, kind, source = false }: { x: number; y: number; kind: CableKind; source?: boolean }) {
  const tone = kind === 'flow' ? 's-ok' : kind === 'half' ? 's-wn' : kind === 'open' || kind === 'unreachable' ? 's-bd' : ''
  const filled = kind === 'flow' || (source && (kind === 'half' || kind === 'open' || kind === 'unreachable'))
  return (
    <g transform={`translate(${x} ${y})`}>
      <circle className={`jk ${tone}`} r="5" />
      {filled && <circle className="jd" r="2.2" fill={kind === 'flow' ? 'var(--accent)' : kind === 'half' ? 'var(--warn-fill)' : 'var(--bad-fill)'} />}
      {!source && kind === 'half' && <path d="M0 -2.6a2.6 2.6 0 0 1 0 5.2z" fill="var(--warn-fill)" />}
      {!source && kind === 'unreachable' && <path className="jx" d="M-2 -2l4 4M2 -2l-4 4" />}
      {kind === 'none' && <path className="jx s-id" d="M-2.4 0h4.8" />}
    </g>
  )
}

interface Bead {
  id: string
  cable: string
}

/** A call that has ended sends one bead along its cable. */
function Beads({ bay, x2 }: { bay: Bay; x2: number }) {
  const { calls, revision } = useLive()
  const [beads, setBeads] = useState<Bead[]>([])
  const lastSeen = useRef<string | undefined>(undefined)
  const byKey = useMemo(() => new Map(bay.cables.filter((cable) => cable.kind === 'flow').map((cable) => [cable.key, cable])), [bay])
  const jackOf = useMemo(() => {
    const keys = new Map<string, string>()
    for (const jack of bay.jacks) for (const instance of jack.instances) keys.set(`${instance.service} ${instance.id}`, jack.key)
    return keys
  }, [bay])

  useEffect(() => {
    const seen = lastSeen.current
    lastSeen.current = calls[0]?.requestId
    if (seen === undefined) return
    const fresh: Bead[] = []
    for (const call of calls) {
      if (call.requestId === seen || fresh.length > beadsUpTo) break
      const jack = jackOf.get(`${call.service} ${call.instance}`)
      if (jack !== undefined) fresh.push({ id: call.requestId, cable: `${call.service} ${call.model}\n${jack}` })
    }
    if (fresh.length === 0 || fresh.length > beadsUpTo) return
    setBeads((old) => [...old, ...fresh].slice(-maxBeads))
    // A batch is sent once, when it arrives; the layout may change meanwhile.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [revision])

  return beads.map((bead) => {
    const cable = byKey.get(bead.cable)
    if (cable === undefined) return null
    return (
      <circle
        key={bead.id}
        className="bead"
        r={Math.max(1.6, Math.min(2.4, cable.width / 3))}
        style={{ offsetPath: `path('${path(cable.y1, x2, cable.y2)}')` }}
        onAnimationEnd={() => setBeads((all) => all.filter((other) => other.id !== bead.id))}
      />
    )
  })
}
