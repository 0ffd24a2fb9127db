import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ChevronDown, ChevronUp } from 'lucide-react'
import { useEffect, useState, type ReactNode } from 'react'
import { api, body } from '@/api/client'
import type { Capture } from '@/api/queries'
import type { Call } from '@/api/types'
import { T, useI18n, type I18n, type Key } from '@/i18n'
import { digits, duration, overhead, percent, splitId, stamp, text } from '@/lib/format'
import { outcome } from '@/live/series'
import { useDenied } from '@/shell/guard'
import { useMe } from '@/shell/session'
import { markStep } from '@/shell/steps'
import { CallCost } from '@/ui/cost'
import { useToast } from '@/ui/feedback'
import { Drawer } from '@/ui/overlay'
import { CopyButton, Value } from '@/ui/parts'
import { replayInPlayground } from '../playground/replay'
import { strategyLabel } from '../services/strategies'
import { replayable, type CallContent } from './content'
import { CaptureBadge, Contents } from './contents'
import { requestLine } from './curl'
import { isOfBudget } from './rows'
import { Told } from './told'
import { fine, TimelineView } from './timeline-view'

/** How the call ended, in a few words. */
export function titleOf(call: Call, t: I18n['t']): string {
  const kind = outcome(call)
  if (call.clientGone) return t('calls.title.cancelled')
  if (kind === 'answered' && call.pieces !== undefined) return t('calls.title.split', { n: call.pieces })
  if (kind === 'answered' && call.resumed !== undefined) return t('calls.title.resumed')
  if (kind === 'answered' && call.hedge === 'won') return t('calls.title.hedged')
  if (kind === 'answered' && call.hedge === 'lost') return t('calls.title.ok')
  if (kind === 'answered') return call.attempts <= 1 ? t('calls.title.ok') : call.attempts === 2 ? t('calls.title.second') : t('calls.title.later', { n: call.attempts })
  if (kind === 'breaker') return t('calls.title.breaker')
  if (kind === 'limited' && call.httpStatus !== 429) return t('calls.title.refused')
  if (kind === 'limited') return t(isOfBudget(call.errorCode) ? 'calls.title.budget' : 'calls.title.limited')
  if (call.httpStatus === 200) return t('calls.title.cut')
  return call.attempts > 1 ? t('calls.title.failedTries', { n: call.attempts }) : t('calls.title.failed')
}

export function CallDrawer({ call, capture, onClose, onWalk }: { call: Call; capture: Capture | undefined; onClose(): void; onWalk(step: 1 | -1): void }) {
  const { t } = useI18n()
  const [json, setJson] = useState(false)
  const denied = useDenied('monitoring:content:manage')
  const secured = useMe()?.securityEnabled === true
  const content = useQuery({
    queryKey: ['content', call.requestId, capture],
    enabled: denied === undefined && capture !== undefined && capture !== 'none',
    retry: false,
    queryFn: async ({ signal }) => (await body(api.GET('/api/monitoring/calls/{requestId}/content', { params: { path: { requestId: call.requestId }, query: call.number === undefined ? {} : { number: call.number } }, signal }))) as unknown as CallContent,
  })
  // The playground writes requests of the unified API only.
  const again = call.service === 'chat' && call.door !== 'chat' ? null : replayable(content.data)
  const estimate = call.tries?.at(-1)?.estimate
  const toast = useToast()
  const line = () => requestLine(call, content.data, location.origin, secured)
  useEffect(() => markStep('call'), [])
  return (
    <Drawer
      label={titleOf(call, t)}
      title={titleOf(call, t)}
      sub={
        <div className="row">
          <code className="muted trunc text-[11px]">{call.requestId}</code>
          <CopyButton text={call.requestId} />
          {(content.data?.kept ?? 'none') !== 'none' && <CaptureBadge capture={capture} />}
        </div>
      }
      tools={
        <span className="row onlydesk">
          <button type="button" className="btn ghost icon" aria-label={t('calls.next')} title={`${t('calls.next')} (j)`} onClick={() => onWalk(1)}>
            <ChevronDown className="ic" aria-hidden />
          </button>
          <button type="button" className="btn ghost icon" aria-label={t('calls.previous')} title={`${t('calls.previous')} (k)`} onClick={() => onWalk(-1)}>
            <ChevronUp className="ic" aria-hidden />
          </button>
        </span>
      }
      onClose={onClose}
      footer={
        <>
          {call.model !== '' && (
            <Link
              className="btn"
              to="/playground"
              title={again === null ? undefined : t('calls.replayHint')}
              search={{ type: call.service, model: call.model } as never}
              onClick={() => again !== null && replayInPlayground({ requestId: call.requestId, service: call.service, request: again })}
            >
              {t(again === null ? 'calls.replay' : 'calls.replaySame')}
            </Link>
          )}
          <CopyButton text={() => line().text} label={t('calls.curl')} hint={t(line().isWhole ? 'calls.curlWhole' : 'calls.curlPart')} small={false} onCopied={() => toast(t(line().isWhole ? 'calls.curlWhole' : 'calls.curlPart'))} />
          <span className="grow" />
          <button type="button" className="btn ghost" aria-pressed={json} onClick={() => setJson(!json)}>
            {t('calls.json')}
          </button>
        </>
      }
    >
      {json ? (
        <pre className="code fold">{JSON.stringify(call, null, 2)}</pre>
      ) : (
        <>
          <div className="facts">
            <Fact label={t('calls.total')}>
              <Value reading={duration(call.durationMs)} />
            </Fact>
            <Fact label={t('common.firstToken')}>
              <Value reading={duration(call.timeToFirstTokenMs)} />
            </Fact>
            <Fact label={t('calls.gateway')}>
              <Value reading={overhead(call.timeline?.gatewayMs)} />
            </Fact>
            {(call.cost ?? 0) > 0 && (
              <Fact label={t('wrong.chart.spend')}>
                <CallCost call={call} />
              </Fact>
            )}
            <Fact label={t('calls.tokensShort')}>
              {call.usage === undefined ? (
                '–'
              ) : (
                <>
                  {call.usage.promptTokens}
                  <span className="u">{t('overview.in')}</span> {call.usage.completionTokens}
                  <span className="u">{t('overview.out')}</span>
                </>
              )}
            </Fact>
          </div>
          {call.errorMessage !== undefined && <Told call={call} />}
          <TimelineView call={call} />
          <div className="sub">{t('calls.why')}</div>
          <p className="soft mb-3">
            <Why call={call} />
          </p>
          <dl className="dl">
            <dt>{t('calls.arrived')}</dt>
            <dd>
              <code>{stamp(call.time, true)}</code>
            </dd>
            <dt>{t('common.service')}</dt>
            <dd>
              {call.service} · <code>{call.model === '' ? '–' : call.model}</code>
              {call.streamed && ` · ${t('calls.streamed')}`}
            </dd>
            {call.asked !== undefined && (
              <>
                <dt>{t('find.asked')}</dt>
                <dd>
                  <code>{call.asked}</code>
                </dd>
              </>
            )}
            {call.tenant !== undefined && (
              <>
                <dt>{t('find.tenant')}</dt>
                <dd>
                  <Link to="/tenant" search={{ id: call.tenant } as never}><code>{call.tenant}</code></Link>
                </dd>
              </>
            )}
            {call.timePerOutputTokenMs !== undefined && (
              <>
                <dt>{t('calls.perToken')}</dt>
                <dd>
                  {fine(call.timePerOutputTokenMs)} · {digits(1000 / call.timePerOutputTokenMs)} {t('pg.tokensPerSecond')}
                </dd>
              </>
            )}
            {estimate !== undefined && estimate !== null && (
              <>
                <dt>{t('calls.expected')}</dt>
                <dd>
                  {t('calls.expectedFirst', { ms: text(duration(estimate.expectedMs)) })}
                  {estimate.trueMs !== undefined && ` · ${t('calls.expectedTrue', { ms: text(duration(estimate.trueMs)) })}`}
                  {` · ${t('calls.matched', { share: percent(estimate.matched, 0) })}`}
                </dd>
              </>
            )}
            {call.pieces !== undefined && (
              <>
                <dt>{t('calls.pieces')}</dt>
                <dd>{t('calls.piecesOf', { n: call.pieces, calls: call.attempts })}</dd>
              </>
            )}
            {call.hedge !== undefined && (
              <>
                <dt>{t('calls.hedge')}</dt>
                <dd>{t(`calls.hedge.${call.hedge}`)}</dd>
              </>
            )}
            {call.resumed !== undefined && (
              <>
                <dt>{t('calls.resumed')}</dt>
                <dd>{(call.tries ?? []).flatMap((attempt) => (attempt.resumed === undefined ? [] : [`${t(attempt.resumed === 'aligned' ? 'calls.resumed.aligned' : 'calls.resumed.continued')} (${splitId(attempt.instance).host})`])).join(', ')}</dd>
              </>
            )}
            {call.cache !== undefined && (
              <>
                <dt>{t('calls.cache')}</dt>
                <dd>{t(`calls.cache.${call.cache}`)}</dd>
              </>
            )}
            <dt>{t('calls.status')}</dt>
            <dd>
              {call.httpStatus} {call.errorCode !== undefined && <code className="bad">{call.errorCode}</code>}
            </dd>
            {call.handle !== undefined && call.handle !== '' && (
              <>
                <dt>{t('common.instance')}</dt>
                <dd>
                  <Link to="/instance" search={{ service: call.service, id: call.instance } as never}><code>{splitId(call.instance).host}</code></Link> · <code>{call.handle}</code>
                </dd>
              </>
            )}
            {call.strategy !== undefined && call.strategy !== '' && (
              <>
                <dt>{t('res.strategy')}</dt>
                <dd>{strategyLabel(t, call.strategy)}</dd>
              </>
            )}
            {call.candidates !== undefined && call.candidates !== null && (
              <>
                <dt>{t('calls.candidates')}</dt>
                <dd>
                  {t('calls.ready', { ready: call.candidates.ready, total: call.candidates.total })}
                  {Object.entries(call.candidates.passedOver ?? {}).map(([reason, n]) => (
                    <div key={reason}>
                      {n} × {passedOver[reason] === undefined ? reason : t(passedOver[reason])}
                    </div>
                  ))}
                </dd>
              </>
            )}
            {call.clientIp !== undefined && call.clientIp !== '' && (
              <>
                <dt>{t('calls.clientIp')}</dt>
                <dd>
                  <code>{call.clientIp}</code>
                </dd>
              </>
            )}
            {call.keyId !== undefined && call.keyId !== '' && (
              <>
                <dt>{t('calls.keyId')}</dt>
                <dd>
                  <code>{call.keyId}</code>
                </dd>
              </>
            )}
            {call.user !== undefined && call.user !== '' && (
              <>
                <dt>{t('calls.user')}</dt>
                <dd>
                  <code>{call.user}</code>
                </dd>
              </>
            )}
            {call.run !== undefined && call.run !== '' && (
              <>
                <dt>{t('find.run')}</dt>
                <dd>
                  <Link to="/runs" search={{ id: call.run } as never}><code>{call.run}</code></Link>
                </dd>
              </>
            )}
            {(call.tries?.length ?? 0) > 0 && (
              <>
                <dt>{t('calls.connection')}</dt>
                <dd>{call.tries!.map((attempt) => t(attempt.reusedConnection ? 'calls.reused' : 'calls.fresh')).join(', ')}</dd>
              </>
            )}
            {call.traceId !== undefined && call.traceId !== '' && (
              <>
                <dt>{t('calls.trace')}</dt>
                <dd>
                  <code>{call.traceId}</code>
                </dd>
              </>
            )}
          </dl>
          {capture === 'none' && denied === undefined && <Contents content={{ requestId: call.requestId, kept: 'none' }} capture={capture} />}
          {content.data !== undefined && <Contents content={content.data} capture={capture} />}
        </>
      )}
    </Drawer>
  )
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div>
      <span className="l">{label}</span>
      <b className="reading">{children}</b>
    </div>
  )
}

function Why({ call }: { call: Call }) {
  const model = <code>{call.model}</code>
  const tries = call.tries ?? []
  const host = (id: string) => <code>{splitId(id).host}</code>
  if (isOfBudget(call.errorCode)) return <T k="calls.why.budget" v={{}} />
  if (call.httpStatus === 429) return <T k="calls.why.limited" v={{}} />
  if (call.errorCode === 'circuit_breaker_open') return <T k="calls.why.breaker" v={{ model }} />
  if (tries.length === 0) return <T k="calls.why.none" v={{}} />
  const first = tries[0]!
  if (call.pieces !== undefined) return <T k="calls.why.split" v={{ n: call.pieces, model }} />
  if (call.resumed !== undefined) return <T k="calls.why.resumed" v={{ host: host(first.instance), model }} />
  if (call.hedge === 'won' || call.hedge === 'lost') return <T k="calls.why.hedged" v={{ model, host: host(call.instance) }} />
  if (tries.length > 1) {
    const same = tries.every((attempt) => attempt.instance === first.instance)
    return <T k={same ? 'calls.why.retrySame' : 'calls.why.retry'} v={{ host: host(first.instance), code: <code>{first.errorCode ?? ''}</code>, model }} />
  }
  const n = call.candidates?.ready ?? 1
  return n > 1 ? <T k="calls.why.pick" v={{ host: host(first.instance), n, model }} /> : <T k="calls.why.only" v={{ model }} />
}

/** Why an instance could not be picked. */
const passedOver: Record<string, Key> = {
  disabled: 'calls.over.disabled',
  no_weight: 'calls.over.no_weight',
  faulty: 'calls.over.faulty',
  unhealthy: 'calls.over.unhealthy',
  breaker_open: 'calls.over.breaker_open',
  at_limit: 'calls.over.at_limit',
  no_slot: 'calls.over.no_slot',
  standby: 'calls.over.standby',
  context_window: 'calls.over.context_window',
}
