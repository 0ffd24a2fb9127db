import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { config, troubles, versions } from '@/api/queries'
import type { ProblemGroup } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { ago, percent, rate, shorten, span } from '@/lib/format'
import { useLive, useNow, useStats } from '@/live/context'
import { secondsLeft } from '@/ui/status'
import { useCurrent } from '../quota/refused'
import { personOf } from '../versions/person'
import { byWeight, GroupLink, GroupSentence } from '../wrong/sentence'
import { timeOf } from '../wrong/why'
import { assess, cutBy } from './assess'

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

/** One sentence that says whether all is well, and one that says why not. */
export function StatusSentence() {
  const { t, lang, locale } = useI18n()
  const { snapshot, connection } = useLive()
  const stats = useStats('5m')
  const now = useNow()
  const { data: groups = [] } = useQuery(troubles)
  const current = useCurrent().toSorted(byWeight)
  const { data: configured } = useQuery({ ...config, retry: false })
  const known = assess(snapshot?.instances ?? [], now, groups, configured?.services)
  const { data: history = [] } = useQuery({ ...versions, enabled: known.cutOff.some((instance) => !instance.enabled), retry: false })
  if (snapshot === null) {
    return (
      <div className="grow">
        <h2>{t('overview.loading')}</h2>
        <p>&nbsp;</p>
      </div>
    )
  }
  const { services, down, models, fallbacks, cutOff, trouble } = known
  // Chinese has no space between sentences.
  const gap = lang === 'zh' ? '' : ' '
  const list = (names: readonly string[]) => names.slice(0, 3).join(t('common.comma')) + (names.length > 3 ? ' …' : '')
  const refusals = current.filter((group) => group.kind === 'refusal')
  const n = services.length
  let title: ReactNode
  if (n > 0 && down.length === n) title = t('overview.noneAnswer')
  else if (down.length > 0) title = t('overview.someServices', { k: down.length, n, services: down.join(t('common.comma')) })
  else if (models.length > 0 && n === 1) title = t('wrong.oneExcept', { service: services[0]!, models: list(models) })
  else if (models.length === 1) title = <T k="overview.except" v={{ n, model: <Name>{models[0]!}</Name> }} />
  else if (models.length > 1) title = <T k="overview.exceptMany" v={{ n, k: models.length, models: list(models) }} />
  // "All services answer" is not the truth for those who are refused.
  else if (refusals.length > 0) title = <Told group={refusals[0]!} now={now} />
  else title = n === 1 ? t('overview.allWell.one', { service: services[0]! }) : n === 2 ? t('overview.allWell.two') : t('overview.allWell', { n })

  if (fallbacks.length > 0) {
    const [{ model, by } = { model: '', by: '' }] = fallbacks
    title = (
      <>
        {title}
        {gap}
        {fallbacks.length === 1 ? <T k="overview.takenOver" v={{ model: <Name>{model}</Name>, by: <Name>{by}</Name> }} /> : t('overview.takenOverMany', { n: fallbacks.length, models: list(fallbacks.map((one) => `${one.model} → ${one.by}`)) })}
      </>
    )
  }

  // What fails together is said once: by host and cause, and what is refused beside it.
  const causes = current.filter((group) => group.kind !== 'request' && group !== (down.length + models.length === 0 ? refusals[0] : undefined))
  // What callers get wrong themselves is said where nothing else is wrong.
  const grouped = causes.length > 0 || trouble.length > 0 ? causes : current.filter((group) => group.kind === 'request')
  const reasons = grouped.length > 0 ? grouped.slice(0, 2).map((group) => <Told key={`${group.kind} ${group.subject} ${group.code}`} group={group} now={now} />) : trouble.slice(0, 2).map((instance) => {
    // Of several instances of a model, the address says which one.
    const several = snapshot.instances.some((other) => other.model === instance.model && other.service === instance.service && other.id !== instance.id)
    const model = <Name>{several ? `${instance.model} · ${instance.host}` : instance.model}</Name>
    const left = secondsLeft(instance, now)
    const key = `${instance.service} ${instance.id}`
    if (instance.breaker === 'OPEN' && instance.forced) return <T key={key} k="overview.held" v={{ model }} />
    if (instance.breaker === 'OPEN' && left !== null && left > 0 && instance.lastFailure !== null) {
      return (
        <T
          key={key}
          k="overview.opened"
          v={{ model, ago: ago(instance.nextRetry! - instance.breakerTimeout, now, locale), n: instance.failures || instance.failureThreshold, next: left }}
        />
      )
    }
    if (instance.breaker === 'OPEN') return <T key={key} k="overview.openedNow" v={{ model }} />
    if (instance.breaker === 'HALF_OPEN') return <T key={key} k="overview.trial" v={{ model }} />
    if (instance.health !== 'UNHEALTHY') return <T key={key} k="overview.failing" v={{ model, n: instance.failures, k: instance.failureThreshold }} />
    return <T key={key} k="overview.unreachable" v={{ host: <Name>{instance.host}</Name> }} />
  })
  // What a person took out comes first: it can be put back at once.
  const taken = cutOff.slice(0, 2).map((instance) => {
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
            {t((stats.total.errorRate ?? 0) > 0 ? 'overview.closed' : 'overview.quiet')}
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
