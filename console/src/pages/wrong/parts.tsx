import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Square } from 'lucide-react'
import { useState, type ReactNode } from 'react'
import { api, body } from '@/api/client'
import { running, versions, wrong } from '@/api/queries'
import type { RunningCall, Sentence } from '@/api/types'
import { toCall, type Call, type CallList } from '@/api/types'
import { useI18n } from '@/i18n'
import { clock, duration, shorten, since, splitId, stamp, text } from '@/lib/format'
import { useNow } from '@/live/context'
import { outcome } from '@/live/series'
import { useDenied } from '@/shell/guard'
import { CallCost } from '@/ui/cost'
import { ErrorNote, useToast } from '@/ui/feedback'
import { TextField } from '@/ui/field'
import { Confirm } from '@/ui/overlay'
import { isServedByOther } from '../calls/rows'
import { callsOf, GroupCounts, GroupModels, GroupSentence } from './sentence'

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

/** The problems of an object, with the words of the backend; how many calls and attempts each has, by name. */
export function Errors({ question, last }: { question: Record<string, string>; last?: { code: string; text: string; said?: Sentence[] } | null }) {
  const { t, locale, said } = useI18n()
  const now = useNow()
  const { data, error } = useQuery(wrong(question))
  const groups = data?.groups ?? []
  return (
    <Section title={t('wrong.errors')}>
      {error !== null && data === undefined && <ErrorNote error={error} title={t('error.load')} />}
      <div className="panel">
        {data !== undefined && groups.length === 0 && (last === undefined || last === null) && <div className="muted px-3 py-3">{t('wrong.noErrors')}</div>}
        {groups.length === 0 && last !== undefined && last !== null && (
          <div className="pr">
            <span className="muted">{t('wrong.lastError')}</span>
            <span className="min-w-0 break-words">{last.text === '' ? last.code : said(last.said, last.text)} <code className="muted">{last.code}</code></span>
          </div>
        )}
        {groups.map((group) => (
          <div key={`${group.kind} ${group.subject} ${group.code} ${group.since} ${group.text ?? ''}`} className="pr" data-state={group.state}>
            <span className="muted">{group.requestId === '' ? t('wrong.now') : since(Date.parse(group.last), now, locale)}</span>
            <span className="min-w-0 break-words">
              <GroupSentence group={group} now={now} />
              <GroupModels group={group} />
              {group.code !== '' && <code className={`block ${group.state === 'over' ? 'muted' : 'bad'}`}>{`${group.httpStatus ?? ''} ${group.code}`}</code>}
              {group.requestId !== '' && <GroupCounts group={group} />}
            </span>
            {group.requestId === '' ? <span /> : <Link to="/calls" search={{ ...callsOf(group), ...question, call: group.requestId } as never}>×{group.lost + group.rescued + group.refused}</Link>}
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
