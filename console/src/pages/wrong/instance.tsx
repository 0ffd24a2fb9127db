import { Link } from '@tanstack/react-router'
import type { Instance, ServiceType } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { duration, percent, rate, splitId, text } from '@/lib/format'
import { maskSecrets, yamlLines } from '@/lib/yaml'
import { useLive, useNow, useStats } from '@/live/context'
import { empty } from '@/live/stats'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { StatePill } from '@/ui/status'
import { useServiceDrawer } from '../services/drawers'
import { useRows } from '../services/rows'
import { InstanceActions } from './actions'
import { BreakerFacts } from './breaker'
import { ObjectPage } from './frame'
import { changesInstance, Errors, Here, Section } from './parts'
import { isExceptional, Why } from './why'

/** Everything about one instance: what is wrong, and what can be done. */
export default function InstancePage() {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const service = (search.service ?? '') as ServiceType
  const id = search.id ?? ''
  const { model, host } = splitId(id)
  const { snapshot } = useLive()
  const now = useNow()
  const stat = useStats('5m').instances.get(`${service} ${id}`) ?? empty
  const table = useRows()
  const { drawer } = useServiceDrawer(table)
  const state = snapshot?.instances.find((one) => one.service === service && one.id === id)
  const row = table.rows.find((one) => one.service === service && one.id === id) ?? table.rows.find((one) => one.service === service && one.found.some((found) => found.id === id))
  usePageFact(id)
  usePageCalls([
    { path: '/api/monitoring/problems' },
    { path: `/api/monitoring/series?by=instance&service=${service}&instanceId=${encodeURIComponent(id)}` },
    { path: `/api/monitoring/figures?service=${service}&model=${encodeURIComponent(model)}` },
    { path: `/api/monitoring/calls?service=${service}&instance=${encodeURIComponent(id)}` },
    { path: `/api/monitoring/running?instance=${encodeURIComponent(id)}` },
  ])
  // One that was configured just now is in the next snapshot.
  const isStored = row?.id === id && row.instance.name !== ''
  if (snapshot !== null && state === undefined && !isStored) return <div className="panel empty"><h2>{t('wrong.gone', { name: id })}</h2><Link className="btn" to="/">{t('error.home')}</Link></div>
  const values = { model: <b>{model}</b>, host: <b className="nowrap">{host}</b>, rate: rate(stat.rate), errors: percent(stat.errorRate ?? 0), p95: text(duration(stat.p95)) }
  return (
    <ObjectPage
      sentence={<T k={state?.enabled === false ? 'wrong.isOff' : state?.breaker === 'OPEN' ? 'wrong.isOpen' : state?.health === 'UNHEALTHY' ? 'wrong.isAway' : state?.weight === 0 ? 'wrong.isDrained' : stat.requests === 0 ? 'wrong.isIdle' : 'wrong.isWell'} v={values} />}
      under={
        <>
          {state !== undefined && <StatePill instance={state} now={now} />}
          {state !== undefined && isExceptional(state) && <Why instance={state} now={now} />}
          {state !== undefined && (table.services[service]?.circuitBreaker.enabled === false && !state.forced ? <span className="muted">{t('services.noBreaker')}</span> : <BreakerFacts instance={state} now={now} />)}
          <Link className="soft" to="/model" search={{ service, id: model } as never}>{t('wrong.itsModel', { model })}</Link>
          {host !== '' && <Link className="soft" to="/host" search={{ id: host } as never}>{t('wrong.itsHost', { host })}</Link>}
        </>
      }
      actions={
        state !== undefined && (
          <div className="bar" role="group" aria-label={t('wrong.actions')}>
            <InstanceActions key={`${service} ${id} ${search.act ?? ''}`} state={state} table={table} asked={search.act} onAnswered={() => setSearch({ act: undefined })} />
            <Link className="btn ghost" to="/playground" search={{ type: service, model } as never}>{t('wrong.tryIt')}</Link>
          </div>
        )
      }
      history={{ of: { by: 'instance', service, instanceId: id }, label: id }}
      errors={<Errors question={{ service, instance: id }} last={state?.lastError ?? null} />}
      question={{ service, instance: id }}
      settings={
        <Section title={t('wrong.settings')} more={row !== undefined && <Here search={{ edit: `${service}/${row.id}` }}>{t('wrong.edit')}</Here>}>
          {table.query.error !== null && <ErrorNote error={table.query.error} title={t('error.load')} />}
          <pre className="code fold" tabIndex={0} aria-label={t('wrong.settings')}>{row === undefined ? '–' : yamlLines(told(maskSecrets(row.instance as Instance))).join('\n')}</pre>
        </Section>
      }
      changes={changesInstance(service, [id, row?.id ?? id])}
      drawer={drawer}
    />
  )
}

/** A setting without what is empty, which says nothing. */
function told(value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value
  const kept = Object.entries(value).map(([key, item]) => [key, told(item)] as const)
  return Object.fromEntries(kept.filter(([key, item]) => key !== 'instanceId' && item !== '' && item !== null && item !== 0 && item !== false && !(typeof item === 'object' && Object.keys(item as object).length === 0)))
}
