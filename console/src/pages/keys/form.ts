import type { Key, KeyInput, Priority, ServiceType } from '@/api/types'
import { listOf } from '@/pages/services/form'
import { typedDuration } from '@/pages/settings/sections'

export const budgetWindows = ['day', 'month', 'total'] as const
export const budgetUnits = ['requests', 'tokens', 'cost'] as const
export const limitNames = ['requestsPerMinute', 'tokensPerMinute', 'concurrentRequests'] as const

export const runUnits = ['cost', 'tokens', 'requests', 'time', 'concurrency'] as const

export type BudgetWindow = (typeof budgetWindows)[number]
export type BudgetUnit = (typeof budgetUnits)[number]
export type LimitName = (typeof limitNames)[number]
export type RunUnit = (typeof runUnits)[number]

/** What a key or a tenant may do, as it is typed: everything is text until it is saved. */
export interface TermForm {
  services: ServiceType[]
  models: string
  instances: string
  addresses: string
  /** As a field of the browser has it: the time where the person is. */
  expiresAt: string
  /** Empty is what the tenant, security.defaults or the service says. */
  priority: Priority | ''
  /** Empty is what security.defaults says. */
  limits: Record<LimitName, string>
  /** Empty is no budget. */
  budgets: Record<BudgetWindow, Record<BudgetUnit, string>>
  /** What each run of an agent may use; empty is what the gateway says. */
  runs: Record<RunUnit, string>
}

export interface KeyForm extends TermForm {
  id: string
  tenant: string
  userHeader: string
}

/** Compiles only if the form has every term of the API: a new field is missing here by name. */
type Has<Want extends PropertyKey, Have extends PropertyKey> = [Want] extends [Have] ? true : Exclude<Want, Have>
type Within<T> = NonNullable<T>
type Budgets = Within<KeyInput['budgets']>
export const hasEveryTerm: [
  Has<keyof KeyInput, keyof KeyForm>,
  Has<keyof Within<KeyInput['limits']>, LimitName>,
  Has<keyof Budgets, BudgetWindow>,
  Has<keyof Within<Budgets[BudgetWindow]>, BudgetUnit>,
  Has<keyof Within<KeyInput['runs']>, RunUnit>,
] = [true, true, true, true, true]

/** The limits of each run of an agent: money as text, times in milliseconds or as typed. */
interface RunTerms {
  runs?: Partial<Record<RunUnit, number | string>>
}

/** The terms of a key or a tenant as the API has them. */
export type StoredTerms = Pick<Key, 'services' | 'models' | 'instances' | 'addresses' | 'expiresAt' | 'priority' | 'limits' | 'budgets'> & RunTerms

/** A time as a field of the browser wants it, in the time zone of the person. */
export function localTime(iso: string): string {
  const time = new Date(iso)
  if (iso === '' || Number.isNaN(time.getTime())) return ''
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

const text = (value: number | string | undefined) => (value === undefined || value === 0 ? '' : String(value))

export function toBudgetForm(budgets: Key['budgets']): TermForm['budgets'] {
  return Object.fromEntries(budgetWindows.map((window) => [window, Object.fromEntries(budgetUnits.map((unit) => [unit, text(budgets[window]?.[unit])]))])) as TermForm['budgets']
}

/** Budgets as the API has them, without those that are empty. */
export function wholeBudgets(form: TermForm['budgets']): object {
  return Object.fromEntries(
    budgetWindows.flatMap((window) => {
      const units = budgetUnits.filter((unit) => form[window][unit].trim() !== '')
      return units.length === 0 ? [] : [[window, Object.fromEntries(units.map((unit) => [unit, unit === 'cost' ? form[window][unit].trim() : numeric(form[window][unit])]))]]
    }),
  )
}

export function toTermForm(terms: StoredTerms | null): TermForm {
  return {
    services: terms?.services ?? [],
    models: (terms?.models ?? []).join(', '),
    instances: (terms?.instances ?? []).join(', '),
    addresses: (terms?.addresses ?? []).join(', '),
    expiresAt: localTime(terms?.expiresAt ?? ''),
    priority: terms?.priority ?? '',
    limits: Object.fromEntries(limitNames.map((name) => [name, text(terms?.limits[name])])) as TermForm['limits'],
    budgets: toBudgetForm(terms?.budgets ?? {}),
    runs: Object.fromEntries(runUnits.map((unit) => [unit, unit === 'time' ? lengthOf(Number(terms?.runs?.time ?? 0)) : text(terms?.runs?.[unit])])) as TermForm['runs'],
  }
}

/** Milliseconds as people type them. */
const lengthOf = (ms: number): string => (ms === 0 ? '' : typedDuration(ms))

export function toKeyForm(key: Key | null): KeyForm {
  return { id: key?.id ?? '', tenant: key?.tenant ?? '', userHeader: key?.userHeader ?? '', ...toTermForm(key) }
}

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)

/** Only what differs from the key as it is; what was emptied is sent as what the API calls none. */
export function keyChanges(form: KeyForm, stored: Key | null): KeyInput {
  const base = toKeyForm(stored)
  const changed: KeyInput = termChanges(form, stored)
  if (stored === null && form.id.trim() !== '') changed.id = form.id.trim()
  if (form.tenant.trim() !== base.tenant) changed.tenant = form.tenant.trim()
  if (form.userHeader.trim() !== base.userHeader) changed.userHeader = form.userHeader.trim()
  return changed
}

/** The same of the terms alone. */
export function termChanges(form: TermForm, stored: StoredTerms | null): Omit<KeyInput, 'id' | 'tenant' | 'userHeader'> {
  const base = toTermForm(stored)
  const changed: Omit<KeyInput, 'id' | 'tenant' | 'userHeader' | 'runs'> & RunTerms = {}
  if (!same(form.services, base.services)) changed.services = form.services
  if (form.models !== base.models) changed.models = listOf(form.models)
  if (form.instances !== base.instances) changed.instances = listOf(form.instances)
  if (form.addresses !== base.addresses) changed.addresses = listOf(form.addresses)
  if (form.expiresAt !== base.expiresAt) changed.expiresAt = form.expiresAt === '' ? '' : new Date(form.expiresAt).toISOString()
  if (form.priority !== base.priority) changed.priority = form.priority
  const limits = limitNames.filter((name) => form.limits[name].trim() !== base.limits[name])
  if (limits.length > 0) changed.limits = Object.fromEntries(limits.map((name) => [name, numeric(form.limits[name])]))
  for (const window of budgetWindows) {
    const units = budgetUnits.filter((unit) => form.budgets[window][unit].trim() !== base.budgets[window][unit])
    if (units.length === 0) continue
    changed.budgets ??= {}
    changed.budgets[window] = Object.fromEntries(units.map((unit) => [unit, unit === 'cost' ? form.budgets[window][unit].trim() || '0' : numeric(form.budgets[window][unit])]))
  }
  const runs = runUnits.filter((unit) => form.runs[unit].trim() !== base.runs[unit])
  if (runs.length > 0) changed.runs = Object.fromEntries(runs.map((unit) => [unit, runLimit(unit, form.runs[unit])]))
  return changed as Omit<KeyInput, 'id' | 'tenant' | 'userHeader'>
}

/** A limit of runs as the API takes it; what was emptied is none. */
function runLimit(unit: RunUnit, text: string): number | string {
  if (unit === 'cost') return text.trim() || '0'
  return unit === 'time' ? text.trim() || '0s' : numeric(text)
}

/** A number where it is one; other text goes to the gateway, whose words say what is wrong with it. */
function numeric(text: string): number {
  const value = text.trim() === '' ? 0 : Number(text)
  return (Number.isFinite(value) ? value : text) as number
}

/** The key as an item of security.keys has it; the hash stands for what only the gateway knows. */
export function keyInFile(form: KeyForm): object {
  const filled = (values: Record<string, string>) => Object.fromEntries(Object.entries(values).filter(([, value]) => value.trim() !== '').map(([name, value]) => [name, numeric(value)]))
  const notEmpty = (value: object) => Object.keys(value).length > 0
  const limits = filled(form.limits)
  const runs = Object.fromEntries(runUnits.filter((unit) => form.runs[unit].trim() !== '').map((unit) => [unit, unit === 'time' ? form.runs[unit].trim() : numeric(form.runs[unit])]))
  const budgets = Object.fromEntries(budgetWindows.map((window) => [window, filled(form.budgets[window])]).filter(([, value]) => notEmpty(value as object)))
  return {
    id: form.id.trim() === '' ? 'name-of-the-key' : form.id.trim(),
    ...(form.tenant.trim() === '' ? {} : { tenant: form.tenant.trim() }),
    keySha256: 'what patchbay tokens hash prints',
    ...(form.userHeader.trim() === '' ? {} : { userHeader: form.userHeader.trim() }),
    ...(form.services.length === 0 ? {} : { services: form.services.map((service) => service.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)) }),
    ...(listOf(form.models).length === 0 ? {} : { models: listOf(form.models) }),
    ...(listOf(form.instances).length === 0 ? {} : { instances: listOf(form.instances) }),
    ...(listOf(form.addresses).length === 0 ? {} : { addresses: listOf(form.addresses) }),
    ...(form.expiresAt === '' ? {} : { expiresAt: new Date(form.expiresAt).toISOString() }),
    ...(form.priority === '' ? {} : { priority: form.priority }),
    ...(notEmpty(limits) ? { limits } : {}),
    ...(notEmpty(budgets) ? { budgets } : {}),
    ...(notEmpty(runs) ? { runs } : {}),
  }
}
