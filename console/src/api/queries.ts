// The questions that the pages ask, each with the key under which the answer
// is kept.
import { queryOptions } from '@tanstack/react-query'
import { api, body, data, versioned } from './client'
import type { Batch, BatchLine, HeldSession, Key, Process, ProcessDetail, Provider, Resident, Service, ServiceType, Share, SpendBy, Token, Usage, Version } from './types'
import type { Health } from '@/lib/health'

export interface MonitoringConfig {
  enabled: boolean
  prefix: string
  collectionInterval: string
  enabledCategories: string[]
  customTags: Record<string, string>
  sampling: { enabled: boolean; rate: number }
  capture: Capture
}

export const captures = ['none', 'headers', 'content'] as const
export type Capture = (typeof captures)[number]

export type Config = Partial<Record<ServiceType, Service>>

/** All services and instances, with the version that they are. */
export const config = queryOptions({
  queryKey: ['config'],
  queryFn: async ({ signal }) => {
    const reply = await versioned(api.GET('/api/config/type', { signal }))
    return { version: reply.version, services: reply.data as Config }
  },
})

/** The providers whose addresses the gateway knows. */
export const providers = queryOptions({
  queryKey: ['providers'],
  staleTime: Infinity,
  queryFn: async ({ signal }) => (await data(api.GET('/api/config/providers', { signal }))) as Provider[],
})

/** The state of what the gateway depends on, by its name. */
export const health = queryOptions({
  queryKey: ['health'],
  refetchInterval: 10_000,
  queryFn: async ({ signal }) => (await body(api.GET('/actuator/health', { signal }))) as Health,
})

export const info = queryOptions({
  queryKey: ['info'],
  staleTime: 60_000,
  queryFn: async ({ signal }) => {
    const [about, started] = await Promise.all([
      body(api.GET('/actuator/info', { signal })),
      body(api.GET('/actuator/metrics/{name}', { params: { path: { name: 'process.start.time.seconds' } }, signal })).catch(() => null),
    ])
    const seconds = (started as { measurements?: { value?: number }[] } | null)?.measurements?.[0]?.value
    const { demo, ...raw } = about
    return {
      raw,
      demo: demo === true,
      version: raw.build.version || raw.app.version,
      startedAt: seconds === undefined ? null : seconds * 1000,
    }
  },
})

/** What is recorded of the traffic. */
export const monitoringConfig = queryOptions({
  queryKey: ['monitoring', 'config'],
  queryFn: async ({ signal }) => (await body(api.GET('/api/monitoring/config', { signal }))) as unknown as MonitoringConfig,
})

export const versions = queryOptions({
  queryKey: ['versions'],
  // Without a page the reply is a list, with details one of versions.
  queryFn: async ({ signal }) => (await data(api.GET('/api/config/version', { params: { query: { details: true } }, signal }))) as Version[],
})

/** The number that the next version gets; the gateway knows those that were deleted. */
export const nextVersion = (current: number) =>
  queryOptions({ queryKey: ['versions', 'next', current], queryFn: ({ signal }) => data(api.GET('/api/config/version/next', { signal })) })

/** What the gateway recorded of a call. */
export const callRecord = (requestId: string) =>
  queryOptions({ queryKey: ['call', 'record', requestId], retry: false, staleTime: Number.POSITIVE_INFINITY, queryFn: ({ signal }) => body(api.GET('/api/monitoring/calls/{requestId}', { params: { path: { requestId } }, signal })) })

export const versionConfig = (version: number) =>
  queryOptions({
    queryKey: ['version', version],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }) => {
      // The reply is YAML only where that is asked for.
      const reply = (await body(api.GET('/api/config/version/{version}', { params: { path: { version } }, signal }))) as { data: Version }
      return reply.data.config ?? {}
    },
  })

export const versionDiff = (from: number, to: number) =>
  queryOptions({
    queryKey: ['diff', from, to],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }) => {
      const reply = await data(api.GET('/api/config/version/diff', { params: { query: { from, to } }, signal }))
      return reply.changes
    },
  })

export const explain = (service: ServiceType, model: string) =>
  queryOptions({
    queryKey: ['explain', service, model],
    queryFn: ({ signal }) => data(api.GET('/api/route/explain', { params: { query: { service, model } }, signal })),
  })

/** What would happen to a request, which is not sent. */
export const explainRequest = (door: 'chat', request: object, key: string) =>
  data(api.POST('/api/route/explain', { params: { query: { door } }, headers: key === '' ? {} : { 'X-Api-Key': key }, body: request as Record<string, unknown> }))

/** The requests of each instance in the last five minutes, in steps of ten seconds, by "service instanceId". */
export const instanceTraffic = queryOptions({
  queryKey: ['series', 'instances'],
  refetchInterval: 5000,
  queryFn: async ({ signal }) => {
    const reply = await body(api.GET('/api/monitoring/series', { params: { query: { metric: 'requests', by: 'instance', range: '5m' } }, signal }))
    return new Map(
      reply.series.map((one) => {
        const values = one.requests?.answered ?? []
        const sums = Array.from({ length: Math.ceil(values.length / 10) }, (_, step) => {
          const part = values.slice(step * 10, step * 10 + 10).filter((value): value is number => value !== null)
          return part.length === 0 ? null : part.reduce((sum, value) => sum + value, 0)
        })
        return [`${one.service} ${one.instanceId}`, sums] as const
      }),
    )
  },
})

/** What is wrong with an object, or at all: the headline, and each cause, the worst first. The gateway weighs it. */
export const wrong = (object: Record<string, string> = {}) =>
  queryOptions({
    queryKey: ['problems', object],
    refetchInterval: 2000,
    queryFn: ({ signal }) => body(api.GET('/api/monitoring/problems', { params: { query: { ...object, limit: 1 } as never }, signal })),
  })

/** How fast services, models, instances or hosts are, and which instances are slow. */
export const figures = (question: Record<string, string>) =>
  queryOptions({
    queryKey: ['figures', question],
    refetchInterval: 5000,
    queryFn: ({ signal }) => body(api.GET('/api/monitoring/figures', { params: { query: question as never }, signal })),
  })

/** The requests that run now. */
export const running = (question: Record<string, string>) =>
  queryOptions({
    queryKey: ['running', question],
    refetchInterval: 2000,
    queryFn: ({ signal }) => body(api.GET('/api/monitoring/running', { params: { query: question as never }, signal })),
  })

/** How many requests run now. */
export const runningCount = queryOptions({
  queryKey: ['running', 'count'],
  refetchInterval: 2000,
  queryFn: async ({ signal }) => (await body(api.GET('/api/monitoring/running', { params: { query: { limit: 1 } }, signal }))).total,
})

/** How many calls match, and what they name. */
export const callSummary = (question: Record<string, string>) =>
  queryOptions({
    queryKey: ['calls', 'summary', question],
    refetchInterval: 5000,
    queryFn: ({ signal }) => body(api.GET('/api/monitoring/calls/summary', { params: { query: question as never }, signal })),
  })

/** The gateways that share something with this one. */
export const gateways = queryOptions({
  queryKey: ['cluster'],
  refetchInterval: 3000,
  queryFn: ({ signal }) => data(api.GET('/api/cluster', { signal })),
})

/** The limits, budgets and scopes of tenants. */
export const terms = queryOptions({
  queryKey: ['terms'],
  queryFn: async ({ signal }) => {
    const reply = await versioned(api.GET('/api/config/terms', { signal }))
    return { ...reply.data, version: reply.version }
  },
})

/** How well the engines are used that are balanced by the time to the first token. */
export const fleet = queryOptions({
  queryKey: ['fleet'],
  refetchInterval: 2000,
  queryFn: ({ signal }) => body(api.GET('/api/monitoring/fleet', { signal })),
})

/** The models that are loaded for requests and put to sleep. */
export const residency = queryOptions({
  queryKey: ['residency'],
  refetchInterval: 2000,
  queryFn: async ({ signal }): Promise<Resident[]> => (await data(api.GET('/api/models/residency', { signal }))) as Resident[],
})

/** The newest batches of all owners. */
export const batches = queryOptions({
  queryKey: ['batches'],
  refetchInterval: 2000,
  queryFn: async ({ signal }) => (await data(api.GET('/api/batches', { signal }))) as Batch[],
})

/** Whether the gateway takes batches, or has kept some. */
export const batchesAreOn = queryOptions({
  queryKey: ['batches', 'on'],
  staleTime: 60_000,
  retry: false,
  queryFn: async ({ signal }): Promise<boolean> => {
    const reply = await body(api.GET('/actuator/env/{name}', { params: { path: { name: 'batches.enabled' } }, signal })).catch(() => null)
    if (String(reply?.property?.value) === 'true') return true
    return ((await data(api.GET('/api/batches', { signal }))) as Batch[]).length > 0
  },
})

/** One batch with its models and files. */
export const batch = (id: string) =>
  queryOptions({ queryKey: ['batches', id], refetchInterval: 2000, retry: false, queryFn: ({ signal }) => data(api.GET('/api/batches/{id}', { params: { path: { id } }, signal })) })

/** How the lines of a batch ended, in pages. Those of a batch that is open are not all: they are asked for again. */
export const batchLines = (id: string, failed: boolean, page: number, open: boolean) =>
  queryOptions({
    queryKey: ['batches', id, 'lines', failed, page, open],
    refetchInterval: open ? 3000 : false,
    queryFn: async ({ signal }) => (await data(api.GET('/api/batches/{id}/lines', { params: { path: { id }, query: { failed, page, size: 50 } }, signal }))) as { content: BatchLine[]; page: { totalPages: number } },
  })

/** The model servers that the gateway runs. */
export const processes = queryOptions({
  queryKey: ['processes'],
  refetchInterval: 2000,
  queryFn: async ({ signal }): Promise<Process[]> => (await data(api.GET('/api/processes', { signal }))) as Process[],
})

/** One of them, with its last lines for administrators. */
export const process = (name: string) =>
  queryOptions({
    queryKey: ['processes', name],
    refetchInterval: 2000,
    queryFn: async ({ signal }): Promise<ProcessDetail> => (await data(api.GET('/api/processes/{name}', { params: { path: { name } }, signal }))) as ProcessDetail,
  })

/** The expected and the actual share of each instance in the last five minutes. */
export const shares = queryOptions({
  queryKey: ['shares'],
  refetchInterval: 3000,
  queryFn: async ({ signal }): Promise<Share[]> => (await body(api.GET('/api/monitoring/shares', { params: { query: { range: '5m' } }, signal }))).shares,
})

export const keys = queryOptions({
  queryKey: ['keys'],
  queryFn: async ({ signal }) => (await data(api.GET('/api/auth/keys', { signal }))) as Key[],
})

export const tokens = queryOptions({
  queryKey: ['tokens'],
  queryFn: async ({ signal }) => (await data(api.GET('/api/auth/tokens', { signal }))) as Token[],
})

export const sessions = queryOptions({
  queryKey: ['sessions'],
  queryFn: async ({ signal }) => (await data(api.GET('/api/auth/sessions', { signal }))) as HeldSession[],
})

export const roles = queryOptions({
  queryKey: ['roles'],
  staleTime: Number.POSITIVE_INFINITY,
  queryFn: ({ signal }) => data(api.GET('/api/auth/roles', { signal })),
})

export const quotaConfig = queryOptions({
  queryKey: ['quota', 'config'],
  queryFn: ({ signal }) => data(api.GET('/api/config/quota', { signal })),
})

export const budgets = queryOptions({
  queryKey: ['quota', 'budgets'],
  queryFn: ({ signal }) => body(api.GET('/api/monitoring/budgets', { signal })),
})

export const quotaStatus = queryOptions({
  queryKey: ['quota', 'status'],
  queryFn: ({ signal }) => data(api.GET('/api/monitoring/quota/status', { signal })),
})

/** How far back usage is asked for: a chart of 60 windows at most. */
const usageSpan: Record<Usage['window'], number> = { MINUTE: 3_600_000, HOUR: 48 * 3_600_000, DAY: 35 * 86_400_000, MONTH: 400 * 86_400_000 }

export interface SpendQuestion {
  by: SpendBy
  /** Milliseconds; whole days in UTC. */
  from: number
  to: number
  only: { by: SpendBy; name: string } | null
  limit: number
}

const spendFilters = { tenant: 'tenantId', key: 'apiKeyId', user: 'userId', model: 'model', service: 'serviceType' } as const

const spendParameters = ({ by, from, to, only, limit }: SpendQuestion) => ({
  by, from: new Date(from).toISOString().slice(0, 19) + 'Z', to: new Date(to).toISOString().slice(0, 19) + 'Z', limit, ...(only === null ? {} : { [spendFilters[only.by]]: only.name }),
})

export const spendPath = (question: SpendQuestion): string => `/api/monitoring/spend?${new URLSearchParams(Object.entries(spendParameters(question)).map(([name, value]) => [name, String(value)])).toString()}`

/** What was spent in a period. */
export const spendOf = (question: SpendQuestion) =>
  queryOptions({
    queryKey: ['spend', spendParameters(question)],
    queryFn: ({ signal }) => data(api.GET('/api/monitoring/spend', { params: { query: spendParameters(question) }, signal })),
  })

/** What was spent this month by key or tenant, in millionths; empty where nothing is counted. */
export const spentThisMonth = (by: 'key' | 'tenant') =>
  queryOptions({
    queryKey: ['spend', 'month', by],
    staleTime: 10_000,
    queryFn: async ({ signal }) => {
      const reply = await data(api.GET('/api/monitoring/spend', { params: { query: { by, limit: 1000 } }, signal }))
      return { isCounted: reply.enabled, requests: new Map(reply.groups.map((group) => [group.name, group.requestCount])), shown: reply.enabled && reply.priced, currency: reply.currency, costs: new Map(reply.groups.map((group) => [group.name, group.cost])), unpriced: new Set(reply.groups.filter((group) => group.cost === 0 && group.unpriced > 0).map((group) => group.name)) }
    },
  })

export const quotaUsage = (window: Usage['window']) =>
  queryOptions({
    queryKey: ['quota', 'usage', window],
    queryFn: async ({ signal }) =>
      (await data(api.GET('/api/monitoring/quota/usage', { params: { query: { window, from: new Date(Date.now() - usageSpan[window]).toISOString() } }, signal }))) as Usage[],
  })

/** Whether callers must show a key; null where the gateway does not tell. */
export const security = queryOptions({
  queryKey: ['security'],
  staleTime: 60_000,
  queryFn: async ({ signal }): Promise<boolean | null> => {
    const reply = await body(api.GET('/actuator/env/{name}', { params: { path: { name: 'security.enabled' } }, signal })).catch(() => null)
    const value: unknown = reply?.property?.value
    return value === undefined ? null : String(value) === 'true'
  },
})
