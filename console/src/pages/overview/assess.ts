import type { ProblemGroup, Sentence, Version } from '@/api/types'
import type { InstanceState } from '@/live/types'

/** The instances that a person took out, of models that nobody answers for. */
export function cutOff(instances: readonly InstanceState[], groups: readonly ProblemGroup[]): InstanceState[] {
  const down = groups.filter((group) => group.kind === 'down')
  return instances.filter((one) => (!one.enabled || one.weight <= 0) && down.some((group) => group.service === one.service && (group.models.length === 0 || group.models.includes(one.model))))
}

/** The version that took an instance out, where it is the latest that changed whether it is used. */
export function cutBy(versions: readonly Version[], instance: InstanceState): Version | undefined {
  const isIts = (change: Sentence) => (change.code === 'change.instance_disabled' || change.code === 'change.instance_enabled') && change.values?.service === instance.service && change.values.instance === instance.id
  const latest = versions.toSorted((a, b) => b.version - a.version).find((version) => (version.said ?? []).some(isIts))
  return latest?.said?.find(isIts)?.code === 'change.instance_disabled' ? latest : undefined
}
