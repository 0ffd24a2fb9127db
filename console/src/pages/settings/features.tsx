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
import { cachedServices, section, typedDuration, useSection, type SectionName, type Sections } from './sections'

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
          <SelectField<ServiceType> label={t('set.serviceType')} value={type} options={known.map((value) => ({ value, label: t(`pg.${value}`) }))} onChange={setChosen} />
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

/** A section of the configuration: switches that are saved at once, and texts that are saved together. */
function SectionForm<N extends SectionName>({ of, title, needs, texts, change, children }: {
  of: N
  title: Key
  needs: string
  texts: { label: Key; shown(stored: Sections[N]): string; numeric?: true }[]
  /** What saves the texts. */
  change(values: string[]): object
  children(stored: Sections[N] | undefined, save: (change: object) => void, isOff: boolean): ReactNode
}) {
  const { t, failure } = useI18n()
  const query = useQuery(section(of))
  const save = useSection(of)
  const [typed, setTyped] = useState<string[]>([])
  const stored = query.data
  const was = stored === undefined ? undefined : texts.map(({ shown }) => shown(stored))
  const wasText = JSON.stringify(was ?? [])
  useEffect(() => setTyped(JSON.parse(wasText) as string[]), [wasText])
  if (query.error !== null) return <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />
  const isOff = stored === undefined || save.isPending
  return (
    <Heading id={of} title={title}>
      <Guard needs={needs} say>
        {children(stored, save.mutate, isOff)}
        <form
          className="saverow"
          onSubmit={(event) => {
            event.preventDefault()
            save.mutate(change(typed))
          }}
        >
          {texts.map(({ label, numeric }, at) => (
            <TextField key={label} label={t(label)} mono inputMode={numeric ? 'numeric' : undefined} value={typed[at] ?? ''} onChange={(next) => setTyped(texts.map((_, n) => (n === at ? next : (typed[n] ?? ''))))} />
          ))}
          <button type="submit" className="btn" disabled={isOff || typed.every((text, at) => text === was?.[at])}>
            {t('common.save')}
          </button>
        </form>
        {save.error !== null && <div className="msg mt-1">{failure(save.error)}</div>}
      </Guard>
    </Heading>
  )
}

/** The cache of answers. */
export function AnswerCache() {
  const { t } = useI18n()
  return (
    <SectionForm
      of="answer-cache"
      title="set.cache"
      needs="config:settings:write"
      texts={[
        { label: 'set.cacheTTL', shown: ({ ttl }) => typedDuration(ttl) },
        { label: 'set.maxBytes', shown: ({ maxBytes }) => maxBytes },
      ]}
      change={([ttl, maxBytes]) => ({ ttl, maxBytes })}
    >
      {(stored, save, isOff) => (
        <>
          <div className="flab mb-1">{t('set.cacheServices')}</div>
          <div className="row flex-wrap !gap-4">
            {cachedServices.map((type) => (
              <Toggle
                key={type}
                checked={stored?.services.includes(type) ?? false}
                disabled={isOff}
                onChange={(on) => save({ services: cachedServices.filter((other) => (other === type ? on : stored?.services.includes(other))) })}
              >
                {t(`pg.${type}`)}
              </Toggle>
            ))}
          </div>
          <Cost of="set.cacheCost" />
          <Toggle checked={stored?.singleFlight ?? false} disabled={isOff} onChange={(singleFlight) => save({ singleFlight })}>
            {t('set.singleFlight')}
          </Toggle>
          <Cost of="set.singleFlightCost" />
        </>
      )}
    </SectionForm>
  )
}

/** Calls on disk. */
export function CallsFile() {
  const { t } = useI18n()
  return (
    <SectionForm
      of="calls-file"
      title="set.callsFile"
      needs="config:settings:manage"
      texts={[
        { label: 'set.callsDays', shown: ({ days }) => String(days), numeric: true },
        { label: 'set.maxBytes', shown: ({ maxBytes }) => maxBytes },
      ]}
      change={([days, maxBytes]) => ({ days: Number(days), maxBytes })}
    >
      {(stored, save, isOff) => (
        <>
          <Toggle checked={stored?.enabled ?? false} disabled={isOff} onChange={(enabled) => save({ enabled })}>
            {t('set.callsFileOn')}
          </Toggle>
          <Cost of="set.callsFileCost" />
        </>
      )}
    </SectionForm>
  )
}
