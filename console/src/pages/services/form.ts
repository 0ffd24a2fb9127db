import type { Instance, InstanceChanges, Provider } from '@/api/types'
import type { Key } from '@/i18n'
import { addressOf } from '@/lib/address'

/** The instance as it is typed: everything is text until it is saved. */
export interface InstanceForm {
  /** One model by its name, all models that the backend lists, or those that match patterns. */
  serves: 'one' | 'all' | 'some'
  name: string
  /** Patterns of names, separated by commas. */
  patterns: string
  baseUrl: string
  path: string
  upstreamModel: string
  /** Empty keeps the stored key. */
  apiKey: string
  weight: string
  tier: string
  adapter: string
  apiVersion: string
  proxy: string
  maxConcurrency: string
  /** Empty is what is usual. */
  batchConcurrency: string
  /** The memory that its model shares with others. */
  group: string
  forwardAuthorization: boolean
  accountIds: boolean
  headers: string
}

/** The members that a browser keeps nowhere. */
export const secretFields = ['apiKey', 'headers', 'proxy'] as const satisfies readonly (keyof InstanceForm)[]

const discover = 'discover'

/** The texts of a list with commas, without those that are empty. */
export const listOf = (text: string): string[] => text.split(/[,，\n]/).map((one) => one.trim()).filter((one) => one !== '')

export function toForm(instance: Instance | null): InstanceForm {
  const models = instance?.models ?? []
  return {
    serves: models.length === 0 ? 'one' : models[0] === discover ? 'all' : 'some',
    name: instance?.name ?? '',
    patterns: models[0] === discover ? '' : models.join(', '),
    baseUrl: instance?.baseUrl ?? '',
    path: instance?.path ?? '',
    upstreamModel: instance?.upstreamModel ?? '',
    apiKey: '',
    weight: String(instance?.weight ?? 1),
    tier: String(instance?.tier ?? 0),
    adapter: instance?.adapter ?? '',
    apiVersion: instance?.apiVersion ?? '',
    proxy: instance?.proxy ?? '',
    maxConcurrency: instance?.maxConcurrency === -1 ? 'auto' : String(instance?.maxConcurrency ?? 0),
    batchConcurrency: instance?.batchConcurrency == null ? '' : String(instance.batchConcurrency),
    group: instance?.residency?.group ?? '',
    forwardAuthorization: instance?.forwardAuthorization ?? false,
    accountIds: instance?.accountIds ?? false,
    headers: Object.entries(instance?.headers ?? {})
      .map(([name, value]) => `${name}: ${value}`)
      .join('\n'),
  }
}

/** The provider whose address the form has. */
export const providerOf = (known: readonly Provider[], form: Pick<InstanceForm, 'baseUrl'>): Provider | undefined =>
  known.find((one) => one.baseUrl === form.baseUrl.trim().replace(/\/+$/, '').replace(/\/v1$/, ''))

/** The form with the address of a provider; without one the address is typed. */
export const withProvider = (form: InstanceForm, provider: Provider | undefined): InstanceForm => ({
  ...form,
  baseUrl: provider?.baseUrl ?? '',
  adapter: provider?.adapter ?? '',
  path: provider?.path ?? '',
})

export function parseHeaders(text: string): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const line of text.split('\n')) {
    const colon = line.indexOf(':')
    if (colon > 0) headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim()
  }
  return headers
}

/** Only what differs from the stored instance: the rest stays as it is. */
export function changes(form: InstanceForm, stored: Instance | null): InstanceChanges {
  const base = toForm(stored)
  const isNew = stored === null
  const changed: InstanceChanges = {}
  const differs = (field: keyof InstanceForm) => isNew || form[field] !== base[field]
  if (form.serves === 'one') {
    if (differs('name') || base.serves !== 'one') changed.name = form.name.trim()
    if (base.serves !== 'one') changed.models = []
  } else if (isNew || form.serves !== base.serves || (form.serves === 'some' && differs('patterns'))) {
    if (isNew || base.serves === 'one') changed.name = ''
    changed.models = form.serves === 'all' ? [discover] : listOf(form.patterns)
  }
  if (differs('baseUrl')) changed.baseUrl = addressOf(form.baseUrl) ?? form.baseUrl.trim()
  if (differs('path')) changed.path = form.path.trim()
  if (form.serves === 'one' && differs('upstreamModel')) changed.upstreamModel = form.upstreamModel.trim()
  if (form.apiKey !== '') changed.apiKey = form.apiKey
  if (differs('weight')) changed.weight = Number(form.weight)
  if (differs('tier')) changed.tier = Number(form.tier)
  if (differs('adapter')) changed.adapter = form.adapter as InstanceChanges['adapter']
  if (differs('apiVersion')) changed.apiVersion = form.apiVersion.trim()
  if (differs('proxy')) changed.proxy = form.proxy.trim()
  if (differs('maxConcurrency')) changed.maxConcurrency = isAuto(form.maxConcurrency) ? 'auto' : Number(form.maxConcurrency)
  if (differs('batchConcurrency')) changed.batchConcurrency = form.batchConcurrency.trim() === '' ? null : Number(form.batchConcurrency)
  if (differs('group') && (!isNew || form.group.trim() !== '')) changed.residency = { group: form.group.trim() }
  if (differs('forwardAuthorization')) changed.forwardAuthorization = form.forwardAuthorization
  if (differs('accountIds')) changed.accountIds = form.accountIds
  if (differs('headers')) changed.headers = parseHeaders(form.headers)
  return changed
}

/** What the form itself can tell to be wrong; the rest is the server's word. */
export function validate(form: InstanceForm): Partial<Record<keyof InstanceForm, Key>> {
  const errors: Partial<Record<keyof InstanceForm, Key>> = {}
  if (form.serves === 'one' && form.name.trim() === '') errors.name = 'services.required'
  if (form.serves === 'some' && listOf(form.patterns).length === 0) errors.patterns = 'services.required'
  if (addressOf(form.baseUrl) === null) errors.baseUrl = 'services.invalidUrl'
  const weight = Number(form.weight)
  if (form.weight.trim() === '' || !Number.isFinite(weight) || weight < 0 || weight > 1_000_000) errors.weight = 'services.invalidWeight'
  if (!isWhole(form.tier, 0, 100)) errors.tier = 'services.invalidTier'
  if (!isAuto(form.maxConcurrency) && !isWhole(form.maxConcurrency, 0, Number.MAX_SAFE_INTEGER)) errors.maxConcurrency = 'services.invalidWhole'
  if (form.batchConcurrency.trim() !== '' && !isWhole(form.batchConcurrency, 0, Number.MAX_SAFE_INTEGER)) errors.batchConcurrency = 'services.invalidWhole'
  return errors
}

/** Whether the number is learned. */
function isAuto(text: string): boolean {
  return text.trim() === 'auto'
}

function isWhole(text: string, min: number, max: number): boolean {
  const value = Number(text)
  return /^\d+$/.test(text.trim()) && value >= min && value <= max
}


/** Whether an instance serves a model that its backend lists: all, or those of a pattern, in which * stands for any text. */
export const includes = (models: readonly string[], model: string): boolean => models.some((pattern) => pattern === discover || matches(pattern, model))

function matches(pattern: string, name: string): boolean {
  const [first = '', ...parts] = pattern.split('*')
  const last = parts.pop()
  if (last === undefined) return name === first
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false
  const end = name.length - last.length
  let from = first.length
  for (const part of parts) {
    const at = name.indexOf(part, from)
    if (at < 0 || at + part.length > end) return false
    from = at + part.length
  }
  return true
}

/** How an instance is called in lists: its model, or what stands in place of one. */
export function label(instance: Pick<Instance, 'name' | 'models'>): string {
  const models = instance.models ?? []
  if (models.length === 0) return instance.name
  return models[0] === discover ? '*' : models.join(', ')
}

/** An instance without what a file leaves out: its identifier, and what has no value. */
export function inFile(instance: object): object {
  const empty = (value: unknown) => value === undefined || value === null || value === '' || value === 0 || value === false || (typeof value === 'object' && Object.keys(value as object).length === 0)
  return Object.fromEntries(Object.entries(instance).filter(([name, value]) => name === 'weight' || name === 'enabled' ? value !== (name === 'weight' ? 1 : true) : name !== 'instanceId' && !empty(value)))
}
