import { useState } from 'react'
import { fieldErrors } from '@/api/client'
import { useEdit } from '@/api/mutations'
import type { Service, ServiceInput, ServiceType } from '@/api/types'
import { useI18n } from '@/i18n'
import { axis, duration } from '@/lib/format'
import { Guard } from '@/shell/guard'
import { ErrorNote } from '@/ui/feedback'
import { SelectField, TextField } from '@/ui/field'
import { Confirm, Drawer } from '@/ui/overlay'
import { Toggle } from '@/ui/parts'
import { strategyNames } from './strategies'

type Group = 'rateLimit' | 'circuitBreaker' | 'healthCheck' | 'queue'

/** How a service balances, limits, breaks, queues and checks. */
export function PolicyDrawer({ service, value, version, onClose }: { service: ServiceType; value: Service; version: number; onClose(): void }) {
  const { t } = useI18n()
  const edit = useEdit()
  const [base] = useState({ value, version })
  const [form, setForm] = useState<Service>(value)
  const [deleting, setDeleting] = useState(false)
  const dirty = JSON.stringify(form) !== JSON.stringify(base.value)
  const errors = fieldErrors(edit.error)
  const set = (group: Group, field: string, next: unknown) => setForm((old) => ({ ...old, [group]: { ...(old[group] ?? {}), [field]: next } }))
  const number = (group: Group, field: string, label: string) => (
    <TextField
      label={label}
      name={`${group}.${field}`}
      inputMode="numeric"
      value={String((form[group] as Record<string, unknown> | undefined)?.[field] ?? '')}
      error={errors[`${group}.${field}`]}
      onChange={(next) => set(group, field, /^\d+$/.test(next) ? Number(next) : next)}
    />
  )
  const limit = form.rateLimit ?? {}
  const breaker = form.circuitBreaker ?? {}
  const capacity = Number(limit.capacity ?? 0)
  const refill = Number(limit.refillRate ?? 0)
  const wait = Number(breaker.recoveryTimeout ?? 0)
  const { instances, ...policies } = form
  return (
    <Drawer
      label={t('services.policy', { service })}
      title={t('services.policy', { service })}
      onClose={onClose}
      footer={
        <Guard needs="config:type:write">
          <button type="button" className="btn ghost text-bad" onClick={() => setDeleting(true)}>
            {t('services.deleteType', { service })}
          </button>
          <span className="grow" />
          <button
            type="button"
            className="btn pri"
            disabled={!dirty || edit.isPending}
            onClick={() => edit.mutate({ edit: { kind: 'service', service, value: policies as ServiceInput }, version: base.version, said: t('services.policySaved', { service }) }, { onSuccess: onClose })}
          >
            {t('services.saveAs', { n: base.version + 1 })}
          </button>
        </Guard>
      }
    >
      <Guard needs="config:type:write">
        {edit.error !== null && (
          <div className="mb-3">
            <ErrorNote error={edit.error} />
          </div>
        )}
        <SelectField
          label={t('services.balancing')}
          name="loadBalancer"
          value={form.loadBalancer ?? 'round_robin'}
          options={(Object.keys(strategyNames) as NonNullable<Service['loadBalancer']>[]).map((name) => ({ value: name, label: t(strategyNames[name]!) }))}
          onChange={(next) => setForm((old) => ({ ...old, loadBalancer: next }))}
        />

        <div className="sub">{t('services.limiter')}</div>
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
                value={limit.algorithm ?? 'token_bucket'}
                options={(['token_bucket', 'leaky_bucket', 'sliding_window', 'warm_up'] as const).map((name) => ({ value: name, label: name }))}
                onChange={(next) => set('rateLimit', 'algorithm', next)}
              />
              <SelectField
                label={t('services.scope')}
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
          </>
        )}

        <div className="sub">{t('services.breakerTitle')}</div>
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
          <Toggle checked={form.healthCheck?.enabled ?? false} onChange={(next) => set('healthCheck', 'enabled', next)}>
            {t('services.healthOn')}
          </Toggle>
        </div>
        {form.healthCheck?.enabled && (
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
        {deleting && (
          <Confirm
            title={t('services.deleteType', { service })}
            action={t('services.deleteType', { service })}
            typed={service}
            onClose={() => setDeleting(false)}
            onConfirm={() => edit.mutateAsync({ edit: { kind: 'delete', service }, version: base.version, said: '' }).then(onClose)}
          >
            {t('services.deleteTypeText', { service, n: instances?.length ?? 0 })}
          </Confirm>
        )}
      </Guard>
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
