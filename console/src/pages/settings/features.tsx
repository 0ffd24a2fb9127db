import { useQuery } from '@tanstack/react-query'
import { useEffect, useState, type ReactNode } from 'react'
import { useEdit } from '@/api/mutations'
import { config } from '@/api/queries'
import { serviceTypes, type BalanceStrategy, type ServiceType } from '@/api/types'
import { useI18n, type Key } from '@/i18n'
import { strategyLabel, strategyNames } from '@/pages/services/strategies'
import { Guard } from '@/shell/guard'
import { ErrorNote } from '@/ui/feedback'
import { SelectField, TextField } from '@/ui/field'
import { Toggle } from '@/ui/parts'
import { cachedServices, section, typedDuration, useSection } from './sections'

/** What a feature costs. */
function Cost({ of }: { of: Key }) {
  const { t } = useI18n()
  return <p className="hint mt-1 mb-3">{t(of)}</p>
}

function Heading({ id, title, children }: { id: string; title: Key; children: ReactNode }) {
  const { t } = useI18n()
  return (
    <section id={id} aria-label={t(title)}>
      <div className="h2">
        <h2>{t(title)}</h2>
      </div>
      <div className="panel p-4">{children}</div>
    </section>
  )
}

/** Strategy, residency and resumed streams of a service type, each saved at once. */
export function ServiceFeatures() {
  const { t } = useI18n()
  const query = useQuery(config)
  const [chosen, setChosen] = useState<ServiceType>('chat')
  const edit = useEdit()
  const services = query.data?.services ?? {}
  const known = serviceTypes.filter((type) => services[type] !== undefined)
  const type = known.includes(chosen) ? chosen : known[0]
  const service = type === undefined ? undefined : services[type]
  const save = (value: object) => type !== undefined && edit.mutate({ edit: { kind: 'service', service: type, value }, version: query.data?.version, said: type })
  return (
    <Heading id="routing" title="set.routing">
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {edit.error !== null && <ErrorNote error={edit.error} title={t('set.notSaved')} />}
      {type === undefined || service === undefined ? (
        <p className="hint">{t('set.noServices')}</p>
      ) : (
        <Guard needs="config:type:write" say>
          <SelectField<ServiceType> label={t('set.serviceType')} value={type} options={known.map((value) => ({ value, label: value }))} onChange={setChosen} />
          <div className="mt-3">
            <SelectField
              label={t('set.strategy')}
              value={service.loadBalancer as BalanceStrategy}
              options={(Object.keys(strategyNames) as BalanceStrategy[]).map((value) => ({ value, label: strategyLabel(t, value) }))}
              disabled={edit.isPending}
              onChange={(loadBalancer) => save({ loadBalancer })}
            />
            <Cost of="set.strategyCost" />
          </div>
          <Toggle checked={service.residency?.enabled ?? false} disabled={edit.isPending} onChange={(enabled) => save({ residency: { enabled } })}>
            {t('set.residency')}
          </Toggle>
          <Cost of="set.residencyCost" />
          <Toggle checked={service.streams?.resume === 'continue'} disabled={edit.isPending} onChange={(on) => save({ streams: { resume: on ? 'continue' : 'off' } })}>
            {t('set.resume')}
          </Toggle>
          <Cost of="set.resumeCost" />
        </Guard>
      )}
    </Heading>
  )
}

/** The cache of answers. */
export function AnswerCache() {
  const { t, failure } = useI18n()
  const query = useQuery(section('answer-cache'))
  const save = useSection('answer-cache')
  const [ttl, setTTL] = useState('')
  const [size, setSize] = useState('')
  const stored = query.data
  useEffect(() => {
    if (stored === undefined) return
    setTTL(typedDuration(stored.ttl))
    setSize(stored.maxBytes)
  }, [stored])
  if (query.error !== null) return <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />
  return (
    <Heading id="answer-cache" title="set.cache">
      <Guard needs="config:settings:write" say>
        <div className="flab mb-1">{t('set.cacheServices')}</div>
        <div className="row flex-wrap !gap-4">
          {cachedServices.map((type) => (
            <Toggle
              key={type}
              checked={stored?.services.includes(type) ?? false}
              disabled={stored === undefined || save.isPending}
              onChange={(on) => save.mutate({ services: cachedServices.filter((other) => (other === type ? on : stored?.services.includes(other))) })}
            >
              {type}
            </Toggle>
          ))}
        </div>
        <Cost of="set.cacheCost" />
        <Toggle checked={stored?.singleFlight ?? false} disabled={stored === undefined || save.isPending} onChange={(singleFlight) => save.mutate({ singleFlight })}>
          {t('set.singleFlight')}
        </Toggle>
        <Cost of="set.singleFlightCost" />
        <form
          className="saverow"
          onSubmit={(event) => {
            event.preventDefault()
            save.mutate({ ttl, maxBytes: size })
          }}
        >
          <TextField label={t('set.cacheTTL')} mono value={ttl} onChange={setTTL} />
          <TextField label={t('set.maxBytes')} mono value={size} onChange={setSize} />
          <button type="submit" className="btn" disabled={stored === undefined || save.isPending || (ttl === typedDuration(stored.ttl) && size === stored.maxBytes)}>
            {t('common.save')}
          </button>
        </form>
        {save.error !== null && <div className="msg mt-1">{failure(save.error)}</div>}
      </Guard>
    </Heading>
  )
}

/** Calls on disk. */
export function CallsFile() {
  const { t, failure } = useI18n()
  const query = useQuery(section('calls-file'))
  const save = useSection('calls-file')
  const [days, setDays] = useState('')
  const [size, setSize] = useState('')
  const stored = query.data
  useEffect(() => {
    if (stored === undefined) return
    setDays(String(stored.days))
    setSize(stored.maxBytes)
  }, [stored])
  if (query.error !== null) return <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />
  return (
    <Heading id="calls-file" title="set.callsFile">
      <Guard needs="config:settings:manage" say>
        <Toggle checked={stored?.enabled ?? false} disabled={stored === undefined || save.isPending} onChange={(enabled) => save.mutate({ enabled })}>
          {t('set.callsFileOn')}
        </Toggle>
        <Cost of="set.callsFileCost" />
        <form
          className="saverow"
          onSubmit={(event) => {
            event.preventDefault()
            save.mutate({ days: Number(days), maxBytes: size })
          }}
        >
          <TextField label={t('set.callsDays')} mono inputMode="numeric" value={days} onChange={setDays} />
          <TextField label={t('set.maxBytes')} mono value={size} onChange={setSize} />
          <button type="submit" className="btn" disabled={stored === undefined || save.isPending || (days === String(stored.days) && size === stored.maxBytes)}>
            {t('common.save')}
          </button>
        </form>
        {save.error !== null && <div className="msg mt-1">{failure(save.error)}</div>}
      </Guard>
    </Heading>
  )
}
