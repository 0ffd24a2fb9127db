import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data } from '@/api/client'
import { useEdit } from '@/api/mutations'
import { config, troubles } from '@/api/queries'
import type { Instance, ServiceType, TestResult } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { duration, percent, rate, splitId, text } from '@/lib/format'
import { maskSecrets, yamlLines } from '@/lib/yaml'
import { useLive, useNow, useStats } from '@/live/context'
import { empty } from '@/live/stats'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useDenied } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { ErrorNote, useToast } from '@/ui/feedback'
import { TextField } from '@/ui/field'
import { Confirm } from '@/ui/overlay'
import { StatePill } from '@/ui/status'
import { Charts } from './charts'
import { Changes, Errors, LatestCalls, Running, Section } from './parts'
import { GroupSentence, isCurrent } from './sentence'

/** Everything about one instance: what is wrong, and what can be done. */
export default function InstancePage() {
  const { t } = useI18n()
  const [search] = useSearchState()
  const service = (search.service ?? '') as ServiceType
  const id = search.id ?? ''
  const { snapshot } = useLive()
  const now = useNow()
  const stats = useStats('5m')
  const state = snapshot?.instances.find((one) => one.service === service && one.id === id)
  const groups = (useQuery(troubles).data ?? []).filter((group) => group.instances.includes(id))
  const stored = useQuery(config)
  const { model, host } = splitId(id)
  const saved: Instance | undefined = stored.data?.services[service]?.instances.find((one: Instance) => one.instanceId === id) ?? stored.data?.services[service]?.instances.find((one: Instance) => `${one.name}@${one.baseUrl}` === id)
  usePageFact(id)
  usePageCalls([{ path: '/api/monitoring/problems' }, { path: `/api/monitoring/calls?instance=${encodeURIComponent(id)}` }, { path: `/api/monitoring/running?instance=${encodeURIComponent(id)}` }])
  if (snapshot !== null && state === undefined) return <div className="panel empty"><h3>{t('wrong.gone', { name: id })}</h3><Link className="btn" to="/">{t('error.home')}</Link></div>
  const stat = stats.instances.get(`${service} ${id}`) ?? empty
  const current = groups.find((group) => isCurrent(group, now))
  return (
    <>
      <div className="head">
        <div className="grow">
          <h2>
            {current !== undefined ? (
              <GroupSentence group={current} now={now} />
            ) : (
              <T k={state?.enabled === false ? 'wrong.isOff' : state?.breaker === 'OPEN' ? 'wrong.isOpen' : state?.health === 'UNHEALTHY' ? 'wrong.isAway' : 'wrong.isWell'} v={{ model: <b>{model}</b>, host: <b className="nowrap">{host}</b>, rate: rate(stat.rate), errors: percent(stat.errorRate ?? 0), p95: text(duration(stat.p95)) }} />
            )}
          </h2>
          <p className="row">
            {state !== undefined && <StatePill instance={state} now={now} />}
            {state?.heldReason !== undefined && state.heldReason !== '' && <span className="muted">{`${state.heldBy}: ${state.heldReason}`}</span>}
            <Link className="soft" to="/model" search={{ service, id: model } as never}>{t('wrong.itsModel', { model })}</Link>
          </p>
        </div>
      </div>
      {state !== undefined && <Actions service={service} id={id} enabled={state.enabled} weight={state.weight} forced={state.forced} saved={saved} version={stored.data?.version} />}
      <Charts service={service} ids={[id]} />
      <div className="cols">
        <div>
          <Errors of={(group) => group.instances.includes(id)} last={state?.lastError ?? null} />
          <Running question={{ instance: id }} />
          <Changes names={[id, host]} />
        </div>
        <div>
          <LatestCalls question={{ instance: id }} />
          <Section title={t('wrong.settings')} more={<Link to="/services" search={{ edit: `${service}/${id}` } as never}>{t('wrong.edit')}</Link>}>
            {stored.error !== null && <ErrorNote error={stored.error} title={t('error.load')} />}
            <pre className="code fold">{saved === undefined ? '–' : yamlLines(told(maskSecrets(saved))).join('\n')}</pre>
          </Section>
        </div>
      </div>
    </>
  )
}

/** Disable, drain, hold and test: each names its effect, and what is not allowed says why. */
function Actions({ service, id, enabled, weight, forced, saved, version }: { service: ServiceType; id: string; enabled: boolean; weight: number; forced: boolean; saved: Instance | undefined; version: number | undefined }) {
  const { t } = useI18n()
  const edit = useEdit()
  const toast = useToast()
  const client = useQueryClient()
  const denied = useDenied('config:instance:write')
  const [asks, setAsks] = useState<'off' | 'drain' | 'hold' | null>(null)
  const [reason, setReason] = useState('')
  const { model, host } = splitId(id)
  const stat = useStats('5m').instances.get(`${service} ${id}`) ?? empty
  const change = (instance: { enabled?: boolean; weight?: number }, said: string) => edit.mutateAsync({ edit: { kind: 'update', service, id, instance }, version, said })
  const hold = (state: 'OPEN' | 'AUTO') =>
    data(api.POST('/api/config/instance/circuit-breaker/{serviceType}', { params: { path: { serviceType: service } }, body: { instanceId: id, state, ...(reason === '' ? {} : { reason }) } }) as never).then(() => {
      toast(t(state === 'OPEN' ? 'res.held' : 'res.isAuto', { id: model }))
      return client.invalidateQueries({ queryKey: ['shares'] })
    })
  const test = useMutation({ mutationFn: () => data(api.POST('/api/config/instance/test/{serviceType}', { params: { path: { serviceType: service } }, body: { instanceId: id } as never })) as Promise<TestResult> })
  const off = denied !== undefined || edit.isPending
  return (
    <div className="bar" role="group" aria-label={t('wrong.actions')} title={denied}>
      <button type="button" className="btn" disabled={off || test.isPending} onClick={() => test.mutate()}>{t('wrong.test')}</button>
      {enabled ? (
        <button type="button" className="btn" disabled={off} onClick={() => setAsks('off')}>{t('wrong.disable')}</button>
      ) : (
        <button type="button" className="btn" disabled={off} onClick={() => void change({ enabled: true }, t('services.enabled', { id: model }))}>{t('wrong.enable')}</button>
      )}
      {weight > 0 ? (
        <button type="button" className="btn" disabled={off} onClick={() => setAsks('drain')}>{t('wrong.drain')}</button>
      ) : (
        <button type="button" className="btn" disabled={off} onClick={() => void change({ weight: 1 }, t('services.weightIs', { n: 1 }))}>{t('wrong.undrain')}</button>
      )}
      {forced ? (
        <button type="button" className="btn" disabled={off} onClick={() => void hold('AUTO')}>{t('wrong.release')}</button>
      ) : (
        <button type="button" className="btn" disabled={off} onClick={() => { setReason(''); setAsks('hold') }}>{t('wrong.hold')}</button>
      )}
      <Link className="btn ghost" to="/services" search={{ edit: `${service}/${id}` } as never} aria-disabled={saved === undefined}>{t('wrong.edit')}</Link>
      {test.data !== undefined && <span className={test.data.ok ? 'soft' : 'bad'} role="status">{test.data.ok ? t('wrong.testOk', { ms: text(duration(test.data.durationMs)) }) : t('wrong.testFailed', { text: test.data.upstreamError ?? String(test.data.httpStatus ?? '') })}</span>}
      {test.error !== null && <span className="bad" role="status">{test.error.message}</span>}
      {asks !== null && (
        <Confirm
          title={t(asks === 'off' ? 'wrong.disableTitle' : asks === 'drain' ? 'wrong.drainTitle' : 'wrong.holdTitle', { model })}
          action={t(asks === 'off' ? 'wrong.disable' : asks === 'drain' ? 'wrong.drain' : 'wrong.hold')}
          onClose={() => setAsks(null)}
          onConfirm={() => (asks === 'off' ? change({ enabled: false }, t('services.disabled', { id: model })) : asks === 'drain' ? change({ weight: 0 }, t('services.weightIs', { n: 0 })) : hold('OPEN'))}
        >
          <p>{t('wrong.effect', { host, rate: rate(stat.rate) })}</p>
          {asks === 'hold' && <TextField label={t('wrong.reason')} value={reason} maxLength={200} onChange={setReason} />}
        </Confirm>
      )}
    </div>
  )
}

/** A setting without what is empty, which says nothing. */
function told(value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value
  const kept = Object.entries(value).map(([key, item]) => [key, told(item)] as const)
  return Object.fromEntries(kept.filter(([key, item]) => key !== 'instanceId' && item !== '' && item !== null && item !== 0 && item !== false && !(typeof item === 'object' && Object.keys(item as object).length === 0)))
}
