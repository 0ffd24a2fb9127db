import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { api, data } from '@/api/client'
import type { Change } from '@/api/types'
import { useI18n } from '@/i18n'
import { useToast } from '@/ui/feedback'

export const cachedServices = ['chat', 'embedding', 'rerank'] as const
export const alertKinds = ['budget', 'breaker', 'model', 'run', 'loop', 'sign-in'] as const
export const alertFormats = ['slack', 'teams', 'json'] as const

export type AlertKind = (typeof alertKinds)[number]
export type AlertFormat = (typeof alertFormats)[number]

export interface Webhook {
  url: string
  format: AlertFormat
  kinds: AlertKind[]
}

/** The sections that management can change, as the gateway shows them. */
export interface Sections {
  'answer-cache': { services: string[]; keys: string[]; ttl: number; maxBytes: string; maxAnswer: string; shared: boolean; chargeHits: boolean; singleFlight: boolean }
  'calls-file': { enabled: boolean; days: number; maxBytes: string }
  alerts: { webhooks: Record<string, Webhook>; quiet: number; runCost: number | string }
}

export type SectionName = keyof Sections

const path = <N extends SectionName>(name: N) => `/api/config/${name}` as '/api/config/alerts'

export const section = <N extends SectionName>(name: N) =>
  queryOptions({
    queryKey: ['section', name],
    queryFn: async ({ signal }) => (await data(api.GET(path(name), { signal }))) as unknown as Sections[N],
  })

/** What is wrong now, and how alerts reached the webhooks. */
export const alertState = queryOptions({
  queryKey: ['alerts', 'state'],
  refetchInterval: 5000,
  queryFn: async ({ signal }) => data(api.GET('/api/alerts', { signal })),
})

/** Saves what is given of a section, as a version. */
export function useSection<N extends SectionName>(name: N) {
  const { t } = useI18n()
  const toast = useToast()
  const client = useQueryClient()
  return useMutation({
    mutationFn: async (change: object) => (await data(api.PUT(path(name), { body: change as never }))) as unknown as Change,
    onSuccess: async (change) => {
      await Promise.all([['section', name], ['alerts'], ['versions']].map((queryKey) => client.invalidateQueries({ queryKey })))
      toast(change.changed === false ? t('services.unchanged', { n: change.version ?? 0 }) : t('services.saved', { what: '', n: change.version ?? 0 }).trim())
    },
  })
}

/** A webhook as it is edited; was is the name that it has at the gateway. */
export interface Draft extends Webhook {
  name: string
  was: string
}

export const drafts = (webhooks: Record<string, Webhook>): Draft[] =>
  Object.entries(webhooks)
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([name, hook]) => ({ ...hook, kinds: hook.kinds ?? [], name, was: name }))

/** The body that saves webhooks. All kinds are none named: later ones then come too. */
export function webhooksOf(list: readonly Draft[]): Record<string, Webhook> {
  return Object.fromEntries(
    list.map(({ name, url, format, kinds }) => [name.trim(), { url: url.trim(), format, kinds: alertKinds.every((kind) => kinds.includes(kind)) ? [] : kinds }]),
  )
}

/** The first name that is free. */
export function freeName(list: readonly Draft[]): string {
  for (let n = 1; ; n++) {
    const name = n === 1 ? 'ops' : `ops-${n}`
    if (!list.some((other) => other.name === name)) return name
  }
}

/** A duration as people type it: 1h, 30m, 45s. */
export function typedDuration(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds % 3600 === 0 && seconds > 0) return `${seconds / 3600}h`
  return seconds % 60 === 0 && seconds > 0 ? `${seconds / 60}m` : `${seconds}s`
}
