import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { ProblemGroup } from '@/api/types'
import { T, useI18n, type I18n, type Key } from '@/i18n'
import { clock, percent, shorten, stamp } from '@/lib/format'
import { useLive } from '@/live/context'

/** A problem that was seen within so many milliseconds is one of now. */
const recent = 60_000

export const isCurrent = (group: ProblemGroup, now: number) => now - Date.parse(group.last) < recent

/** The worst first: what is lost before what is refused before what was rescued. */
export function byWeight(a: ProblemGroup, b: ProblemGroup): number {
  return b.lost - a.lost || b.rescued - a.rescued
}

/** "tenant/acme" in words. */
export function accountOf(subject: string, t: I18n['t']): string {
  const [kind = '', ...rest] = subject.split('/')
  const name = rest.join('/')
  const words: Record<string, Key> = { key: 'wrong.of.key', tenant: 'wrong.of.tenant', service: 'wrong.of.service', model: 'wrong.of.model', instances: 'wrong.of.instances' }
  return words[kind] === undefined ? subject : t(words[kind], { name })
}

/** Whether requests fail because no model has the name that they ask for: nothing is out of order. */
export const isUnknown = (group: ProblemGroup) => group.kind === 'request' && group.models.length === 0 && (group.code === 'service_unavailable' || group.code === 'model_not_found')

/** So many models of a problem stand in its sentence. */
const most = 3

/** All models of a problem that has more than its sentence names. */
export function GroupModels({ group }: { group: ProblemGroup }) {
  const { t } = useI18n()
  if (group.kind !== 'backend' || group.models.length <= most) return null
  return <span className="muted block break-words">{group.models.join(t('common.comma'))}</span>
}

/** The calls of a problem, as their search is asked. */
export function callsOf(group: ProblemGroup): Record<string, string | undefined> {
  if (group.kind === 'backend') return { service: group.service, host: group.subject, show: 'troubled' }
  return group.kind === 'refusal' ? { refusedBy: group.subject } : { asked: group.subject, errorCode: group.code }
}

const minute = (time: number) => clock(time, false).slice(0, 5)

/** What was said: the backend's own words behind its status where it said any, else the gateway's. */
export function saidBy(group: ProblemGroup, say: I18n['said']): string {
  const first = group.said?.[0]
  if (first?.code === 'call.status_said') return `${first.values?.status} ${first.values?.words}`
  return say(group.said, group.text)
}

/** Until when a limit or a budget refuses: a time today, else a day. */
function untilOf(until: string, now: number): string {
  const time = Date.parse(until)
  return time - now < 86_400_000 ? minute(time) : stamp(time).slice(0, 10)
}

/** Of a budget that refused no call lately: whether nobody called, which only counted calls tell. */
export function quietKey(group: ProblemGroup): Key {
  const isUncalled = group.last !== '' && (group.calls ?? 0) === 0
  if (group.until === undefined) return isUncalled ? 'wrong.budgetQuiet' : 'wrong.budgetOut'
  return isUncalled ? 'wrong.budgetQuietUntil' : 'wrong.budgetOutUntil'
}

/** One problem in one sentence. */
export function GroupSentence({ group, now }: { group: ProblemGroup; now: number }) {
  const { t, said } = useI18n()
  const since = minute(Date.parse(group.since))
  if (group.kind === 'refusal') {
    const share = percent(Math.min(1, (group.refused ?? 0) / (group.calls ?? 1)), 0)
    const who = <b className="nowrap">{accountOf(group.subject ?? '', t)}</b>
    // A share is that of calls; where none was refused lately, there is none.
    if ((group.refused ?? 0) === 0 && group.code === 'budget_exceeded') return <T k={quietKey(group)} v={{ who, until: group.until === undefined ? '' : untilOf(group.until, now) }} />
    if (group.code === 'budget_reserved') return <T k="wrong.reserved" v={{ who, share }} />
    const isBudget = group.code === 'budget_exceeded'
    if (group.until === undefined) return <T k={isBudget ? 'wrong.budget' : 'wrong.limit'} v={{ who, share }} />
    return <T k={isBudget ? 'wrong.budgetUntil' : 'wrong.limitUntil'} v={{ who, share, until: untilOf(group.until, now) }} />
  }
  const name = <b className="nowrap" title={group.subject}>{shorten(group.subject ?? group.service, 40)}</b>
  if (isUnknown(group)) return <T k="wrong.unknown" v={{ name, n: group.lost, since }} />
  if (group.kind === 'request') return <T k="wrong.request" v={{ name, code: <code>{group.code}</code>, n: group.lost, since }} />
  // Few are named; of many, what lists the problem names all.
  const models = group.models.length <= most ? <span>{group.models.map((model) => shorten(model, 32)).join(t('common.comma'))}</span> : <span title={group.models.join(', ')}>{t('wrong.models', { n: group.models.length })}</span>
  // It stands within a sentence, so that it does not end one.
  const words = saidBy(group, said).replace(/[.。]$/, '')
  const quoted = words === '' ? <code>{group.code}</code> : <q title={said(group.said, group.text)}>{shorten(words, 90)}</q>
  return <T k="wrong.backend" v={{ host: name, models, said: quoted, since, n: group.rescued, lost: group.lost }} />
}

/** Where a problem has its page. */
export function GroupLink({ group, children, className }: { group: ProblemGroup; children: ReactNode; className?: string }) {
  const [kind = '', ...rest] = (group.subject ?? '').split('/')
  const name = rest.join('/')
  const instances = useLive().snapshot?.instances ?? []
  if (group.kind === 'backend') {
    const there = instances.filter((one) => one.host === group.subject)
    // Where a host has one instance, its page says all of it.
    if (there.length === 1) return <Link className={className} to="/instance" search={{ service: there[0]!.service, id: there[0]!.id } as never}>{children}</Link>
    return <Link className={className} to="/host" search={{ id: group.subject } as never}>{children}</Link>
  }
  if (group.kind === 'refusal' && kind === 'tenant') return <Link className={className} to="/tenant" search={{ id: name } as never}>{children}</Link>
  if (group.kind === 'refusal' && (kind === 'model' || kind === 'instances')) return <Link className={className} to="/model" search={{ service: group.service, id: name } as never}>{children}</Link>
  return <Link className={className} to="/calls" search={callsOf(group) as never}>{children}</Link>
}
