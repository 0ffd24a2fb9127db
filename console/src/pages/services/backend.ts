import { api, ApiError, data } from '@/api/client'
import type { Discovered, InstanceInput, ServiceType } from '@/api/types'
import { serviceTypes } from '@/api/types'
import { changes, toForm, type InstanceForm } from './form'

type Found = Discovered['models'][number]

/** A backend that has told what it is and which models it has. */
export interface Backend extends Discovered {
  baseUrl: string
}

/** Tells the models of a backend apart: one name may have several service types. */
export const keyOf = (model: Pick<Found, 'id' | 'serviceType'>): string => `${model.serviceType} ${model.id}`

/** How callers ask for a model. */
export const nameOf = (model: Found): string => model.name ?? model.id

/** The models that can be added, all of which are chosen at first. */
export const addable = (backend: Pick<Discovered, 'models'>): Found[] => backend.models.filter((model) => !model.exists)

/** The service types of models, in the usual order. */
export const typesOf = (models: readonly Found[]): ServiceType[] => serviceTypes.filter((type) => models.some((model) => model.serviceType === type))

/**
 * The instances that a backend is added as: one for each model that is chosen, or one for each service
 * type that it has models of, which then serves what the backend lists later as well.
 */
export function instancesOf(backend: Backend, form: InstanceForm, chosen: ReadonlySet<string>, isLater: boolean): { serviceType: ServiceType; instance: InstanceInput }[] {
  const rest = usedOf({ ...form, baseUrl: backend.baseUrl, adapter: form.adapter === '' ? backend.adapter : form.adapter })
  if (isLater) return typesOf(backend.models).map((serviceType) => ({ serviceType, instance: { ...rest, models: ['discover'] } }))
  return addable(backend)
    .filter((model) => chosen.has(keyOf(model)))
    .map((model) => ({ serviceType: model.serviceType, instance: { ...rest, name: nameOf(model), ...(model.name === undefined ? {} : { upstreamModel: model.id }) } }))
}

/** What is typed of an instance beside its model, without what is as it is by default. */
function usedOf(form: InstanceForm): InstanceInput {
  const [typed, usual] = [changes({ ...form, serves: 'all' }, null), changes({ ...toForm(null), serves: 'all' }, null)] as [Record<string, unknown>, Record<string, unknown>]
  return Object.fromEntries(Object.entries(typed).filter(([name, value]) => name !== 'models' && JSON.stringify(value) !== JSON.stringify(usual[name]))) as InstanceInput
}

/**
 * Asks a backend what it is, at the first of the addresses where one answers. Where none does, the
 * answer of the likeliest address says why.
 */
export async function ask(addresses: readonly string[], form: Pick<InstanceForm, 'apiKey' | 'adapter'>, signal: AbortSignal): Promise<Backend> {
  const askAt = async (baseUrl: string): Promise<Backend> => ({
    baseUrl,
    ...(await data(api.POST('/api/config/discover', { body: { baseUrl, ...(form.apiKey === '' ? {} : { apiKey: form.apiKey }), ...(form.adapter === '' ? {} : { adapter: form.adapter as never }) }, signal }))),
  })
  const first = askAt(addresses[0]!)
  const answers = [first, ...addresses.slice(1).map(askAt)].map(async (answer) => {
    const backend = await answer
    if (backend.models.length === 0) throw new Error(backend.baseUrl)
    return backend
  })
  return Promise.any(answers).catch(() => first)
}

/** Whether an error is about the address that was asked. */
export const isOfAddress = (error: unknown): boolean => error instanceof ApiError && (error.said ?? []).some((sentence) => sentence.field === 'baseUrl')
