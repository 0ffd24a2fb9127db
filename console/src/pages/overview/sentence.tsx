import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { versions, wrong } from '@/api/queries'
import type { ProblemGroup } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { percent, rate, shorten, span } from '@/lib/format'
import { useLive, useNow, useStats } from '@/live/context'
import { personOf } from '../versions/person'
import { GroupLink, GroupSentence } from '../wrong/sentence'
import { timeOf } from '../wrong/why'
import { cutBy, cutOff } from './assess'

const Name = ({ children }: { children: string }) => (
  <span className="nowrap" title={children}>
    {shorten(children, 48)}
  </span>
)

const Told = ({ group, now }: { group: ProblemGroup; now: number }) => (
  <GroupLink group={group} className="plain hover:underline">
    <GroupSentence group={group} now={now} />
  </GroupLink>
)

/** What the headline may be about: what is wrong now, but for calls of strangers. */
const isNow = (group: ProblemGroup) => group.kind !== 'stranger' && group.state !== 'waiting' && group.state !== 'over'

/** The headline of the gateway, and behind it what comes next. */
export function StatusSentence() {
  const { t, lang, locale, said } = useI18n()
  const { snapshot, connection } = useLive()
  const stats = useStats('5m')
  const now = useNow()
  const { data: known } = useQuery(wrong())
  const groups = known?.groups ?? []
  const out = cutOff(snapshot?.instances ?? [], groups)
  const { data: history = [] } = useQuery({ ...versions, enabled: out.some((instance) => !instance.enabled), retry: false })
  if (snapshot === null || known === undefined) {
    return (
      <div className="grow">
        <h2>{t('overview.loading')}</h2>
        <p>&nbsp;</p>
      </div>
    )
  }
  // Chinese has no space between sentences.
  const gap = lang === 'zh' ? '' : ' '
  const current = groups.filter(isNow)
  const first = current.find((group) => group.summary === known.headline.text)
  const title: ReactNode = first === undefined ? said(known.headline.said, known.headline.text) : <Told group={first} now={now} />
  const reasons = current.filter((group) => group !== first).slice(0, 2).map((group) => <Told key={`${group.kind} ${group.service} ${group.subject} ${group.summary}`} group={group} now={now} />)
  // What a person took out comes first: it can be put back at once.
  const taken = out.slice(0, 2).map((instance) => {
    const by = instance.enabled ? undefined : cutBy(history, instance)
    const v = { model: <Name>{instance.model}</Name>, host: <Name>{instance.host}</Name> }
    return (
      <Link key={`cut ${instance.service} ${instance.id}`} className="plain hover:underline" to="/instance" search={{ service: instance.service, id: instance.id } as never}>
        {by !== undefined ? <T k="overview.cutOff" v={{ ...v, time: timeOf(Date.parse(by.createdAt), now), version: by.version, by: personOf(t, by.author) }} /> : <T k={instance.enabled ? 'overview.noWeight' : 'overview.cutOffPlain'} v={v} />}
      </Link>
    )
  })
  reasons.unshift(...taken)
  const traffic =
    stats.total.requests === 0
      ? t('overview.noTraffic')
      : t('overview.traffic', { rate: rate(stats.total.rate), errors: percent(stats.total.errorRate ?? 0) })
  if (connection.kind === 'stale') {
    // What was true then may not be true now, so that is said first.
    return (
      <div className="grow" data-stale>
        <h2>{t('overview.stale', { age: span(now - connection.since, locale) })}</h2>
        <p>
          <T k="overview.staleThen" v={{ said: title }} />
        </p>
      </div>
    )
  }
  return (
    <div className="grow" aria-live="off">
      <h2>{title}</h2>
      <p>
        {reasons.length === 0 ? (
          <>
            {t(known.headline.state === undefined && (stats.total.errorRate ?? 0) === 0 ? 'overview.quiet' : 'overview.nothingElse')}
            {gap}
            {traffic}
          </>
        ) : (
          reasons.map((reason, index) => (
            <span key={index}>
              {index > 0 && gap}
              {reason}
            </span>
          ))
        )}
      </p>
    </div>
  )
}
