import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Square } from 'lucide-react'
import { useState, type ReactNode } from 'react'
import { api, body } from '@/api/client'
import { running, troubles, versions } from '@/api/queries'
import type { ProblemGroup, RunningCall, Sentence } from '@/api/types'
import { toCall, type Call, type CallList } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { clock, duration, shorten, since, splitId, stamp, text } from '@/lib/format'
import { useNow } from '@/live/context'
import { outcome } from '@/live/series'
import { useDenied } from '@/shell/guard'
import { CallCost } from '@/ui/cost'
import { ErrorNote, useToast } from '@/ui/feedback'
import { TextField } from '@/ui/field'
import { Confirm } from '@/ui/overlay'
import { isServedByOther } from '../calls/rows'
import { callsOf, GroupModels, GroupSentence } from './sentence'

/** A link that changes the address of this page, which opens a drawer. */
export function Here({ search, children }: { search: Record<string, string>; children: ReactNode }) {
  return (
    <Link to="." resetScroll={false} search={((old: object) => ({ ...old, edit: undefined, add: undefined, policy: undefined, terms: undefined, ...search })) as never}>
      {children}
    </Link>
  )
}

export function Section({ title, more, children }: { title: string; more?: ReactNode; children: ReactNode }) {
  return (
    <section>
      <div className="h2">
        <h2>{title}</h2>
        {more !== undefined && <span className="soft ml-auto text-[12px]">{more}</span>}
      </div>
      {children}
    </section>
  )
}

/** What calls of an object failed with, in whose words, the most frequent first. */
export interface Failure {
  message: string
  said: Sentence[] | undefined
  code: string
  status: number
  /** The host whose words they are; empty where the gateway said so. */
  host: string
  count: number
  /** The latest. */
  requestId: string
  time: string
}

/** Failed calls by what was said; those that a limit or a budget refused have their own sentences. */
export function failuresOf(calls: readonly Call[]): Failure[] {
  const found = new Map<string, Failure>()
  for (const call of calls) {
    if (call.errorCode === undefined || call.refusedBy !== undefined) continue
    const host = call.attempts > 0 ? splitId(call.instance).host : ''
    const message = call.errorMessage ?? ''
    const key = `${call.httpStatus} ${call.errorCode} ${host} ${message}`
    const known = found.get(key)
    if (known === undefined) found.set(key, { message, said: call.said, code: call.errorCode, status: call.httpStatus, host, count: 1, requestId: call.requestId, time: call.time })
    else known.count++
  }
  return [...found.values()].toSorted((a, b) => b.count - a.count)
}

/** The problems of an object, with the words of the backend; with a question, also what its calls failed with. */
export function Errors({ of, last, question }: { of(group: ProblemGroup): boolean; last?: { code: string; text: string; said?: Sentence[] } | null; question?: Record<string, string> }) {
  const { t, locale, said } = useI18n()
  const now = useNow()
  const groups = (useQuery(troubles).data ?? []).filter(of)
  const failed = useQuery({
    queryKey: ['failures of', question],
    enabled: question !== undefined,
    refetchInterval: 5000,
    queryFn: async ({ signal }) => ((await body(api.GET('/api/monitoring/calls', { params: { query: { ...question, outcome: 'failed', brief: true, limit: 100 } as never }, signal }))) as CallList).calls.map(toCall),
  })
  const failures = failuresOf(failed.data ?? []).slice(0, 10)
  const none = groups.length === 0 && failures.length === 0
  return (
    <Section title={t('wrong.errors')}>
      <div className="panel">
        {none && (last === undefined || last === null) && <div className="muted px-3 py-3">{t('wrong.noErrors')}</div>}
        {none && last !== undefined && last !== null && (
          <div className="pr">
            <span className="muted">{t('wrong.lastError')}</span>
            <span className="min-w-0 break-words">{last.text === '' ? last.code : said(last.said, last.text)} <code className="muted">{last.code}</code></span>
          </div>
        )}
        {groups.map((group) => (
          <div key={`${group.kind} ${group.subject} ${group.code}`} className="pr">
            <span className="muted">{since(Date.parse(group.last), now, locale)}</span>
            <span className="min-w-0">
              <GroupSentence group={group} now={now} />
              <GroupModels group={group} />
              {group.text !== undefined && <span className="muted block break-words">{said(group.said, group.text)}</span>}
              <code className="bad">
                {group.httpStatus} {group.code}
              </code>
            </span>
            <Link to="/calls" search={{ ...callsOf(group), call: group.requestId } as never}>×{group.lost + group.rescued}</Link>
          </div>
        ))}
        {failures.map((one) => (
          <div key={`${one.code} ${one.host} ${one.message}`} className="pr">
            <span className="muted">{since(Date.parse(one.time), now, locale)}</span>
            <span className="min-w-0">
              <span className="block">{one.host === '' ? t('wrong.gatewaySaid') : <T k="wrong.hostSaid" v={{ host: <b className="nowrap">{one.host}</b> }} />}</span>
              <span className="muted block break-words">{said(one.said, one.message)}</span>
              <code className="bad">
                {one.status} {one.code}
              </code>
            </span>
            <Link to="/calls" search={{ ...question, call: one.requestId, errorCode: one.code } as never}>×{one.count}</Link>
          </div>
        ))}
      </div>
    </Section>
  )
}

/** The latest calls of an object; with of, those of them that are meant, and nothing where there are none. */
export function LatestCalls({ question, title, of }: { question: Record<string, string>; title?: string; of?(call: Call): boolean }) {
  const { t, said } = useI18n()
  const query = useQuery({
    queryKey: ['calls of', question],
    refetchInterval: 3000,
    queryFn: async ({ signal }) => ((await body(api.GET('/api/monitoring/calls', { params: { query: { ...question, brief: true, limit: 12 } as never }, signal }))) as CallList).calls.map(toCall),
  })
  const list = (query.data ?? []).filter((call) => of === undefined || of(call))
  if (of !== undefined && list.length === 0) return null
  return (
    <Section title={title ?? t('wrong.calls')} more={<Link to="/calls" search={question as never}>{t('wrong.allCalls')}</Link>}>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} />}
      <div className="panel">
        {query.data !== undefined && list.length === 0 && <div className="muted px-3 py-3">{t('wrong.noCalls')}</div>}
        {list.map((call) => (
          <Link key={call.requestId} className="pr plain" to="/calls" search={{ ...question, call: call.requestId } as never}>
            <code className="muted">{clock(Date.parse(call.time), false)}</code>
            <span className="min-w-0 trunc" title={call.errorMessage === undefined ? call.instance : said(call.said, call.errorMessage)}>
              <code className={outcome(call) === 'answered' ? '' : 'bad'}>{call.httpStatus}</code> {isServedByOther(call) && <span className="muted">{`${shorten(call.asked!, 28)} → `}</span>}
              {shorten(call.model === '' ? (call.asked ?? '–') : call.model, 28)}{' '}
              <span className="muted">{call.errorMessage !== undefined ? said(call.said, call.errorMessage) : (call.errorCode ?? splitId(call.instance).host)}</span>
            </span>
            <span className="muted nowrap">
              <CallCost call={call} after=" · " />
              {text(duration(call.durationMs))}
            </span>
          </Link>
        ))}
      </div>
    </Section>
  )
}

/** The requests of an object that run now; an operator can stop one. */
export function Running({ question, title }: { question: Record<string, string>; title?: string }) {
  const { t } = useI18n()
  const client = useQueryClient()
  const toast = useToast()
  const denied = useDenied('monitoring:request:write')
  const [asked, setAsked] = useState<RunningCall | null>(null)
  const [reason, setReason] = useState('')
  const { data } = useQuery(running(question))
  const stop = async (call: RunningCall) => {
    await body(api.POST('/api/monitoring/running/{requestId}/stop', { params: { path: { requestId: call.requestId } }, body: { reason } }))
    setAsked(null)
    toast(t('wrong.stopped'))
    await client.invalidateQueries({ queryKey: ['running'] })
  }
  const list = data?.running ?? []
  return (
    <Section title={title ?? t('wrong.running')} more={data === undefined ? undefined : t('wrong.runningSum', { n: data.total })}>
      <div className="panel running">
        {list.length === 0 && <div className="muted px-3 py-3">{t('wrong.noRunning')}</div>}
        {list.slice(0, 50).map((call) => {
          const where = call.instance === undefined ? t('wrong.waits') : splitId(call.instance).host
          const whose = [call.requestId, call.keyId, call.tenant, call.user].filter(Boolean).join(' · ')
          return (
            <div key={`${call.requestId} ${call.time}`} className="pr">
              <span className="muted">{text(duration(call.runningMs))}</span>
              <span className="min-w-0">
                <span className="trunc block" title={`${call.model ?? call.service} ${where}`}>
                  {shorten(call.model ?? call.service, 28)} <span className="muted">{where}</span>
                </span>
                <code className="muted trunc block" title={whose}>{whose}</code>
              </span>
              <button type="button" className="btn sm" disabled={denied !== undefined} title={denied} onClick={() => { setReason(''); setAsked(call) }}>
                <Square className="ic s14" aria-hidden />
                {t('wrong.stop')}
              </button>
            </div>
          )
        })}
      </div>
      {asked !== null && (
        <Confirm title={t('wrong.stopTitle')} action={t('wrong.stop')} onClose={() => setAsked(null)} onConfirm={() => stop(asked)}>
          <p>{t('wrong.stopText', { model: asked.model ?? asked.service, who: asked.tenant ?? asked.keyId ?? asked.clientIp ?? '–' })}</p>
          <TextField label={t('wrong.reason')} value={reason} maxLength={200} onChange={setReason} />
        </Confirm>
      )}
    </Section>
  )
}

/** The versions that changed an object, with what each of them changed of it. */
export function Changes({ of }: { of(change: Sentence): boolean }) {
  const { t, said } = useI18n()
  const list = (useQuery(versions).data ?? []).map((version) => ({ ...version, own: (version.said ?? []).filter(of) })).filter((version) => version.own.length > 0)
  return (
    <Section title={t('wrong.history')} more={<Link to="/versions">{t('nav.versions')}</Link>}>
      <div className="panel">
        {list.length === 0 && <div className="muted px-3 py-3">{t('wrong.noHistory')}</div>}
        {list.slice(0, 10).map((version) => (
          <Link key={version.version} className="pr plain" to="/versions" search={{ version: String(version.version) } as never}>
            <span className="muted">{version.version}</span>
            <span className="min-w-0 break-words">{said(version.own, version.own.length === version.said?.length ? version.summary : version.own.map((change) => change.text).join('; '))}</span>
            <span className="muted nowrap">{stamp(version.createdAt)}</span>
          </Link>
        ))}
      </div>
    </Section>
  )
}

/** Whether a change is one of an instance, which may have been found by another one. */
export const changesInstance = (service: string, ids: string[]) => (change: Sentence) => change.values?.service === service && ids.includes(change.values.instance ?? '')

/** Whether a change is one of a model: of its instances, or of the names and fallbacks that lead to it. */
export const changesModel = (service: string, model: string) => (change: Sentence) => {
  const { values } = change
  if (values === undefined || values.service !== service) return false
  if (values.instance !== undefined) return splitId(values.instance).model === model
  return change.code === 'change.service_field' && (values.field === `fallbacks.${model}` || values.field === `aliases.${model}` || ((values.field ?? '').startsWith('aliases.') && (values.from === model || values.to === model)))
}

/** Whether a change is one of the terms of a tenant. */
export const changesTenant = (tenant: string) => (change: Sentence) => change.values?.tenant === tenant
