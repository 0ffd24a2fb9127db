import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Ellipsis } from 'lucide-react'
import { Fragment, useDeferredValue, useState } from 'react'
import { api, data } from '@/api/client'
import { serviceTypes } from '@/api/types'
import { useI18n } from '@/i18n'
import { ago, rate, since, stamp } from '@/lib/format'
import { oneOf } from '@/lib/url'
import { useLive, useNow, useStats } from '@/live/context'
import type { InstanceState } from '@/live/types'
import { useDenied } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { DocsLink } from '@/ui/docs'
import { useToast } from '@/ui/feedback'
import { TextField } from '@/ui/field'
import { Confirm } from '@/ui/overlay'
import { Menu, Name, Segments } from '@/ui/parts'
import { Gap, manyRows, useTableLines } from '@/ui/sight'
import { BreakerPill } from '@/ui/status'
import { LeftWithout } from '../services/last'
import { servingStates } from '../services/rows'
import { isExceptional, Why } from '../wrong/why'

/** The breaker of each instance, and the hand that may hold it. */
export function Breakers() {
  const { t, failure } = useI18n()
  const [search, setSearch] = useSearchState()
  const { snapshot } = useLive()
  const stats = useStats('5m')
  const now = useNow()
  const toast = useToast()
  const client = useQueryClient()
  const [holding, setHolding] = useState<{ instance: InstanceState; state: 'OPEN' | 'CLOSED' } | null>(null)
  const [reason, setReason] = useState('')
  const hold = (instance: InstanceState, state: 'OPEN' | 'CLOSED') => {
    setReason('')
    setHolding({ instance, state })
  }
  const instances = (snapshot?.instances ?? []).toSorted((a, b) => serviceTypes.indexOf(a.service) - serviceTypes.indexOf(b.service))
  const show = oneOf(search.show, ['all', 'exceptions'] as const)
  const count = (state: InstanceState['breaker']) => instances.filter((instance) => instance.enabled && instance.breaker === state).length
  const rows = show === 'all' ? instances : instances.filter(isExceptional)
  const isMany = rows.length > manyRows
  const lines = rows.map((instance) => ({ key: `${instance.service} ${instance.id}`, kind: 'row' as const, instance }))
  const { drawn, after, rowHeight, props } = useTableLines(lines, isMany)
  const force = useMutation({
    mutationFn: ({ instance, state, why = '' }: { instance: InstanceState; state: 'OPEN' | 'CLOSED' | 'AUTO'; why?: string }) =>
      data(api.POST('/api/config/instance/circuit-breaker/{serviceType}', { params: { path: { serviceType: instance.service } }, body: { instanceId: instance.id, state, ...(why === '' ? {} : { reason: why }) } }) as never),
    onSuccess: async (_, { instance, state }) => {
      await client.invalidateQueries({ queryKey: ['shares'] })
      toast(t(state === 'OPEN' ? 'res.held' : state === 'CLOSED' ? 'res.heldClosed' : 'res.isAuto', { id: instance.model }))
    },
    // The dialog shows why a breaker could not be held.
    onError: (error, { state }) => state === 'AUTO' && toast(failure(error)),
  })
  const sum = t('res.breakersSum', { open: count('OPEN'), half: count('HALF_OPEN'), closed: count('CLOSED') })
  return (
    <>
      <div className="h2 !mt-0">
        <h2>{t('res.breakers')}</h2>
        <span className="muted trunc grow" title={sum}>
          {sum}
        </span>
        <DocsLink className="onlydesk" page="failures" section="circuit-breaker">
          {t('guide.how')}
        </DocsLink>
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
        <table className={`tbl fx brk ${isMany ? 'many' : ''}`} {...props}>
          <thead>
            <tr>
              <th>{t('common.instance')}</th>
              <th className="w-[160px]">{t('common.state')}</th>
              <th className="b-since w-[92px]">{t('res.since')}</th>
              <th className="w-[140px]">{t('res.failuresInRow')}</th>
              <th className="w-[104px]">{t('res.lastFailure')}</th>
              <th className="num w-[66px]">{t('common.reqs')}</th>
              <th className="w-[52px]">
                <span className="sr-only">{t('common.more')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {drawn.map(({ key, instance, index, gap }) => (
              <Fragment key={key}>
                <Gap height={gap} columns={7} />
                <Row
                  {...{ instance, index, rowHeight, now }}
                  requests={stats.instances.get(key)?.rate ?? null}
                  onHold={(state) => hold(instance, state)}
                  onLetGo={() => force.mutate({ instance, state: 'AUTO' })}
                />
              </Fragment>
            ))}
            <Gap height={after} columns={7} />
            {rows.length === 0 && (
              <tr>
                <td colSpan={7} className="muted">
                  {t('overview.quiet')}
                </td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
      {holding !== null && (
        <Confirm
          title={t(holding.state === 'OPEN' ? 'res.holdTitle' : 'res.holdClosedTitle', { id: holding.instance.model })}
          action={t(holding.state === 'OPEN' ? 'res.holdOpen' : 'res.holdClosed')}
          onClose={() => setHolding(null)}
          onConfirm={() => force.mutateAsync({ ...holding, why: reason.trim() })}
        >
          <p className="mb-3">
            {holding.state === 'OPEN'
              ? t('res.holdText', { rate: rate(stats.instances.get(`${holding.instance.service} ${holding.instance.id}`)?.rate ?? 0) })
              : t('res.holdClosedText')}
          </p>
          {holding.state === 'OPEN' && <LeftWithout serving={servingStates(instances)} out={[`${holding.instance.service} ${holding.instance.id}`]} />}
          <TextField label={t('res.reason')} hint={t('res.reasonHint')} maxLength={200} value={reason} onChange={setReason} />
        </Confirm>
      )}
    </>
  )
}

interface RowProps {
  instance: InstanceState
  now: number
  requests: number | null
  onHold(state: 'OPEN' | 'CLOSED'): void
  onLetGo(): void
}

/**
 * Of many rows, each has its name at once and the rest when the page has time: rowHeight is its
 * height until then. What is wrong with an instance has a line of its own, in full; of many rows,
 * which are equally high, it is said by a tooltip.
 */
function Row({ index, rowHeight, ...props }: RowProps & { index: number; rowHeight: number | undefined }) {
  const isWhole = useDeferredValue(true, rowHeight === undefined)
  const { instance, now } = props
  const why = rowHeight === undefined && isExceptional(instance)
  return (
    <>
      <tr data-id={`${instance.service} ${instance.id}`} className={why ? 'has-why' : ''} aria-rowindex={index + 2} aria-busy={isWhole ? undefined : true} style={isWhole ? undefined : { height: rowHeight }}>
        <td className="cut b-name" colSpan={isWhole ? undefined : 7}>
          <Link className="plain hover:underline where" title={instance.id} to="/instance" search={{ service: instance.service, id: instance.id } as never}>
            <Name className="font-medium">{instance.model}</Name>
            <Name className="muted">{instance.host}</Name>
          </Link>
        </td>
        {isWhole && <Cells {...props} />}
      </tr>
      {why && (
        <tr className="why">
          <td colSpan={7}>
            <Why instance={instance} now={now} />
          </td>
        </tr>
      )}
    </>
  )
}

function Cells({ instance, now, requests, onHold, onLetGo }: RowProps) {
  const { t, locale, said } = useI18n()
  const none = <span className="muted">–</span>
  const { lastError } = instance
  const cause = lastError === null ? undefined : lastError.text === '' ? lastError.code : `${lastError.code}: ${said(lastError.said, lastError.text)}`
  const denied = useDenied('config:instance:write')
  const half = instance.breaker === 'HALF_OPEN'
  return (
    <>
      <td className="b-state" title={cause}>
        <BreakerPill instance={instance} now={now} />
      </td>
      <td className="b-since">{instance.stateSince === null ? none : <span title={stamp(instance.stateSince, true)}>{since(instance.stateSince, now, locale)}</span>}</td>
      <td className="b-pips">
        {half ? (
          <Pips good count={instance.successes} threshold={instance.successThreshold} />
        ) : (
          <Pips count={instance.failures} threshold={instance.failureThreshold} />
        )}
      </td>
      <td className="b-last">{instance.lastFailure === null ? none : <span title={cause}>{ago(instance.lastFailure, now, locale)}</span>}</td>
      <td className="num b-rate">{rate(requests)}</td>
      <td className="b-menu">
        <Menu
          trigger={
            <button type="button" className="btn ghost icon" aria-label={`${t('common.more')}: ${instance.id}`}>
              <Ellipsis className="ic" aria-hidden />
            </button>
          }
          items={[
            { label: t('res.holdOpen'), danger: true, title: denied, onSelect: () => onHold('OPEN'), disabled: denied !== undefined || (instance.forced && instance.breaker === 'OPEN') },
            { label: t('res.holdClosed'), title: denied, onSelect: () => onHold('CLOSED'), disabled: denied !== undefined || (instance.forced && instance.breaker === 'CLOSED') },
            { label: t('res.auto'), title: denied, onSelect: onLetGo, disabled: denied !== undefined || !instance.forced },
          ]}
        />
      </td>
    </>
  )
}

/** As many boxes as the threshold; with a large one, words. Good ones are trials that succeeded. */
function Pips({ count, threshold, good = false }: { count: number; threshold: number; good?: boolean }) {
  const { t } = useI18n()
  const words = t(good ? 'res.trials' : 'res.ofThreshold', { n: Math.min(count, threshold), k: threshold })
  if (threshold > 10 || threshold === 0) return <span className={count > 0 ? '' : 'muted'}>{words}</span>
  return (
    <span className="row" title={words}>
      <span className="pips" aria-hidden="true">
        {Array.from({ length: threshold }, (_, index) => (
          <i key={index} className={index < count ? (good ? 'good' : 'on') : ''} />
        ))}
      </span>
      <span className={`text-[11px] ${count > 0 ? '' : 'muted'}`}>{words}</span>
    </span>
  )
}
