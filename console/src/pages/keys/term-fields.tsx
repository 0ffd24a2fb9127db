import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { errorsAt } from '@/api/client'
import { priorities, serviceTypes, type Place } from '@/api/types'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { SelectField, TextField } from '@/ui/field'
import { Toggle } from '@/ui/parts'
import { runsAreOn } from '../runs/api'
import { budgetUnits, budgetWindows, limitNames, runUnits, type TermForm } from './form'
import { ModelsField } from './models-field'

type Budgets = Place['terms']['budgets']

/** What a key or a tenant may use, and how much of it. */
export function TermFields({ form, set, errors, fixed, within, children }: {
  form: TermForm
  set<K extends keyof TermForm>(field: K, next: TermForm[K]): void
  errors: Record<string, string>
  fixed: boolean
  /** The tenant of a person who makes keys within its terms: there is less to say, and what is left out becomes what they allow. */
  within?: Place
  /** What stands between the models and the addresses. */
  children?: ReactNode
}) {
  const { t } = useI18n()
  return (
    <>
      <TextField label={t('key.expires')} extra={(within?.terms.expiresAt ?? '') === '' ? t('key.expiresHint') : t('own.expiresHint', { time: stamp(within!.terms.expiresAt).slice(0, 16) })} type="datetime-local" value={form.expiresAt} error={errorsAt(errors, 'expiresAt')} name="expiresAt" onChange={(next) => set('expiresAt', next)} />

      <div className="sub">{t('key.may')}</div>
      <div className="f">
        <div className="flab">{t('key.services')}</div>
        <div className="row flex-wrap !gap-x-4">
          {/* It goes off by choosing one: a key that may use no service is none. */}
          <Toggle disabled={fixed || form.services.length === 0} checked={form.services.length === 0} onChange={() => set('services', [])}>
            {t('key.anyService')}
          </Toggle>
          {serviceTypes.map((type) => (
            <Toggle key={type} disabled={fixed} checked={form.services.includes(type)} onChange={(on) => set('services', serviceTypes.filter((other) => (other === type ? on : form.services.includes(other))))}>
              {t(`pg.${type}`)}
            </Toggle>
          ))}
        </div>
        {errorsAt(errors, 'services') !== undefined && <div className="msg">{errorsAt(errors, 'services')}</div>}
      </div>
      <ModelsField value={form.models} offers={within?.models.map(({ id }) => id)} error={errorsAt(errors, 'models')} disabled={fixed} onChange={(next) => set('models', next)} />
      {within === undefined && (
        <>
          <TextField label={t('key.instances')} mono value={form.instances} placeholder="*@https://eu.example*" hint={t('key.instancesHint')} error={errorsAt(errors, 'instances')} name="instances" onChange={(next) => set('instances', next)} />
          {children}
          <TextField label={t('key.addresses')} mono value={form.addresses} placeholder="10.0.0.0/8" hint={t('key.addressesHint')} error={errorsAt(errors, 'addresses')} name="addresses" onChange={(next) => set('addresses', next)} />

          <SelectField
            label={t('key.priority')}
            hint={t('key.priorityHint')}
            error={errorsAt(errors, 'priority')}
            name="priority"
            disabled={fixed}
            value={form.priority}
            options={[{ value: '', label: t('key.byDefault') }, ...priorities.map((name) => ({ value: name, label: t(`common.${name}`) }))]}
            onChange={(next) => set('priority', next)}
          />
        </>
      )}

      <div className="sub">{t('key.limits')}</div>
      <div className="three">
        {limitNames.map((name) => (
          <TextField key={name} label={t(`key.limit.${name}`)} inputMode="numeric" value={form.limits[name]} placeholder={(within?.terms.limits[name] ?? 0) > 0 ? String(within!.terms.limits[name]) : t('key.byDefault')} error={errorsAt(errors, `limits.${name}`)} name={`limits.${name}`} onChange={(next) => set('limits', { ...form.limits, [name]: next })} />
        ))}
      </div>
      <p className="hint mb-2">{t(within === undefined ? 'key.limitsHint' : 'own.limitsHint')}</p>

      <div className="sub">{t('key.budgets')}</div>
      <BudgetFields budgets={form.budgets} errors={errors} allowed={within?.terms.budgets} hint={within === undefined ? undefined : t('own.budgetsHint')} onChange={(next) => set('budgets', next)} />
      {within === undefined && <RunFields values={form.runs} errors={errors} onChange={(next) => set('runs', next)} />}
    </>
  )
}

/** Budgets of requests, tokens and money, by day, by month and in all. */
export function BudgetFields({ budgets, errors, allowed, hint, onChange }: {
  budgets: TermForm['budgets']
  errors: Record<string, string>
  /** What is shown where nothing is typed. */
  allowed?: Budgets
  hint?: string
  onChange(budgets: TermForm['budgets']): void
}) {
  const { t } = useI18n()
  return (
    <>
      <div className="bgrid" role="group" aria-label={t('key.budgets')}>
        <span />
        {budgetUnits.map((unit) => (
          <span key={unit} className="flab">
            {t(`key.budget.${unit}`)}
          </span>
        ))}
        {budgetWindows.map((window) => (
          <BudgetRow key={window} allowed={allowed?.[window]} window={window} values={budgets[window]} bad={(unit) => errorsAt(errors, `budgets.${window}.${unit}`) !== undefined} onChange={(next) => onChange({ ...budgets, [window]: next })} />
        ))}
      </div>
      {errorsAt(errors, 'budgets') !== undefined ? (
        <div className="msg mt-1" role="alert">
          <code>budgets</code>: {errorsAt(errors, 'budgets')}
        </div>
      ) : (
        <p className="hint mt-1">{hint ?? t('key.budgetsHint')}</p>
      )}
    </>
  )
}

/** What each run of an agent may use, where the gateway governs runs or the terms have such limits. */
function RunFields({ values, errors, onChange }: { values: TermForm['runs']; errors: Record<string, string>; onChange(values: TermForm['runs']): void }) {
  const { t } = useI18n()
  const { data: isOn = false } = useQuery(runsAreOn)
  if (!isOn && runUnits.every((unit) => values[unit] === '')) return null
  return (
    <>
      <div className="sub">{t('runs.each')}</div>
      <div className="three">
        {runUnits.map((unit) => (
          <TextField key={unit} label={t(`runs.unit.${unit}`)} inputMode={unit === 'time' ? undefined : 'decimal'} value={values[unit]} placeholder={unit === 'time' ? '4h' : '–'} error={errorsAt(errors, `runs.${unit}`)} name={`runs.${unit}`} onChange={(next) => onChange({ ...values, [unit]: next })} />
        ))}
      </div>
      <p className="hint mb-2">{t('runs.eachHint')}</p>
    </>
  )
}

function BudgetRow({ window, values, allowed, bad, onChange }: {
  window: (typeof budgetWindows)[number]
  values: TermForm['budgets']['day']
  allowed: Budgets['day']
  bad(unit: (typeof budgetUnits)[number]): boolean
  onChange(values: TermForm['budgets']['day']): void
}) {
  const { t } = useI18n()
  const name = t(`key.window.${window}`)
  return (
    <>
      <span className="flab">{name}</span>
      {budgetUnits.map((unit) => (
        <div key={unit} className={`inp ${bad(unit) ? 'err' : ''}`}>
          <input className="text-right" inputMode="decimal" aria-label={`${name}${t('common.comma')}${t(`key.budget.${unit}`)}`} aria-invalid={bad(unit)} placeholder={String(allowed?.[unit] ?? '–')} value={values[unit]} onChange={(event) => onChange({ ...values, [unit]: event.target.value })} />
        </div>
      ))}
    </>
  )
}
