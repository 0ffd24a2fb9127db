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

/** What the status sentence says: is all well, and if not, what is not. */
export function assess(instances: readonly InstanceState[]): Assessment {
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
  const rank = (instance: InstanceState) => (instance.breaker === 'OPEN' ? 0 : instance.health === 'UNHEALTHY' ? 1 : 2)
  const trouble = instances
    .filter((instance) => instance.enabled && (instance.breaker !== 'CLOSED' || instance.health === 'UNHEALTHY'))
    .toSorted((a, b) => rank(a) - rank(b))
  return { services, down, models, trouble }
}
