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
  serves: boolean
}

const isHeld = (state: InstanceState | undefined) => state !== undefined && state.forced && state.breaker === 'OPEN'

export const servingStates = (states: readonly InstanceState[]): Serving[] =>
  states.map((state) => ({ service: state.service, model: state.model, id: state.id, serves: state.enabled && state.weight > 0 && !isHeld(state) }))

/** The same of the configuration, which knows a change before the gateway tells of it. */
export const servingRows = (rows: readonly Row[]): Serving[] =>
  rows.flatMap((row) => {
    const isOn = row.instance.enabled !== false && row.instance.weight !== 0
    if ((row.instance.models ?? []).length > 0) return row.found.map((one) => ({ service: row.service, model: one.model, id: one.id, serves: isOn && !isHeld(one) }))
    return [{ service: row.service, model: row.instance.name, id: row.id, serves: isOn && !isHeld(row.state) }]
  })

/** The instances that a row stands for, as modelsWithout takes them. */
export const idsOf = (row: Row): string[] => [row.id, ...row.found.map((one) => one.id)].map((id) => `${row.service} ${id}`)

/**
 * The models that something serves now, and that nothing would serve without the given
 * instances ("service id"). Whatever takes instances out asks where there are some.
 */
export function modelsWithout(all: readonly Serving[], out: Iterable<string>): string[] {
  const gone = new Set(out)
  const left = new Map<string, boolean>()
  for (const one of all) {
    if (!one.serves) continue
    const model = `${one.service} ${one.model}`
    left.set(model, left.get(model) === true || !gone.has(`${one.service} ${one.id}`))
  }
  return [...left].filter(([, isServed]) => !isServed).map(([model]) => model.slice(model.indexOf(' ') + 1))
}

/** Each instance that serves its model alone, as modelsWithout would find it. */
export function lastOnes(all: readonly Serving[]): ReadonlySet<string> {
  const only = new Map<string, string | null>()
  for (const one of all) {
    if (!one.serves) continue
    const model = `${one.service} ${one.model}`
    only.set(model, only.has(model) ? null : `${one.service} ${one.id}`)
  }
  return new Set([...only.values()].filter((id) => id !== null))
}
