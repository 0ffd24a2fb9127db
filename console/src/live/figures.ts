// How fast something is, as the gateway tells it and a page shows it. Nothing here draws.
import type { Figure } from '@/api/types'
import { digits, duration, missing, text } from '@/lib/format'

type Quantiles = NonNullable<Figure['latency']>

export const timed = ['latency', 'ttft', 'perToken', 'tokensPerSecond'] as const
export type Timed = (typeof timed)[number]

/** A figure of so few requests says little, and the number of them is beside it. */
export const few = 20

export interface Shown {
  p50: string
  p95: string
  p99: string
  /** How many requests were measured. */
  n: number
}

/** The three quantiles of a figure as texts, null where nothing was measured. */
export function shown(figure: Figure, name: Timed): Shown | null {
  const of: Quantiles | null | undefined = figure[name]
  if (of === undefined || of === null) return null
  const say = (value: number) => (name === 'tokensPerSecond' ? digits(value) : text(duration(value)))
  return { p50: say(of.p50), p95: say(of.p95), p99: say(of.p99), n: of.count }
}

/** A share of 0 to 1 without decimals. */
export const share = (value: number | null | undefined) => (value === null || value === undefined ? missing : `${Math.round(value * 100)} %`)

/** The p95 of each service of a host: they have no figure in common. */
export function byHost(list: readonly Figure[]): Map<string, { service: Figure['service']; p95: string }[]> {
  const hosts = new Map<string, { service: Figure['service']; p95: string }[]>()
  for (const figure of list) {
    const p95 = shown(figure, 'latency')?.p95
    if (p95 !== undefined) hosts.set(figure.host ?? '', [...(hosts.get(figure.host ?? '') ?? []), { service: figure.service, p95 }])
  }
  return hosts
}
