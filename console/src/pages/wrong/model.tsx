import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { troubles } from '@/api/queries'
import type { ProblemGroup, ServiceType } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { duration, percent, rate, text } from '@/lib/format'
import { useLive, useNow, useStats } from '@/live/context'
import { empty } from '@/live/stats'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { Name } from '@/ui/parts'
import { canServe, StatePill } from '@/ui/status'
import { Charts } from './charts'
import { Changes, Errors, LatestCalls, Running, Section } from './parts'
import { GroupSentence, isCurrent } from './sentence'

/** Everything about one model: its instances, what is wrong, its calls. */
export default function ModelPage() {
  const { t } = useI18n()
  const [search] = useSearchState()
  const service = (search.service ?? '') as ServiceType
  const id = search.id ?? ''
  const { snapshot } = useLive()
  const now = useNow()
  const stats = useStats('5m')
  const members = (snapshot?.instances ?? []).filter((one) => one.service === service && one.model === id)
  const mine = (group: ProblemGroup) => group.service === service && (group.kind === 'refusal' ? group.subject === `model/${id}` || group.subject === `instances/${id}` : group.models.includes(id))
  const current = (useQuery(troubles).data ?? []).find((group) => mine(group) && isCurrent(group, now))
  const stat = stats.models.get(`${service} ${id}`) ?? empty
  usePageFact(`${service} · ${id}`)
  usePageCalls([{ path: `/api/monitoring/calls?service=${service}&model=${encodeURIComponent(id)}` }, { path: `/api/monitoring/running?model=${encodeURIComponent(id)}` }])
  return (
    <>
      <div className="head">
        <div className="grow">
          <h2>
            {current !== undefined ? (
              <GroupSentence group={current} now={now} />
            ) : (
              <T k={members.length === 0 ? 'wrong.modelGone' : members.some(canServe) ? 'wrong.modelWell' : 'wrong.modelDown'} v={{ model: <b>{id}</b>, n: members.filter(canServe).length, all: members.length, rate: rate(stat.rate), errors: percent(stat.errorRate ?? 0) }} />
            )}
          </h2>
          <p className="row">
            <Link className="soft" to="/playground" search={{ type: service, model: id } as never}>{t('wrong.tryIt')}</Link>
            <Link className="soft" to="/services" search={{ q: id } as never}>{t('nav.services')}</Link>
          </p>
        </div>
      </div>
      <Charts service={service} ids={members.map((one) => one.id)} />
      <div className="cols">
        <div>
          <Section title={t('wrong.instances')}>
            <div className="panel">
              {members.map((one) => {
                const its = stats.instances.get(`${one.service} ${one.id}`) ?? empty
                return (
                  <Link key={one.id} className="pr obj plain" to="/instance" search={{ service, id: one.id } as never}>
                    <StatePill instance={one} now={now} />
                    <span className="min-w-0"><Name>{one.host}</Name></span>
                    <span className="muted nowrap">{rate(its.rate)} · {percent(its.errorRate)} · {text(duration(its.p95))}</span>
                  </Link>
                )
              })}
            </div>
          </Section>
          <Errors of={mine} />
          <Changes names={[id]} />
        </div>
        <div>
          <LatestCalls question={{ service, model: id }} />
          <Running question={{ model: id }} />
        </div>
      </div>
    </>
  )
}
