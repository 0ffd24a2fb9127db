import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Box, Building2, KeyRound, Power, PowerOff, Server, SlidersHorizontal, Terminal } from 'lucide-react'
import { useMemo, type ReactNode } from 'react'
import { useEdit } from '@/api/mutations'
import { keys, spentThisMonth, terms } from '@/api/queries'
import { serviceTypes } from '@/api/types'
import { useI18n, type I18n, type Key } from '@/i18n'
import { shorten } from '@/lib/format'
import { useLive } from '@/live/context'
import type { InstanceState } from '@/live/types'
import { HealthGlyph } from '@/ui/glyphs'
import { condition } from '@/ui/status'
import { useDenied } from './guard'
import { useMe } from './session'

/** Something that the search leads to, or does. */
export interface Item {
  group: Key
  icon: ReactNode
  label: ReactNode
  run(): void
}

/** How many things of a kind are listed. */
const most = 6

/** Settings by their names, and where each is. */
const settings: { title: Key; to: string; search?: Record<string, string>; hash?: string; needs: string }[] = [
  { title: 'set.routing', to: '/settings', hash: 'routing', needs: 'config:type:read' },
  { title: 'set.cache', to: '/settings', hash: 'answer-cache', needs: 'monitoring:config:read' },
  { title: 'set.callsFile', to: '/settings', hash: 'calls-file', needs: 'monitoring:config:read' },
  { title: 'set.alerts', to: '/settings', hash: 'alerts', needs: 'monitoring:config:read' },
  { title: 'set.monitoring', to: '/settings', hash: 'monitoring', needs: 'monitoring:config:read' },
  { title: 'set.capture', to: '/settings', hash: 'monitoring', needs: 'monitoring:config:read' },
  { title: 'res.degradation', to: '/settings', hash: 'recording', needs: 'monitoring:config:read' },
  { title: 'set.loggers', to: '/settings', hash: 'loggers', needs: 'monitoring:config:read' },
  { title: 'set.appearance', to: '/settings', needs: 'monitoring:config:read' },
  { title: 'set.health', to: '/settings', needs: 'monitoring:config:read' },
  { title: 'set.downloads', to: '/settings', needs: 'monitoring:config:read' },
  { title: 'quota.budgets', to: '/spend', search: { view: 'ledger' }, needs: 'config:quota:read' },
  { title: 'spend.view.ledger', to: '/spend', search: { view: 'ledger' }, needs: 'config:quota:read' },
  { title: 'key.create', to: '/keys', search: { create: '1' }, needs: 'auth:key:manage' },
  { title: 'services.add', to: '/services', search: { add: 'chat' }, needs: 'config:instance:write' },
]

export type Verb = 'disable' | 'enable' | 'drain'
const verbWords: Record<Verb, Key> = { disable: 'wrong.disable', enable: 'wrong.enable', drain: 'wrong.drain' }

/** "disable gpu2" as what is to be done and to what, in English and in the language of the page; null where it begins with no verb. */
export function readVerb(query: string, t: I18n['t']): { verb: Verb; rest: string } | null {
  const text = query.trim().toLowerCase()
  for (const verb of Object.keys(verbWords) as Verb[]) {
    for (const word of [verb, t(verbWords[verb]).toLowerCase()]) {
      if (text.startsWith(word)) return { verb, rest: text.slice(word.length).trim() }
    }
    const [first = '', ...rest] = text.split(/\s+/)
    if (rest.length > 0 && first.length >= 3 && verb.startsWith(first)) return { verb, rest: rest.join(' ') }
  }
  return null
}

const unique = (names: readonly string[]) => [...new Set(names)].filter((name) => name !== '')

/** The objects of the gateway that a text finds: models, instances, hosts, tenants, keys and settings, and what can be done with them. */
export function useFinds(query: string): Item[] {
  const i18n = useI18n()
  const { t } = i18n
  const { snapshot } = useLive()
  const navigate = useNavigate()
  const mayKeys = useDenied('auth:key:manage') === undefined
  const mayTerms = useDenied('config:terms:read') === undefined
  const mayChange = useDenied('config:instance:write') === undefined
  const { data: issued } = useQuery({ ...keys, enabled: mayKeys, retry: false })
  const { data: termed } = useQuery({ ...terms, enabled: mayTerms, retry: false })
  const { data: spent } = useQuery({ ...spentThisMonth('tenant'), retry: false })
  const edit = useEdit()
  const { mutate } = edit
  return useMemo(() => {
    const needle = query.toLowerCase()
    if (needle === '') return []
    const has = (text: string) => text.toLowerCase().includes(needle)
    const go = (to: string, search: Record<string, string> = {}, hash?: string) => void navigate({ to, search: search as never, hash })
    const instances = snapshot?.instances ?? []
    const items: Item[] = []
    const asked = readVerb(query, t)
    if (asked !== null && mayChange) items.push(...actions(asked, instances, i18n, go, (instance) => mutate({ edit: { kind: 'update', service: instance.service, id: instance.id, instance: { enabled: true } }, said: t('services.enabled', { model: instance.model, host: instance.host }) })))
    const models = new Map(instances.filter((one) => has(one.model)).map((one) => [`${one.service} ${one.model}`, one]))
    for (const { service, model } of [...models.values()].slice(0, most)) {
      items.push({ group: 'palette.jacks', icon: <Box className="ic" aria-hidden />, label: <><code>{shorten(model)}</code> <span className="muted">{service}</span></>, run: () => go('/model', { service, id: model }) })
    }
    for (const instance of instances.filter((one) => has(one.id)).slice(0, most)) {
      const state = condition(instance)
      items.push({
        group: 'palette.jacks',
        icon: <HealthGlyph state={state === 'ok' ? 'healthy' : state === 'disabled' ? 'disabled' : 'unhealthy'} />,
        label: <><code>{shorten(instance.model)}</code> <span className="muted">{instance.host}</span></>,
        run: () => go('/instance', { service: instance.service, id: instance.id }),
      })
    }
    for (const host of unique(instances.map((one) => one.host)).filter(has).slice(0, most)) {
      items.push({ group: 'palette.hosts', icon: <Server className="ic" aria-hidden />, label: <code>{host}</code>, run: () => go('/host', { id: host }) })
    }
    const tenants = unique([...(termed?.tenants ?? []).map((one) => one.name), ...(issued ?? []).map((one) => one.tenant), ...(spent?.costs.keys() ?? [])])
    for (const tenant of tenants.filter(has).slice(0, most)) {
      items.push({ group: 'palette.tenants', icon: <Building2 className="ic" aria-hidden />, label: <code>{shorten(tenant)}</code>, run: () => go('/tenant', { id: tenant }) })
    }
    for (const key of (issued ?? []).filter((one) => has(one.id)).slice(0, most)) {
      items.push({ group: 'palette.keys', icon: <KeyRound className="ic" aria-hidden />, label: <><code>{shorten(key.id)}</code> <span className="muted">{key.tenant}</span></>, run: () => go('/keys', { key: key.id }) })
    }
    for (const { service, model } of [...models.values()].slice(0, 3)) {
      items.push({ group: 'palette.actions', icon: <Terminal className="ic" aria-hidden />, label: t('palette.try', { model }), run: () => go('/playground', { type: service, model }) })
    }
    return items
  }, [query, t, i18n, snapshot, issued, termed, spent, mayChange, navigate, mutate])
}

/** The settings that a text finds. */
export function useSettings(query: string): Item[] {
  const { t } = useI18n()
  const navigate = useNavigate()
  const me = useMe()
  const may = (needs: string) => me === null || me.permissions.includes(needs)
  const needle = query.toLowerCase()
  if (needle === '') return []
  const icon = <SlidersHorizontal className="ic" aria-hidden />
  const found: Item[] = settings
    .filter(({ title, needs }) => may(needs) && t(title).toLowerCase().includes(needle))
    .map(({ title, to, search = {}, hash }) => ({ group: 'palette.settings', icon, label: t(title), run: () => void navigate({ to, search: search as never, hash }) }))
  const policies = may('config:type:read') ? serviceTypes.map((service) => ({ service, label: t('services.policy', { service }) })) : []
  const words = [t('services.limiter'), t('services.breakerTitle'), t('services.balancing'), t('services.timeoutsTitle')].map((word) => word.toLowerCase())
  for (const { service, label } of policies.filter((one) => one.label.toLowerCase().includes(needle) || words.some((word) => word.includes(needle))).slice(0, most)) {
    found.push({ group: 'palette.settings', icon, label, run: () => void navigate({ to: '/services', search: { policy: service } as never }) })
  }
  return found
}

/** What a verb does to the instances and hosts that are named; what takes something out asks first, on its page. */
function actions({ verb, rest }: { verb: Verb; rest: string }, instances: readonly InstanceState[], { t }: I18n, go: (to: string, search: Record<string, string>) => void, enable: (instance: InstanceState) => void): Item[] {
  const fits = (instance: InstanceState) => (verb === 'enable' ? !instance.enabled : instance.enabled && (verb === 'disable' || instance.weight > 0))
  const named = instances.filter((one) => fits(one) && one.id.toLowerCase().includes(rest))
  const icon = verb === 'enable' ? <Power className="ic" aria-hidden /> : <PowerOff className="ic" aria-hidden />
  const items: Item[] = []
  if (verb !== 'drain' && rest !== '') {
    for (const host of unique(named.map((one) => one.host)).filter((name) => name.toLowerCase().includes(rest)).slice(0, 3)) {
      const n = named.filter((one) => one.host === host).length
      items.push({ group: 'palette.actions', icon, label: t(verb === 'disable' ? 'palette.disableHost' : 'palette.enableHost', { n, host }), run: () => go('/host', { id: host, act: verb }) })
    }
  }
  for (const instance of named.slice(0, most)) {
    items.push({
      group: 'palette.actions',
      icon,
      label: t(`palette.${verb}`, { model: instance.model, host: instance.host }),
      run: () => (verb === 'enable' ? enable(instance) : go('/instance', { service: instance.service, id: instance.id, act: verb === 'disable' ? 'off' : 'drain' })),
    })
  }
  return items
}
