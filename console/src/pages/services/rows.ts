import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { config } from '@/api/queries'
import { serviceTypes } from '@/api/types'
import { useLive } from '@/live/context'
import type { InstanceState } from '@/live/types'
import type { Row } from './row'

/** The configured instances with their living state, and the answer that they come from. */
export function useRows() {
  const query = useQuery({ ...config, refetchInterval: 5000 })
  const { snapshot } = useLive()
  const states = useMemo(() => new Map((snapshot?.instances ?? []).map((state) => [`${state.service} ${state.id}`, state])), [snapshot])
  const named = useMemo(() => new Set(serviceTypes.flatMap((service) => (query.data?.services[service]?.instances ?? []).map((instance) => `${service} ${instance.instanceId}`))), [query.data])
  const rows = useMemo(
    () =>
      serviceTypes.flatMap((service) =>
        (query.data?.services[service]?.instances ?? []).map((instance): Row => {
          const id = instance.instanceId ?? `${instance.name}@${instance.baseUrl}`
          const discovers = (instance.models ?? []).length > 0
          const found = discovers ? [...states.values()].filter((state) => state.service === service && state.url === instance.baseUrl && !named.has(`${service} ${state.id}`)) : []
          return { service, id, instance, state: states.get(`${service} ${id}`), found }
        }),
      ),
    [query.data, states, named],
  )
  return { query, rows, services: query.data?.services ?? {}, version: query.data?.version ?? 0 }
}

/** An instance as far as it decides whether its model is served. */
export interface Serving {
  service: string
  model: string
  id: string
  /** It is enabled, has weight and is not held open: it serves unless it is ill. */
  isOn: boolean
  /** It is on and known to be no worse than unchecked: its breaker is closed, and no check failed. */
  isWell: boolean
}

const isHeld = (state: InstanceState | undefined) => state !== undefined && state.forced && state.breaker === 'OPEN'
const isIll = (state: InstanceState | undefined) => state !== undefined && (state.breaker !== 'CLOSED' || state.health === 'UNHEALTHY')

function serving(service: string, model: string, id: string, isConfigured: boolean, state: InstanceState | undefined): Serving {
  const isOn = isConfigured && !isHeld(state)
  return { service, model, id, isOn, isWell: isOn && !isIll(state) }
}

export const servingStates = (states: readonly InstanceState[]): Serving[] =>
  states.map((state) => serving(state.service, state.model, state.id, state.enabled && state.weight > 0, state))

/** The same of the configuration, which knows a change before the gateway tells of it. */
export const servingRows = (rows: readonly Row[]): Serving[] =>
  rows.flatMap((row) => {
    const isOn = row.instance.enabled !== false && row.instance.weight !== 0
    if ((row.instance.models ?? []).length > 0) return row.found.map((one) => serving(row.service, one.model, one.id, isOn, one))
    return [serving(row.service, row.instance.name, row.id, isOn, row.state)]
  })

/** The instances that a row stands for, as modelsWithout takes them. */
export const idsOf = (row: Row): string[] => [row.id, ...row.found.map((one) => one.id)].map((id) => `${row.service} ${id}`)

/**
 * The models that lose their last instance that is well, or their last that is on, with the
 * given ones ("service id"). Whatever takes instances out asks where there are some.
 */
export function modelsWithout(all: readonly Serving[], out: Iterable<string>): string[] {
  const gone = new Set(out)
  const models = new Set<string>()
  for (const key of ['isWell', 'isOn'] as const) {
    const left = new Map<string, boolean>()
    for (const one of all) {
      if (!one[key]) continue
      const model = `${one.service} ${one.model}`
      left.set(model, left.get(model) === true || !gone.has(`${one.service} ${one.id}`))
    }
    for (const [model, isLeft] of left) if (!isLeft) models.add(model)
  }
  return [...models].map((model) => model.slice(model.indexOf(' ') + 1))
}

/** Each instance that modelsWithout would find a model for. */
export function lastOnes(all: readonly Serving[]): ReadonlySet<string> {
  const last = new Set<string>()
  for (const key of ['isWell', 'isOn'] as const) {
    const only = new Map<string, string | null>()
    for (const one of all) {
      if (!one[key]) continue
      const model = `${one.service} ${one.model}`
      only.set(model, only.has(model) ? null : `${one.service} ${one.id}`)
    }
    for (const id of only.values()) if (id !== null) last.add(id)
  }
  return last
}
