import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { config } from '@/api/queries'
import { serviceTypes, type InstanceChanges, type Service } from '@/api/types'
import { useLive } from '@/live/context'
import type { Stats } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { includes } from './form'
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
  /** It is on, and requests are sent to it now, be they trials. */
  canServe: boolean
}

const isHeld = (state: InstanceState | undefined) => state !== undefined && state.forced && state.breaker === 'OPEN'
const isIll = (state: InstanceState | undefined) => state !== undefined && (state.breaker !== 'CLOSED' || state.health === 'UNHEALTHY')

function serving(service: string, model: string, id: string, isConfigured: boolean, state: InstanceState | undefined): Serving {
  const isOn = isConfigured && !isHeld(state)
  return { service, model, id, isOn, isWell: isOn && !isIll(state), canServe: isOn && state?.breaker !== 'OPEN' && state?.health !== 'UNHEALTHY' }
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
 * Those of them that a change takes out. What an instance has found stays as far as it is still
 * asked for; what it would find in place of its name is not known yet.
 */
export function takenOut(row: Row, change: InstanceChanges): string[] {
  if (change.weight === 0) return idsOf(row)
  const { name, models } = change
  if (row.found.length === 0) return name === undefined && models === undefined ? [] : idsOf(row)
  if (models === undefined) return []
  const isKept = (model: string) => (models === null || models.length === 0 ? model === name : includes(models, model))
  return row.found.filter((one) => !isKept(one.model)).map((one) => `${row.service} ${one.id}`)
}

/** How many requests a second rows take, with those for what they have found. */
export const rateOf = (rows: readonly Row[], { instances }: Pick<Stats, 'instances'>): number =>
  rows.flatMap(idsOf).reduce((sum, id) => sum + (instances.get(id)?.rate ?? 0), 0)

/** A model that loses its last instance. */
export interface Loss {
  model: string
  /** The name that takes over from it, where one can. */
  by?: string
  /** Nothing serves it now either. */
  fails: boolean
}

/** How services name the models that take over from others, by service. */
export type Takeovers = Readonly<Record<string, Pick<Service, 'aliases' | 'fallbacks' | 'fallbackOn'> | undefined>>

/**
 * The models that lose their last instance that is well, or their last that is on, with the
 * given ones ("service id"), and what answers for them. Whatever takes instances out asks where
 * there are some.
 */
export function modelsWithout(all: readonly Serving[], out: Iterable<string>, services: Takeovers): Loss[] {
  const gone = new Set(out)
  const lost = new Map<string, Serving>()
  for (const key of ['isWell', 'isOn'] as const) {
    const left = new Map<string, { one: Serving; isLeft: boolean }>()
    for (const one of all) {
      if (!one[key]) continue
      const model = `${one.service} ${one.model}`
      left.set(model, { one, isLeft: left.get(model)?.isLeft === true || !gone.has(`${one.service} ${one.id}`) })
    }
    for (const [model, { one, isLeft }] of left) if (!isLeft) lost.set(model, one)
  }
  const stays = all.filter((one) => one.canServe && !gone.has(`${one.service} ${one.id}`))
  return [...lost.values()].map(({ service, model }) => ({
    model,
    by: takeover(services[service], model, (other) => stays.some((one) => one.service === service && one.model === other)),
    fails: !all.some((one) => one.service === service && one.model === model && one.canServe),
  }))
}

/** The first name that takes over from a model that no instance serves; names may be aliases, also of aliases. */
export function takeover(service: Takeovers[string], model: string, isServed: (model: string) => boolean): string | undefined {
  if (service?.fallbackOn?.includes('unavailable') !== true) return undefined
  const modelOf = (name: string, steps = 0): string => {
    const next = service.aliases?.[name]
    return next === undefined || steps > 16 ? name : modelOf(next, steps + 1)
  }
  const names = Object.entries(service.fallbacks ?? {}).find(([name]) => modelOf(name) === model)?.[1]
  return names?.find((name) => isServed(modelOf(name)))
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
