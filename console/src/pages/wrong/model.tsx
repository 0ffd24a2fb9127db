import { Link } from '@tanstack/react-router'
import type { Service, ServiceType } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { axis, duration, percent, rate } from '@/lib/format'
import { useLive, useStats } from '@/live/context'
import { empty } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { GuardedLink } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { AbleSum, canServe } from '@/ui/status'
import { useServiceDrawer } from '../services/drawers'
import { useRows } from '../services/rows'
import { strategyLabel } from '../services/strategies'
import { Facts, ObjectPage } from './frame'
import { Instances, TestAll } from './instances'
import { changesModel, Errors, Here, LatestCalls, Section } from './parts'

/** Everything about one model: its instances, what is wrong, how its requests are handled. */
export default function ModelPage() {
  const { t } = useI18n()
  const [search] = useSearchState()
  const service = (search.service ?? '') as ServiceType
  const id = search.id ?? ''
  const { snapshot } = useLive()
  const stat = useStats('5m').models.get(`${service} ${id}`) ?? empty
  const members = (snapshot?.instances ?? []).filter((one) => one.service === service && one.model === id)
  const table = useRows()
  const { drawer } = useServiceDrawer(table)
  usePageFact(`${service} · ${id}`)
  usePageCalls([
    { path: `/api/monitoring/series?by=model&service=${service}&model=${encodeURIComponent(id)}` },
    { path: `/api/monitoring/figures?by=model&service=${service}&model=${encodeURIComponent(id)}` },
    { path: `/api/monitoring/calls?service=${service}&model=${encodeURIComponent(id)}` },
    { path: `/api/monitoring/running?model=${encodeURIComponent(id)}` },
    { path: `/api/route/explain?service=${service}&model=${encodeURIComponent(id)}` },
  ])
  const values = { model: <b>{id}</b>, n: members.filter(canServe).length, all: members.length, rate: rate(stat.rate), errors: percent(stat.errorRate ?? 0) }
  const value = table.services[service]
  return (
    <ObjectPage
      sentence={<T k={members.length === 0 ? 'wrong.modelGone' : !members.some(canServe) ? 'wrong.modelDown' : stat.requests === 0 ? 'wrong.modelIdle' : 'wrong.modelWell'} v={values} />}
      under={
        <>
          <AbleSum members={members} />
          <Link className="soft" to="/services" search={{ q: id } as never}>{t('nav.services')}</Link>
          <Link className="soft" to="/spend" search={{ only: `model~${id}`, by: 'tenant' } as never}>{t('nav.spend')}</Link>
        </>
      }
      actions={<ModelActions key={`${service} ${id}`} service={service} model={id} members={members} />}
      history={{ of: { by: 'model', service, model: id }, label: id }}
      errors={<Errors question={{ service, model: id }} />}
      parts={<Instances members={members} table={table} named="host" />}
      question={{ service, model: id }}
      calls={<LatestCalls question={{ service, asked: id }} title={t('wrong.callsAsked')} of={(call) => call.model !== id} />}
      settings={
        <Section title={t('wrong.settings')} more={value !== undefined && <Here search={{ policy: service }}>{t('wrong.editPolicy', { service })}</Here>}>
          {value === undefined ? <div className="panel muted px-3 py-3">–</div> : <Settings value={value} model={id} />}
        </Section>
      }
      changes={changesModel(service, id)}
      drawer={drawer}
    />
  )
}

/** What can be done with a model: a real call to each of its instances, the playground, one more instance. */
function ModelActions({ service, model, members }: { service: ServiceType; model: string; members: InstanceState[] }) {
  const { t } = useI18n()
  return (
    <div className="bar" role="group" aria-label={t('wrong.actions')}>
      <TestAll members={members} named="host" />
      <Link className="btn" to="/playground" search={{ type: service, model } as never}>{t('wrong.tryIt')}</Link>
      <GuardedLink needs="config:instance:write" className="btn ghost" to="/model" search={((old: object) => ({ ...old, add: service, from: members[0]?.id, edit: undefined, policy: undefined })) as never}>{t('services.add')}</GuardedLink>
    </div>
  )
}

/** How requests for a model are handled: the policies of its service, as far as they are about it. */
function Settings({ value, model }: { value: Service; model: string }) {
  const { t } = useI18n()
  const limit = value.rateLimit
  const breaker = value.circuitBreaker
  const aliases = Object.entries(value.aliases ?? {}).filter(([, to]) => to === model).map(([name]) => name)
  const fallbacks = value.fallbacks?.[model] ?? []
  const takesOver = Object.entries(value.fallbacks ?? {}).filter(([, others]) => others.includes(model)).map(([name]) => name)
  const queue = value.queue
  return (
    <Facts
      of={[
        [t('services.balancing'), strategyLabel(t, value.loadBalancer ?? 'round_robin')],
        [t('services.limiter'), limit?.enabled === true ? `${t('services.limitSentence', { capacity: limit.capacity ?? 0, rate: limit.refillRate ?? 0 })} ${t(`common.${limit.scope ?? 'service'}` as 'common.service')}` : t('services.noLimit')],
        [t('services.breakerTitle'), breaker?.enabled === true ? t('services.breakerSentence', { failures: breaker.failureThreshold ?? 0, wait: axis(duration(Number(breaker.recoveryTimeout))), successes: breaker.successThreshold ?? 0 }) : t('services.noBreaker')],
        [t('services.aliases'), aliases.length === 0 ? t('wrong.none') : <code>{aliases.join(', ')}</code>],
        [t('services.fallbacks'), fallbacks.length === 0 ? t('wrong.none') : <code>{fallbacks.join(' → ')}</code>],
        [t('wrong.takesOver'), takesOver.length > 0 && <code>{takesOver.join(', ')}</code>],
        [t('services.healthTitle'), value.healthCheck?.enabled === true ? t('wrong.checked', { every: axis(duration(Number(value.healthCheck.interval))) }) : t('wrong.none')],
        [t('services.queueTitle'), (queue?.size ?? 0) > 0 ? t('wrong.queued', { n: queue?.size ?? 0, wait: axis(duration(Number(queue?.timeout ?? 0))) }) : t('wrong.none')],
        [t('key.priority'), t(`common.${value.priority ?? 'normal'}` as 'common.normal')],
      ]}
    />
  )
}
