import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { ProblemGroup } from '@/api/types'
import { useI18n } from '@/i18n'
import { clock, stamp } from '@/lib/format'
import { useLive } from '@/live/context'

/** So many models of a problem are in its sentence. */
const most = 3

/** All models of a problem that has more than its sentence names. */
export function GroupModels({ group }: { group: ProblemGroup }) {
  const { t } = useI18n()
  if (group.kind !== 'backend' || group.models.length <= most) return null
  return <span className="muted block break-words">{group.models.join(t('common.comma'))}</span>
}

/** The calls of a problem, as their search is asked. */
export function callsOf(group: ProblemGroup): Record<string, string | undefined> {
  if (group.instances.length === 1) return { service: group.service, instance: group.instances[0], show: 'troubled' }
  if (group.kind === 'backend') return { service: group.service, host: group.subject, show: 'troubled' }
  return group.kind === 'refusal' ? { refusedBy: group.subject } : { asked: group.subject, errorCode: group.code }
}

const minute = (time: number) => clock(time, false).slice(0, 5)

/** Until when a limit or a budget refuses: a time today, else a day. */
function untilOf(until: string, now: number): string {
  const time = Date.parse(until)
  return time - now < 86_400_000 ? minute(time) : stamp(time).slice(0, 10)
}

/** How many calls of a problem were lost, rescued and refused, and how many attempts failed: those that are not 0. */
export function countsOf(group: ProblemGroup): ['lost' | 'rescued' | 'refused' | 'tried', number][] {
  return (['lost', 'rescued', 'refused', 'tried'] as const).map((name) => [name, group[name]] as [typeof name, number]).filter(([, count]) => count > 0)
}

/** A problem in one sentence, which the gateway makes; and until when it lasts, by the clock of the viewer. */
export function GroupSentence({ group, now }: { group: ProblemGroup; now: number }) {
  const { t, said } = useI18n()
  return (
    <>
      {said(group.summarySaid, group.summary)}
      {group.until !== undefined && <span className="nowrap">{t('wrong.until', { time: untilOf(group.until, now) })}</span>}
    </>
  )
}

/** Since when there is a problem, or when it ended, and its counts with their names. */
export function GroupCounts({ group }: { group: ProblemGroup }) {
  const { t } = useI18n()
  const time = group.state === 'over' ? t('wrong.over', { from: minute(Date.parse(group.since)), to: minute(Date.parse(group.last)) }) : t('wrong.since', { time: minute(Date.parse(group.since)) })
  return <span className="muted block">{[time, ...countsOf(group).map(([name, count]) => `${t(`wrong.count.${name}`)} ${count}`)].join(' · ')}</span>
}

/** Where a problem has its page. */
export function GroupLink({ group, children, className }: { group: ProblemGroup; children: ReactNode; className?: string }) {
  const [kind = '', ...rest] = (group.subject ?? '').split('/')
  const name = rest.join('/')
  const instances = useLive().snapshot?.instances ?? []
  if (group.kind === 'backend' || group.instances.length > 0) {
    const there = instances.filter((one) => one.host === group.subject)
    const only = group.instances.length === 1 ? group.instances[0] : there.length === 1 ? there[0]!.id : undefined
    // Where it is about one instance, the page of that says all of it.
    if (only !== undefined) return <Link className={className} to="/instance" search={{ service: group.service, id: only } as never}>{children}</Link>
    return <Link className={className} to="/host" search={{ id: group.subject } as never}>{children}</Link>
  }
  if (kind === 'tenant') return <Link className={className} to="/tenant" search={{ id: name } as never}>{children}</Link>
  if (group.kind === 'refusal' && (kind === 'model' || kind === 'instances')) return <Link className={className} to="/model" search={{ service: group.service, id: name } as never}>{children}</Link>
  if (group.requestId === '' && group.models.length > 0) return <Link className={className} to="/model" search={{ service: group.service, id: group.models[0] } as never}>{children}</Link>
  if (group.requestId === '') return <Link className={className} to="/services">{children}</Link>
  return <Link className={className} to="/calls" search={callsOf(group) as never}>{children}</Link>
}
