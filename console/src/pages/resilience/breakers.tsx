import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Ellipsis } from 'lucide-react'
import { useMemo, useState } from 'react'
import { api, data } from '@/api/client'
import { serviceTypes, type Call } from '@/api/types'
import { useI18n } from '@/i18n'
import { ago, rate, shorten } from '@/lib/format'
import { oneOf } from '@/lib/url'
import { useLive, useNow, useStats } from '@/live/context'
import type { InstanceState } from '@/live/types'
import { useSearchState } from '@/shell/search'
import { useToast } from '@/ui/feedback'
import { Confirm } from '@/ui/overlay'
import { Menu, Segments } from '@/ui/parts'
import { BreakerPill, condition, secondsLeft } from '@/ui/status'

interface Cause {
  code: string
  text: string
  requestId: string
}

/** The last failed try at each instance, for its cause. */
function lastFailures(calls: readonly Call[]): Map<string, Cause> {
  const found = new Map<string, Cause>()
  for (const call of calls) {
    for (const attempt of call.tries ?? []) {
      const key = `${call.service} ${attempt.instance}`
      if (attempt.errorCode !== undefined && attempt.errorCode !== '' && !found.has(key)) found.set(key, { code: attempt.errorCode, text: attempt.cause ?? '', requestId: call.requestId })
    }
  }
  return found
}

/** The breaker of each instance, and the hand that may hold it. */
export function Breakers() {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const { snapshot, calls } = useLive()
  const stats = useStats('5m')
  const toast = useToast()
  const client = useQueryClient()
  const [holding, setHolding] = useState<InstanceState | null>(null)
  const causes = useMemo(() => lastFailures(calls), [calls])
  const instances = (snapshot?.instances ?? []).toSorted((a, b) => serviceTypes.indexOf(a.service) - serviceTypes.indexOf(b.service))
  const show = oneOf(search.show, ['all', 'exceptions'] as const)
  const count = (state: InstanceState['breaker']) => instances.filter((instance) => instance.breaker === state).length
  const special = (instance: InstanceState) => instance.breaker !== 'CLOSED' || instance.forced || instance.failures > 0 || condition(instance) === 'unreachable'
  const rows = show === 'all' ? instances : instances.filter(special)
  const force = useMutation({
    mutationFn: ({ instance, state }: { instance: InstanceState; state: 'OPEN' | 'CLOSED' | 'AUTO' }) =>
      data(api.POST('/api/config/instance/circuit-breaker/{serviceType}', { params: { path: { serviceType: instance.service } }, body: { instanceId: instance.id, state } }) as never),
    onSuccess: async (_, { instance, state }) => {
      await client.invalidateQueries({ queryKey: ['shares'] })
      toast(t(state === 'OPEN' ? 'res.held' : state === 'CLOSED' ? 'res.heldClosed' : 'res.isAuto', { id: instance.model }))
    },
    onError: (error) => toast(error.message),
  })
  return (
    <>
      <div className="h2 !mt-0">
        <h2>{t('res.breakers')}</h2>
        <span className="muted trunc grow">{t('res.breakersSum', { open: count('OPEN'), half: count('HALF_OPEN'), closed: count('CLOSED') })}</span>
        <Segments
          label={t('res.breakers')}
          value={show}
          options={[
            { value: 'all' as const, label: t('common.all') },
            { value: 'exceptions' as const, label: t('res.problemsOnly') },
          ]}
          onChange={(value) => setSearch({ show: value === 'all' ? undefined : value })}
        />
      </div>
      <div className="panel">
        <table className="tbl fx brk">
          <thead>
            <tr>
              <th>{t('common.instance')}</th>
              <th className="w-[160px]">{t('common.state')}</th>
              <th className="w-[130px]">{t('res.failuresInRow')}</th>
              <th className="w-[92px]">{t('res.nextTrial')}</th>
              <th className="w-[104px]">{t('res.lastFailure')}</th>
              <th className="lo w-[190px]">{t('res.lastCause')}</th>
              <th className="num w-[66px]">{t('common.reqs')}</th>
              <th className="w-[52px]">
                <span className="sr-only">{t('common.more')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((instance) => {
              const key = `${instance.service} ${instance.id}`
              return (
                <Row
                  key={key}
                  instance={instance}
                  cause={causes.get(key)}
                  requests={stats.instances.get(key)?.rate ?? null}
                  onOpen={() => setHolding(instance)}
                  onForce={(state) => force.mutate({ instance, state })}
                />
              )
            })}
            {rows.length === 0 && (
              <tr>
                <td colSpan={8} className="muted">
                  {t('overview.quiet')}
                </td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
      {holding !== null && (
        <Confirm title={t('res.holdTitle', { id: holding.model })} action={t('res.holdOpen')} onClose={() => setHolding(null)} onConfirm={() => force.mutateAsync({ instance: holding, state: 'OPEN' })}>
          {t('res.holdText', { rate: rate(stats.instances.get(`${holding.service} ${holding.id}`)?.rate ?? 0) })}
        </Confirm>
      )}
    </>
  )
}

function Row({ instance, cause, requests, onOpen, onForce }: {
  instance: InstanceState
  cause: Cause | undefined
  requests: number | null
  onOpen(): void
  onForce(state: 'CLOSED' | 'AUTO'): void
}) {
  const { t, locale } = useI18n()
  const now = useNow()
  const left = instance.breaker === 'OPEN' && !instance.forced ? secondsLeft(instance, now) : null
  const none = <span className="muted">–</span>
  return (
    <tr>
      <td className="cut b-name">
        <code className="font-medium" title={instance.id}>
          {shorten(instance.model, 28)}
        </code>{' '}
        <code className="muted">{instance.host}</code>
      </td>
      <td className="b-state">
        <BreakerPill instance={instance} now={now} />
      </td>
      <td className="b-pips">
        <Pips count={instance.failures} threshold={instance.failureThreshold} />
      </td>
      <td className="b-next">{left === null ? none : left === 0 ? t('res.due') : t('res.inSeconds', { n: left })}</td>
      <td className="b-last">{instance.lastFailure === null ? none : ago(instance.lastFailure, now, locale)}</td>
      <td className="lo cut">
        {cause === undefined ? (
          none
        ) : (
          <Link to="/calls" search={{ call: cause.requestId } as never} title={cause.text === '' ? cause.code : cause.text}>
            <code>{cause.text === '' ? cause.code : cause.text}</code>
          </Link>
        )}
      </td>
      <td className="num b-rate">{rate(requests)}</td>
      <td className="b-menu">
        <Menu
          trigger={
            <button type="button" className="btn ghost icon" aria-label={`${t('common.more')}: ${instance.id}`}>
              <Ellipsis className="ic" aria-hidden />
            </button>
          }
          items={[
            { label: t('res.holdOpen'), danger: true, onSelect: onOpen, disabled: instance.forced && instance.breaker === 'OPEN' },
            { label: t('res.holdClosed'), onSelect: () => onForce('CLOSED'), disabled: instance.forced && instance.breaker === 'CLOSED' },
            { label: t('res.auto'), onSelect: () => onForce('AUTO'), disabled: !instance.forced },
          ]}
        />
      </td>
    </tr>
  )
}

/** As many boxes as the threshold; with a large one, words. */
function Pips({ count, threshold }: { count: number; threshold: number }) {
  const { t } = useI18n()
  const words = t('res.ofThreshold', { n: Math.min(count, threshold), k: threshold })
  if (threshold > 10 || threshold === 0) return <span className={count > 0 ? '' : 'muted'}>{words}</span>
  return (
    <span className="row" title={words}>
      <span className="pips" aria-hidden="true">
        {Array.from({ length: threshold }, (_, index) => (
          <i key={index} className={index < count ? 'on' : ''} />
        ))}
      </span>
      <span className={`text-[11px] ${count > 0 ? '' : 'muted'}`}>{words}</span>
    </span>
  )
}
