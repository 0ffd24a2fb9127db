import { TriangleAlert } from 'lucide-react'
import { useMemo, useState } from 'react'
import { errorsAt, fieldErrors } from '@/api/client'
import { useEdit, useNextVersion } from '@/api/mutations'
import { priorities, type BalanceStrategy, type Service, type ServiceType } from '@/api/types'
import { useI18n } from '@/i18n'
import { axis, duration, rate } from '@/lib/format'
import { useStats } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { useDraft } from '@/shell/draft'
import { Guard } from '@/shell/guard'
import { useLeaveGuard } from '@/shell/leave'
import { DocsLink } from '@/ui/docs'
import { NotSaved } from '@/ui/conflict'
import { SelectField, TextField } from '@/ui/field'
import { FileText, FormViews, type FormView } from '@/ui/file-text'
import { Confirm, Drawer } from '@/ui/overlay'
import { PairsField } from '@/ui/pairs'
import { Toggle } from '@/ui/parts'
import { Limits } from './limits'
import { policyChanges, same, toPolicyForm } from './policy'
import { strategyNames } from './strategies'

type Group = 'rateLimit' | 'circuitBreaker' | 'healthCheck' | 'queue' | 'timeouts'
const reasons = ['unavailable', 'overloaded', 'context'] as const
const timeouts = ['connect', 'firstByte', 'firstToken', 'idle', 'total'] as const

/** How a service balances, limits, breaks, queues and checks, and which names its models have. */
export function PolicyDrawer({ service, alias, value, version, onClose }: { service: ServiceType; /** An alias that is to be made. */ alias?: string; value: Service; version: number; onClose(): void }) {
  const { t, said } = useI18n()
  const edit = useEdit()
  const [base, setBase] = useState({ value, version })
  const { value: form, set: setForm, ...draft } = useDraft(`policy ${service} ${alias ?? ''}`, () => toPolicyForm(value, alias))
  const [deleting, setDeleting] = useState(false)
  const [view, setView] = useState<FormView>('form')
  const stats = useStats('5m')
  const part = useMemo(() => policyChanges(form, base.value), [form, base.value])
  const dirty = Object.keys(part).length > 0 && !same(form, toPolicyForm(base.value, alias))
  const leave = useLeaveGuard(dirty, draft.drop)
  const next = useNextVersion(version)
  // While nothing is typed, what is saved elsewhere is what the form begins with.
  if (base.version !== version && !dirty && !edit.isPending && edit.error === null) {
    setBase({ value, version })
    draft.reset(toPolicyForm(value, alias))
  }
  usePageCalls([{ method: 'PUT', path: `/api/config/type/services/${service}`, body: part, version: base.version }])
  const errors = fieldErrors(edit.error, said)
  const typed = form.value
  const setValue = (next: Partial<typeof typed>) => setForm((old) => ({ ...old, value: { ...old.value, ...next } }))
  const set = (group: Group, field: string, next: unknown) => setForm((old) => ({ ...old, value: { ...old.value, [group]: { ...(old.value[group] ?? {}), [field]: next } } }))
  const number = (group: Group, field: string, label: string) => (
    <TextField
      key={field}
      label={label}
      name={`${group}.${field}`}
      inputMode="numeric"
      value={String((typed[group] as Record<string, unknown> | undefined)?.[field] ?? '')}
      error={errors[`${group}.${field}`]}
      onChange={(next) => set(group, field, /^\d+$/.test(next) ? Number(next) : next)}
    />
  )
  const limit = typed.rateLimit ?? {}
  const breaker = typed.circuitBreaker ?? {}
  const capacity = Number(limit.capacity ?? 0)
  const refill = Number(limit.refillRate ?? 0)
  const wait = Number(breaker.recoveryTimeout ?? 0)
  const models = [...new Set(value.instances.map((instance) => instance.name))].filter((name) => name !== '')
  const save = (onVersion: number) =>
    edit.mutate(
      { edit: { kind: 'service', service, value: part }, version: onVersion, said: t('services.policySaved', { service }) },
      {
        onSuccess: () => {
          leave.saved()
          onClose()
        },
      },
    )
  return (
    <Drawer
      label={t('services.policy', { service: t(`pg.${service}`) })}
      title={t('services.policy', { service: t(`pg.${service}`) })}
      tools={
        <FormViews label={t('common.form')} value={view} onChange={setView} />
      }
      onClose={onClose}
      footer={
        <Guard needs="config:type:write">
          <button type="button" className="btn ghost text-bad" onClick={() => setDeleting(true)}>
            {t('services.deleteType', { service })}
          </button>
          <span className="grow" />
          <button type="button" className="btn pri" disabled={!dirty || edit.isPending} onClick={() => save(base.version)}>
            {t('services.saveAs', { n: next })}
          </button>
        </Guard>
      }
    >
      {leave.note}
      {view === 'yaml' && <FileText value={{ services: { [service]: { ...form.value, aliases: part.aliases ?? base.value.aliases ?? {}, fallbacks: part.fallbacks ?? base.value.fallbacks ?? {} } } }} />}
      <div hidden={view === 'yaml'}>
      <Guard needs="config:type:write" say>
        <NotSaved
          error={edit.error}
          isAtField={Object.keys(errors).length > 0}
          base={{ ...base.value, instances: undefined }}
          theirs={{ ...value, instances: undefined }}
          mine={part}
          from={base.version}
          to={version}
          onBase={() => setBase({ value, version })}
          onKeep={() => save(version)}
          onTake={() => {
            draft.reset(toPolicyForm(value, alias))
            edit.reset()
          }}
        />
        {Object.keys(errors).length > 0 && (
          <div className="note bd mb-3" role="alert">
            <TriangleAlert className="ic" aria-hidden />
            <div>
              <b>{t('services.notSaved')}</b>
              {Object.entries(errors).map(([name, text]) => (
                <div key={name} className="wrap">
                  <code>{name}</code>: {text}
                </div>
              ))}
            </div>
          </div>
        )}
        <SelectField
          label={t('services.balancing')}
          name="loadBalancer"
          value={typed.loadBalancer ?? 'round_robin'}
          hint={typed.loadBalancer === 'least_time' ? t('services.leastTimeHint') : undefined}
          error={errors.loadBalancer}
          options={(Object.keys(strategyNames) as BalanceStrategy[]).map((name) => ({ value: name, label: t(strategyNames[name]) }))}
          onChange={(next) => setValue({ loadBalancer: next })}
        />

        <div className="sub">{t('services.names')}</div>
        <PairsField
          label={t('services.aliases')}
          hint={t('services.aliasesHint')}
          names={t('services.alias')}
          values={t('common.model')}
          options={[...models, ...form.aliases.map(([name]) => name)]}
          add={t('services.addAlias')}
          pairs={form.aliases}
          begin={alias}
          error={(name) => errorsAt(errors, `aliases["${name.trim()}"]`)}
          onChange={(aliases) => setForm((old) => ({ ...old, aliases }))}
        />
        <PairsField
          label={t('services.fallbacks')}
          hint={t('services.fallbacksHint')}
          names={t('common.model')}
          values={t('services.takeOver')}
          options={models}
          add={t('services.addFallback')}
          pairs={form.fallbacks}
          error={(name) => errorsAt(errors, `fallbacks["${name.trim()}"]`)}
          onChange={(fallbacks) => setForm((old) => ({ ...old, fallbacks }))}
        />
        {form.fallbacks.length > 0 && (
          <div className="f" role="group" aria-label={t('services.fallbackOn')}>
            <div className="flab">{t('services.fallbackOn')}</div>
            {reasons.map((reason) => (
              <Toggle key={reason} checked={(typed.fallbackOn ?? []).includes(reason)} onChange={(on) => setValue({ fallbackOn: reasons.filter((other) => (other === reason ? on : (typed.fallbackOn ?? []).includes(other))) })}>
                {t(`services.on.${reason}`)}
              </Toggle>
            ))}
            {errorsAt(errors, 'fallbackOn') !== undefined && <div className="msg">{errorsAt(errors, 'fallbackOn')}</div>}
          </div>
        )}

        <div className="sub row">
          <span className="grow">{t('services.limiter')}</span>
          <DocsLink page="limits" section="rate-limits">{t('guide.how')}</DocsLink>
        </div>
        <div className="mb-3">
          <Toggle checked={limit.enabled ?? false} onChange={(next) => set('rateLimit', 'enabled', next)}>
            {t('services.limitOn')}
          </Toggle>
        </div>
        {limit.enabled && (
          <>
            <div className="two">
              {number('rateLimit', 'capacity', t('services.capacity'))}
              {number('rateLimit', 'refillRate', t('services.refill'))}
              <SelectField
                label={t('services.algorithm')}
                error={errors['rateLimit.algorithm']}
                value={limit.algorithm ?? 'token_bucket'}
                options={(['token_bucket', 'leaky_bucket', 'sliding_window', 'warm_up'] as const).map((name) => ({ value: name, label: name }))}
                onChange={(next) => set('rateLimit', 'algorithm', next)}
              />
              <SelectField
                label={t('services.scope')}
                error={errors['rateLimit.scope']}
                value={limit.scope ?? 'service'}
                options={(['service', 'model', 'instance'] as const).map((name) => ({ value: name, label: t(`common.${name}`) }))}
                onChange={(next) => set('rateLimit', 'scope', next)}
              />
            </div>
            <div className="mb-2">
              <Toggle checked={limit.clientIpEnable ?? false} onChange={(next) => set('rateLimit', 'clientIpEnable', next)}>
                {t('services.perClient')}
              </Toggle>
            </div>
            <LimiterPicture capacity={capacity} refill={refill} />
            <p className="hint mb-2">{t('services.limitSentence', { capacity, rate: refill })}</p>
            <Limits service={service} />
          </>
        )}

        <div className="sub row">
          <span className="grow">{t('services.breakerTitle')}</span>
          <DocsLink page="failures" section="circuit-breaker">{t('guide.how')}</DocsLink>
        </div>
        <div className="mb-3">
          <Toggle checked={breaker.enabled ?? false} onChange={(next) => set('circuitBreaker', 'enabled', next)}>
            {t('services.breakerOn')}
          </Toggle>
        </div>
        {breaker.enabled && (
          <>
            <div className="three">
              {number('circuitBreaker', 'failureThreshold', t('services.failures'))}
              {number('circuitBreaker', 'recoveryTimeout', t('services.wait'))}
              {number('circuitBreaker', 'successThreshold', t('services.successes'))}
            </div>
            <BreakerPicture failures={Number(breaker.failureThreshold ?? 0)} wait={wait} successes={Number(breaker.successThreshold ?? 0)} />
            <p className="hint mb-2">
              {t('services.breakerSentence', { failures: breaker.failureThreshold ?? 0, wait: axis(duration(wait)), successes: breaker.successThreshold ?? 0 })}
            </p>
          </>
        )}

        <div className="sub">{t('services.healthTitle')}</div>
        <div className="mb-3">
          <Toggle checked={typed.healthCheck?.enabled ?? false} onChange={(next) => set('healthCheck', 'enabled', next)}>
            {t('services.healthOn')}
          </Toggle>
        </div>
        {typed.healthCheck?.enabled && (
          <div className="two">
            {number('healthCheck', 'interval', t('services.interval'))}
            {number('healthCheck', 'timeout', t('services.timeout'))}
          </div>
        )}
        <div className="sub">{t('services.queueTitle')}</div>
        <div className="two">
          {number('queue', 'size', t('services.queueSize'))}
          {number('queue', 'timeout', t('services.queueTimeout'))}
        </div>
        <SelectField
          label={t('key.priority')}
          hint={t('services.priorityHint')}
          error={errors.priority}
          name="priority"
          value={typed.priority ?? 'normal'}
          options={priorities.map((name) => ({ value: name, label: t(`common.${name}`) }))}
          onChange={(next) => setValue({ priority: next })}
        />
        <div className="sub">{t('services.timeoutsTitle')}</div>
        <div className="three">{timeouts.map((field) => number('timeouts', field, t(`services.timeouts.${field}`)))}</div>
        <p className="hint mb-2">{t('services.timeoutsHint')}</p>
        {deleting && (
          <Confirm
            title={t('services.deleteType', { service })}
            action={t('services.deleteType', { service })}
            typed={service}
            onClose={() => setDeleting(false)}
            onConfirm={() => edit.mutateAsync({ edit: { kind: 'delete', service }, version: base.version, said: '' }).then(() => {
                leave.saved()
                onClose()
              })}
          >
            {t('services.deleteTypeText', { service, n: value.instances.length })} {t('services.deleteTypeRate', { rate: rate(stats.services.get(service)?.rate ?? 0) })}
          </Confirm>
        )}
      </Guard>
      </div>
    </Drawer>
  )
}

/** A burst, then a rate. */
function LimiterPicture({ capacity, refill }: { capacity: number; refill: number }) {
  const max = Math.max(capacity, refill, 1)
  const y = (value: number) => 70 - (Math.max(0, value) / max) * 54
  return (
    <svg viewBox="0 0 300 84" width="100%" height="84" aria-hidden="true">
      <path d="M34 70H290M34 70V8" stroke="var(--control)" fill="none" />
      <path d={`M34 ${y(capacity)}H90V${y(refill)}H290V70H34z`} fill="var(--accent)" fillOpacity=".1" />
      <path d={`M34 ${y(capacity)}H90V${y(refill)}H290`} stroke="var(--accent)" strokeWidth="2" fill="none" />
      <g fontSize="11" fill="var(--ink-3)" textAnchor="end">
        <text x="30" y={y(capacity) + 4}>{capacity}</text>
        {Math.abs(y(refill) - y(capacity)) > 12 && <text x="30" y={y(refill) + 4}>{refill}</text>}
        <text x="290" y="82">10 s</text>
      </g>
    </svg>
  )
}

/** Closed, open, on trial, closed: on a line of time with the typed numbers. */
function BreakerPicture({ failures, wait, successes }: { failures: number; wait: number; successes: number }) {
  const { t } = useI18n()
  return (
    <svg viewBox="0 0 300 62" width="100%" height="62" aria-hidden="true">
      <path d="M6 20H76" stroke="var(--accent)" strokeWidth="3" />
      <path d="M76 20L86 42H176" stroke="var(--bad-fill)" strokeWidth="2" fill="none" />
      <path d="M176 42L186 31H236" stroke="var(--warn-fill)" strokeWidth="2" strokeDasharray="6 4" fill="none" />
      <path d="M236 31L246 20H294" stroke="var(--accent)" strokeWidth="3" fill="none" />
      <g fontSize="11" fill="var(--ink-3)">
        <text x="6" y="12">{t('breaker.closed')}</text>
        <text x="58" y="34" fill="var(--bad)" textAnchor="middle">{'✕'.repeat(Math.min(failures, 5))}{failures > 5 ? `…${failures}` : ''}</text>
        <text x="131" y="56" textAnchor="middle">{t('breaker.open')} · {axis(duration(wait))}</text>
        <text x="211" y="48" textAnchor="middle">{t('breaker.halfOpen')} · {successes}</text>
        <text x="294" y="12" textAnchor="end">{t('breaker.closed')}</text>
      </g>
    </svg>
  )
}
