import type { Instance, InstanceChanges } from '@/api/types'
import type { Key } from '@/i18n'

/** The instance as it is typed: everything is text until it is saved. */
export interface InstanceForm {
  name: string
  baseUrl: string
  path: string
  upstreamModel: string
  /** Empty keeps the stored key. */
  apiKey: string
  weight: string
  adapter: string
  maxConcurrency: string
  forwardAuthorization: boolean
  headers: string
}

export function toForm(instance: Instance | null): InstanceForm {
  return {
    name: instance?.name ?? '',
    baseUrl: instance?.baseUrl ?? '',
    path: instance?.path ?? '',
    upstreamModel: instance?.upstreamModel ?? '',
    apiKey: '',
    weight: String(instance?.weight ?? 1),
    adapter: instance?.adapter ?? '',
    maxConcurrency: String(instance?.maxConcurrency ?? 0),
    forwardAuthorization: instance?.forwardAuthorization ?? false,
    headers: Object.entries(instance?.headers ?? {})
      .map(([name, value]) => `${name}: ${value}`)
      .join('\n'),
  }
}

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
  const changed: InstanceChanges = {}
  const differs = (field: keyof InstanceForm) => stored === null || form[field] !== base[field]
  if (differs('name')) changed.name = form.name.trim()
  if (differs('baseUrl')) changed.baseUrl = form.baseUrl.trim()
  if (differs('path')) changed.path = form.path.trim()
  if (differs('upstreamModel')) changed.upstreamModel = form.upstreamModel.trim()
  if (form.apiKey !== '') changed.apiKey = form.apiKey
  if (differs('weight')) changed.weight = Number(form.weight)
  if (differs('adapter')) changed.adapter = form.adapter as InstanceChanges['adapter']
  if (differs('maxConcurrency')) changed.maxConcurrency = Number(form.maxConcurrency)
  if (differs('forwardAuthorization')) changed.forwardAuthorization = form.forwardAuthorization
  if (differs('headers')) changed.headers = parseHeaders(form.headers)
  return changed
}

/** What the form itself can tell to be wrong; the rest is the server's word. */
export function validate(form: InstanceForm): Partial<Record<keyof InstanceForm, Key>> {
  const errors: Partial<Record<keyof InstanceForm, Key>> = {}
  if (form.name.trim() === '') errors.name = 'services.required'
  if (!/^https?:\/\/\S+$/.test(form.baseUrl.trim())) errors.baseUrl = 'services.invalidUrl'
  const weight = Number(form.weight)
  if (form.weight.trim() === '' || !Number.isFinite(weight) || weight < 0 || weight > 1_000_000) errors.weight = 'services.invalidWeight'
  return errors
}
