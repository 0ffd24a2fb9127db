import type { Config } from '@/api/queries'
import { listOf } from '@/pages/services/form'

const mostOffered = 24

/** The names that requests can ask for: models as they are configured and found, and aliases. */
export function namesOf(services: Config, live: readonly string[]): string[] {
  const configured = Object.values(services).flatMap((service) => [...service.instances.map((instance) => instance.name), ...Object.keys(service.aliases ?? {})])
  return [...new Set([...configured, ...live])].filter((name) => name !== '' && name !== '*').sort((a, b) => a.localeCompare(b))
}

/** What is being typed behind the last comma, while it is no whole name. */
const typing = (text: string, names: readonly string[]) => {
  const last = text.split(/[,，\n]/).at(-1)!.trim()
  return names.includes(last) ? '' : last
}

/** The names that are written down. */
export const chosen = (text: string): string[] => listOf(text)

/** The names to choose from: those that are chosen, and those that have what is being typed in them. */
export function offered(names: readonly string[], text: string): string[] {
  const part = typing(text, names).toLowerCase()
  const list = chosen(text)
  const fits = (name: string) => list.includes(name) || part === '' || name.toLowerCase().includes(part)
  const found = names.filter(fits)
  return (found.length === 0 ? names : found).slice(0, mostOffered)
}

/** The text after a name was chosen, or taken away; what was typed to find it makes way for it. */
export function toggled(text: string, name: string): string {
  const list = chosen(text)
  if (list.includes(name)) return list.filter((one) => one !== name).join(', ')
  const part = typing(text, [])
  const rest = part !== '' && !part.includes('*') && name.toLowerCase().includes(part.toLowerCase()) ? list.slice(0, -1) : list
  return [...rest, name].join(', ')
}
