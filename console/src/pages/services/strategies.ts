import type { Key } from '@/i18n'

/** The names of the balancing strategies. */
export const strategyNames: Record<string, Key> = {
  round_robin: 'services.roundRobin',
  random: 'services.random',
  least_connections: 'services.leastConnections',
  ip_hash: 'services.ipHash',
}
