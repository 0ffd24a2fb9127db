import { serviceTypes, type ProblemGroup, type Sentence, type ServiceType, type Version } from '@/api/types'
import type { InstanceState } from '@/live/types'
import { canServe } from '@/ui/status'
import { takeover, type Takeovers } from '../services/rows'

export interface Assessment {
  services: ServiceType[]
  /** Services of which no instance can serve. */
  down: ServiceType[]
  /** Models that nobody answers for, in services that answer otherwise. */
  models: string[]
  /** Models of which no instance can serve, and the ones that answer for them. */
  fallbacks: { model: string; by: string }[]
  /** Instances that a person took out, of models that nobody answers for. */
  cutOff: InstanceState[]
  /** Instances in trouble, the worst first. */
  trouble: InstanceState[]
}

/** Failures in a row up to so many milliseconds ago are news. */
const recent = 10_000

/** Whether calls fail at an instance now, though its breaker is still closed. */
const fails = (instance: InstanceState, now: number) => instance.breaker === 'CLOSED' && instance.failures >= 2 && instance.lastFailure !== null && now - instance.lastFailure < recent

/** What the status sentence says: is all well, and if not, what is not. */
export function assess(instances: readonly InstanceState[], now: number, groups: readonly ProblemGroup[] = [], configured: Takeovers = {}): Assessment {
  const services = serviceTypes.filter((type) => instances.some((instance) => instance.service === type))
  const down = services.filter((type) => !instances.some((instance) => instance.service === type && canServe(instance)))
  const byModel = new Map<string, InstanceState[]>()
  for (const instance of instances) {
    const key = `${instance.service} ${instance.model}`
    byModel.set(key, [...(byModel.get(key) ?? []), instance])
  }
  const models: string[] = []
  const fallbacks: Assessment['fallbacks'] = []
  const cutOff: InstanceState[] = []
  for (const list of byModel.values()) {
    const first = list[0]!
    // A model that was switched off by hand is not a fault.
    const wanted = list.filter((instance) => instance.enabled && instance.weight > 0)
    if (wanted.some(canServe)) continue
    const isServed = (model: string) => byModel.get(`${first.service} ${model}`)?.some(canServe) === true
    if (wanted.length === 0) {
      const by = takeover(configured[first.service], first.model, isServed)
      if (by !== undefined) fallbacks.push({ model: first.model, by })
      continue
    }
    const answered = groups.filter((group) => group.service === first.service).flatMap((group) => group.fallbacks ?? []).find(({ model, by }) => model === first.model && isServed(by))
    if (answered !== undefined) fallbacks.push(answered)
    else {
      cutOff.push(...list.filter((instance) => !wanted.includes(instance)))
      if (!down.includes(first.service)) models.push(first.model)
    }
  }
  const rank = (instance: InstanceState) => (instance.breaker === 'OPEN' ? 0 : instance.health === 'UNHEALTHY' ? 1 : instance.breaker === 'HALF_OPEN' ? 2 : 3)
  const trouble = instances
    .filter((instance) => instance.enabled && (instance.breaker !== 'CLOSED' || instance.health === 'UNHEALTHY' || fails(instance, now)))
    .toSorted((a, b) => rank(a) - rank(b))
  return { services, down, models, fallbacks, cutOff, trouble }
}

/** The version that took an instance out, where it is the latest that changed whether it is used. */
export function cutBy(versions: readonly Version[], instance: InstanceState): Version | undefined {
  const isIts = (change: Sentence) => (change.code === 'change.instance_disabled' || change.code === 'change.instance_enabled') && change.values?.service === instance.service && change.values.instance === instance.id
  const latest = versions.toSorted((a, b) => b.version - a.version).find((version) => (version.said ?? []).some(isIts))
  return latest?.said?.find(isIts)?.code === 'change.instance_disabled' ? latest : undefined
}
