export interface Weighed {
  id: string
  weight: number
  /** Whether requests may be sent to it at all. */
  able: boolean
}

/**
 * The part of a model's requests that each instance will get, for strategies
 * in which only the weights decide. Null for those that follow the load.
 */
export function shares(instances: readonly Weighed[], strategy: string): Map<string, number> | null {
  if (strategy === 'least_connections') return null
  const total = instances.reduce((sum, instance) => sum + (instance.able ? instance.weight : 0), 0)
  return new Map(instances.map((instance) => [instance.id, total > 0 && instance.able ? instance.weight / total : 0]))
}
