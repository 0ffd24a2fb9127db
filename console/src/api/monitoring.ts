import { useQuery } from '@tanstack/react-query'

/** A reading of the monitoring API that is asked for again and again. */
export function useMonitoring<T>(key: string, read: (signal: AbortSignal) => Promise<unknown>, interval: number) {
  return useQuery({ queryKey: ['monitoring', key], refetchInterval: interval, queryFn: async ({ signal }) => (await read(signal)) as T })
}
