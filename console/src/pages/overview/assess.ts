import { serviceTypes, type ServiceType } from '@/api/types'
import type { InstanceState } from '@/live/types'
import { canServe } from '@/ui/status'

export interface Assessment {
  services: ServiceType[]
  /** Services of which no instance can serve. */
  down: ServiceType[]
  /** Models that no instance can serve, in services that answer otherwise. */
  models: string[]
  /** Instances in trouble, the worst first. */
  trouble: InstanceState[]
}

/** Failures in a row up to so many milliseconds ago are news. */
const recent = 10_000

/** Whether calls fail at an instance now, though its breaker is still closed. */
const fails = (instance: InstanceState, now: number) => instance.breaker === 'CLOSED' && instance.failures >= 2 && instance.lastFailure !== null && now - instance.lastFailure < recent

/** What the status sentence says: is all well, and if not, what is not. */
export function assess(instances: readonly InstanceState[], now: number): Assessment {
  const services = serviceTypes.filter((type) => instances.some((instance) => instance.service === type))
  const down = services.filter((type) => !instances.some((instance) => instance.service === type && canServe(instance)))
  const byModel = new Map<string, InstanceState[]>()
  for (const instance of instances) {
    const key = `${instance.service} ${instance.model}`
    byModel.set(key, [...(byModel.get(key) ?? []), instance])
  }
  const models: string[] = []
  for (const list of byModel.values()) {
    const first = list[0]!
    // A model that was switched off by hand is not a fault.
    const wanted = list.filter((instance) => instance.enabled && instance.weight > 0)
    if (!down.includes(first.service) && wanted.length > 0 && !wanted.some(canServe)) models.push(first.model)
  }
  const rank = (instance: InstanceState) => (instance.breaker === 'OPEN' ? 0 : instance.health === 'UNHEALTHY' ? 1 : instance.breaker === 'HALF_OPEN' ? 2 : 3)
  const trouble = instances
    .filter((instance) => instance.enabled && (instance.breaker !== 'CLOSED' || instance.health === 'UNHEALTHY' || fails(instance, now)))
    .toSorted((a, b) => rank(a) - rank(b))
  return { services, down, models, trouble }
}
