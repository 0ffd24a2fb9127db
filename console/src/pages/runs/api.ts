// The runs of agents: what the gateway tells of them, and what can be done with one.
import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { api, ask, body } from '@/api/client'
import { toCall, type Call } from '@/api/types'
import { useI18n } from '@/i18n'
import { useToast } from '@/ui/feedback'

/** What one must be allowed to raise or end runs. */
export const writes = 'run:write'

export const states = ['RUNNING', 'WAITING', 'STOPPED', 'ENDED', 'OVER'] as const
export type RunState = (typeof states)[number]

/** What a run may use, and what it used: money in the currency's unit, times in milliseconds. */
export const units = ['cost', 'tokens', 'requests', 'time', 'concurrency'] as const
export type Unit = (typeof units)[number]
export type Amounts = Partial<Record<Unit, number>>

export interface Run {
  id: string
  /** The id that the client sent. */
  name: string
  /** The header or member that named it. */
  sign: string
  key?: string
  tenant?: string
  user?: string
  state: RunState
  reason?: string
  code?: string
  started: string
  last: string
  model?: string
  underWay: number
  agents: number
  currency: string
  used: Amounts
  reserved: Amounts
  limits: Amounts
  raised: Amounts
  loop?: { rule: string; action: 'note' | 'slow' | 'stop'; turns?: number[]; at: string }
}

export interface RunDetail extends Run {
  calls: Call[]
}

/** Amounts as numbers; money comes as text, because it is exact. */
const amountsOf = (given: object | undefined): Amounts => Object.fromEntries(Object.entries(given ?? {}).map(([unit, value]) => [unit, Number(value)]))

const toRun = <R extends Run>(given: R): R => ({ ...given, used: amountsOf(given.used), reserved: amountsOf(given.reserved), limits: amountsOf(given.limits), raised: amountsOf(given.raised) })

export type Sort = 'cost' | 'last' | 'started' | 'tokens' | 'requests'

export interface Question {
  search?: string
  since?: string
  sort?: Sort
  size?: number
}

/** The address of a list of runs. */
export function runsPath(question: Question): string {
  const given = Object.entries(question).filter(([, value]) => value !== undefined && value !== '')
  return `/api/runs?${new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()}`
}

export const runs = (question: Question, interval: number | false = 2000) =>
  queryOptions({
    queryKey: ['runs', question],
    refetchInterval: interval,
    retry: false,
    queryFn: async ({ signal }) => {
      const found = await ask<{ content: Run[]; page: { totalElements: number } }>(runsPath(question), 'GET', undefined, signal)
      return { ...found, content: found.content.map(toRun) }
    },
  })

export const run = (id: string) =>
  queryOptions({
    queryKey: ['runs', 'one', id],
    refetchInterval: 2000,
    retry: false,
    queryFn: async ({ signal }): Promise<RunDetail> => {
      const found = await ask<RunDetail>(`/api/runs/${encodeURIComponent(id)}`, 'GET', undefined, signal)
      return { ...toRun(found), calls: (found.calls ?? []).map(toCall) }
    },
  })

/** Whether the gateway governs runs. */
export const runsAreOn = queryOptions({
  queryKey: ['runs', 'on'],
  staleTime: 60_000,
  retry: false,
  queryFn: async ({ signal }): Promise<boolean> => {
    const reply = await body(api.GET('/actuator/env/{name}', { params: { path: { name: 'runs.enabled' } }, signal })).catch(() => null)
    return String(reply?.property?.value) === 'true'
  },
})

/** Gives a run more, and lifts what stopped it. */
export function useRaise(of: Run) {
  const { t } = useI18n()
  const toast = useToast()
  const client = useQueryClient()
  return useMutation({
    // Money goes as text, because it is exact.
    mutationFn: ({ cost, ...by }: Amounts) => ask<Run>(`/api/runs/${encodeURIComponent(of.id)}/raise`, 'POST', { ...by, ...(cost === undefined ? {} : { cost: String(cost) }) }),
    onSuccess: async () => {
      toast(t('runs.raised', { name: of.name }))
      await client.invalidateQueries({ queryKey: ['runs'] })
    },
  })
}

/** Ends a run; now cuts its calls in progress too. */
export function useEnd(of: Run) {
  const { t } = useI18n()
  const toast = useToast()
  const client = useQueryClient()
  return useMutation({
    mutationFn: (now: boolean) => ask<Run>(`/api/runs/${encodeURIComponent(of.id)}/end${now ? '?now=true' : ''}`, 'POST'),
    onSuccess: async () => {
      toast(t('runs.ended', { name: of.name }))
      await client.invalidateQueries({ queryKey: ['runs'] })
    },
  })
}
