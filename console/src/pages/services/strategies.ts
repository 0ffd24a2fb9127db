import type { BalanceStrategy } from '@/api/types'
import type { I18n, Key } from '@/i18n'

/** The names of the balancing strategies. */
export const strategyNames: Record<BalanceStrategy, Key> = {
  round_robin: 'services.roundRobin',
  random: 'services.random',
  least_connections: 'services.leastConnections',
  ip_hash: 'services.ipHash',
  least_time: 'services.leastTime',
}

/** The name of a strategy; one that this console does not know is called as the gateway calls it. */
export function strategyLabel(t: I18n['t'], name: string): string {
  return name in strategyNames ? t(strategyNames[name as BalanceStrategy]) : name
}
