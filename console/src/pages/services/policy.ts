import type { Service, ServiceInput } from '@/api/types'
import type { Pair } from '@/ui/pairs'
import { listOf } from './form'

/** The policies of a service as they are typed: names of models are rows until they are saved. */
export interface PolicyForm {
  value: Omit<Service, 'instances' | 'aliases' | 'fallbacks'>
  aliases: Pair[]
  /** A model, and those that take over from it, separated by commas. */
  fallbacks: Pair[]
}

/** The form of what is stored, with a row for an alias that is to be made. */
export function toPolicyForm(service: Service, alias = ''): PolicyForm {
  const { aliases, fallbacks, ...rest } = service
  const value: Partial<Service> = rest
  delete value.instances
  return {
    value: value as PolicyForm['value'],
    aliases: [...Object.entries(aliases ?? {}), ...(alias === '' || aliases?.[alias] !== undefined ? [] : [[alias, ''] as Pair])],
    fallbacks: Object.entries(fallbacks ?? {}).map(([model, others]) => [model, others.join(', ')]),
  }
}

export const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)
const filled = (pairs: Pair[]) => pairs.filter(([name, value]) => name.trim() !== '' || value.trim() !== '')

/** Only what differs from the stored policies, member by member; a table of names is sent whole. */
export function policyChanges(form: PolicyForm, stored: Service): ServiceInput {
  const changed: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(form.value)) {
    const before = stored[name as keyof Service]
    if (same(value, before)) continue
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      changed[name] = value
      continue
    }
    const members = Object.entries(value).filter(([member, now]) => !same(now, (before as Record<string, unknown> | undefined)?.[member]))
    // Without the word, a limit that is written is switched on.
    changed[name] = { ...(name === 'rateLimit' ? { enabled: (value as Service['rateLimit']).enabled } : {}), ...Object.fromEntries(members) }
  }
  const aliases = Object.fromEntries(filled(form.aliases).map(([name, model]) => [name.trim(), model.trim()]))
  if (!same(aliases, stored.aliases ?? {})) changed.aliases = aliases
  const fallbacks = Object.fromEntries(filled(form.fallbacks).map(([model, others]) => [model.trim(), listOf(others)]))
  if (!same(fallbacks, stored.fallbacks ?? {})) changed.fallbacks = fallbacks
  return changed
}
