import { queryOptions, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useCallback, useEffect, useRef, useState, type ReactNode } from 'react'
import { api, ApiError, body } from '@/api/client'
import { budgets, explain } from '@/api/queries'
import type { ServiceType } from '@/api/types'
import { useI18n } from '@/i18n'
import { duration, splitId, text } from '@/lib/format'
import { money } from '@/lib/money'
import { useNow } from '@/live/context'
import { ErrorNote } from '@/ui/feedback'
import { Value } from '@/ui/parts'
import { isOfBudget } from '../calls/rows'
import { send, type Reply, type Sent } from './call'

/** One call whose answer comes whole. */
export function useCall<T>(read: (reply: Reply) => Promise<T>) {
  const [state, setState] = useState<{ busy: boolean; result: T | null; reply: Reply | null; error: unknown }>({ busy: false, result: null, reply: null, error: null })
  const abort = useRef<AbortController | null>(null)
  useEffect(() => () => abort.current?.abort(), [])
  const stop = useCallback(() => abort.current?.abort(), [])
  const run = async (sent: Sent) => {
    abort.current?.abort()
    const controller = new AbortController()
    abort.current = controller
    const began = performance.now()
    setState((old) => ({ ...old, busy: true, error: null }))
    try {
      const reply = await send(sent, controller.signal)
      const result = await read(reply)
      setState({ busy: false, result, reply: { ...reply, durationMs: performance.now() - began }, error: null })
    } catch (error) {
      setState({ busy: false, result: null, reply: null, error: controller.signal.aborted ? null : error })
    }
  }
  return { ...state, run, stop }
}

/** The address of the instance that answered, which opens it. */
export function AnsweredBy({ service, model, served, handle }: { service: ServiceType; model: string; served: string | undefined; handle: string }) {
  const { t } = useI18n()
  const { data } = useQuery({ ...explain(service, served ?? model), enabled: handle !== '' })
  if (handle === '') return null
  const id = data?.candidates.find((candidate) => candidate.handle === handle)?.instanceId
  return (
    <span>
      {t('pg.by')}{' '}
      {id === undefined ? (
        <code>{handle}</code>
      ) : (
        <Link to="/services" search={{ edit: `${service}/${id}` } as never}>
          <code>{splitId(id).host}</code>
        </Link>
      )}
    </span>
  )
}

/** The record of a call that has ended. */
export const callOf = (requestId: string) =>
  queryOptions({
    queryKey: ['call', 'ended', requestId],
    staleTime: Number.POSITIVE_INFINITY,
    // The record is written after the last byte.
    retry: 5,
    retryDelay: 300,
    queryFn: ({ signal }) => body(api.GET('/api/monitoring/calls/{requestId}', { params: { path: { requestId } }, signal })),
  })

/** What a call cost, when it has ended; nothing where models have no price. */
export function Cost({ requestId }: { requestId: string }) {
  const { t, locale } = useI18n()
  const { data: call } = useQuery({ ...callOf(requestId), enabled: requestId !== '' })
  const { data: uses } = useQuery({ ...budgets, staleTime: 60_000 })
  if (call?.cost === undefined || call.cost === 0 || uses === undefined) return null
  return (
    <span title={t('pg.costHint')}>
      <b>{money(call.cost, uses.currency, locale)}</b>
    </span>
  )
}

/** How long a call took, which instance answered, after which tries. */
export function Meta({ service, model, reply, children }: { service: ServiceType; model: string; reply: { durationMs: number; handle: string; served?: string | undefined; attempts: number; overheadMs: number | null; requestId: string }; children?: ReactNode }) {
  const { t } = useI18n()
  return (
    <div className="meta">
      <b>
        <Value reading={duration(reply.durationMs)} />
      </b>
      {children}
      <Cost requestId={reply.requestId} />
      {reply.served !== undefined && <span className="warn">{t('pg.byFallback', { model: reply.served })}</span>}
      <AnsweredBy {...{ service, model }} served={reply.served} handle={reply.handle} />
      {reply.overheadMs !== null && <span title={t('pg.gatewayHint')}>{t('pg.gateway', { time: text(duration(reply.overheadMs)) })}</span>}
      {reply.attempts > 1 && <span className="warn">{t('pg.tries', { n: reply.attempts })}</span>}
      {reply.requestId !== '' && (
        <Link to="/calls" search={{ call: reply.requestId } as never}>
          {t('pg.timeline')}
        </Link>
      )}
    </div>
  )
}

/** The failure of a call; a limit that was hit counts down. */
export function CallError({ error, retry }: { error: unknown; retry?: () => void }) {
  const { t } = useI18n()
  const now = useNow()
  const [since] = useState(Date.now)
  const limited = error instanceof ApiError && error.status === 429
  const wait = limited ? retrySeconds(error) : 0
  const left = Math.max(0, Math.ceil(wait - (now - since) / 1000))
  return (
    <ErrorNote error={error} title={t('pg.failed')} retry={limited && left > 0 ? undefined : retry}>
      {limited && left > 0 && <div>{t(isOfBudget(error.code) ? 'pg.outOfBudget' : 'pg.limited', { n: left })}</div>}
    </ErrorNote>
  )
}

function retrySeconds(error: ApiError): number {
  const details = (error.body as { error?: { details?: { retryAfterMs?: number } } } | null)?.error?.details
  return details?.retryAfterMs === undefined ? 1 : details.retryAfterMs / 1000
}

export function RunButton({ busy, disabled, label, onRun, onStop }: { busy: boolean; disabled?: boolean; label: string; onRun(): void; onStop(): void }) {
  const { t } = useI18n()
  return busy ? (
    <button type="button" className="btn pri" onClick={onStop}>
      <span className="inline-block h-[9px] w-[9px] border-[1.5px] border-current" aria-hidden="true" />
      {t('pg.stop')}
    </button>
  ) : (
    <button type="button" className="btn pri" disabled={disabled} onClick={onRun}>
      {label}
    </button>
  )
}
