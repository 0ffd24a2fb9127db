// Where the rows and cables of the patch bay are. Nothing here draws.
import { serviceTypes, type ServiceType } from '@/api/types'
import { empty, type Stat, type Stats } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { inTrouble } from '@/ui/status'

export const rowHeight = 22
export const tallRow = 52
const hostHeight = 24
const serviceGap = 12
const padding = 6
/** More jacks than this on a side are folded. */
const maxRows = 24
/** Stands for the backends that are folded into one line. */
export const otherHosts = '*'
/** Up to this many instances rows are tall and carry more readings. */
const tallUpTo = 6

export type CableKind = 'flow' | 'idle' | 'half' | 'open' | 'unreachable' | 'none'

export interface ModelRow {
  key: string
  service: ServiceType
  model: string
  /** The name of the service is shown in its first row only. */
  first: boolean
  y: number
  stat: Stat
  kind: CableKind
}

export interface HostRow {
  host: string
  y: number
  jacks: number
  carrying: number
}

export interface JackRow {
  key: string
  y: number
  /** One instance, or all unremarkable ones of a folded host, or of otherHosts. */
  instances: InstanceState[]
  host: string
  folded: boolean
  stat: Stat
  /** The part of its model's requests that it got, as its rate says; null for folded hosts. */
  share: number | null
  kind: CableKind
}

export interface Cable {
  key: string
  model: string
  jack: string
  y1: number
  y2: number
  width: number
  kind: CableKind
}

export interface Bay {
  tall: boolean
  folding: boolean
  height: number
  models: ModelRow[]
  hosts: HostRow[]
  jacks: JackRow[]
  cables: Cable[]
  /** Models without traffic that are folded into one line. */
  hidden: number
  hiddenY: number
}

export interface Options {
  /** Hosts that a person has unfolded. */
  unfolded: ReadonlySet<string>
  showIdle: boolean
}

export const modelKey = (instance: InstanceState) => `${instance.service} ${instance.model}`
export const jackKey = (instance: InstanceState) => `${instance.service} ${instance.id}`

export function kindOf(instance: InstanceState, rate: number): CableKind {
  if (!instance.enabled || instance.weight === 0) return 'none'
  if (instance.breaker === 'OPEN') return 'open'
  if (instance.breaker === 'HALF_OPEN') return 'half'
  if (instance.health === 'UNHEALTHY') return 'unreachable'
  return rate > 0 ? 'flow' : 'idle'
}

const severity: CableKind[] = ['none', 'idle', 'flow', 'half', 'unreachable', 'open']
const worst = (kinds: CableKind[]) => kinds.reduce((a, b) => (severity.indexOf(b) > severity.indexOf(a) ? b : a), 'none' as CableKind)

function order(instances: readonly InstanceState[]): InstanceState[] {
  return instances.toSorted((a, b) => serviceTypes.indexOf(a.service) - serviceTypes.indexOf(b.service))
}

function group<T, K>(items: T[], key: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>()
  for (const item of items) {
    const list = groups.get(key(item))
    if (list === undefined) groups.set(key(item), [item])
    else list.push(item)
  }
  return groups
}

/** A cable is as thick as its requests a second, in steps that do not flicker. */
export function cableWidth(rate: number, max: number): number {
  const width = 1.2 + 6.6 * (max > 0 ? rate / max : 0) ** 0.7
  return Math.round(width * 2) / 2
}

export function layout(all: readonly InstanceState[], stats: Stats, options: Options): Bay {
  const instances = order(all)
  const statOf = (instance: InstanceState) => stats.instances.get(jackKey(instance)) ?? empty
  const tall = instances.length <= tallUpTo
  const byModel = group(instances, modelKey)
  const folding = !tall && (instances.length > maxRows || byModel.size > maxRows)
  const kinds = new Map(instances.map((instance) => [jackKey(instance), kindOf(instance, statOf(instance).rate)]))

  const right = placeJacks(instances, byModel, statOf, kinds, { tall, folding, unfolded: options.unfolded })
  const jackOf = new Map<string, JackRow>()
  for (const jack of right.jacks) for (const instance of jack.instances) jackOf.set(jackKey(instance), jack)

  const left = placeModels(byModel, stats, kinds, jackOf, { tall, folding, showIdle: options.showIdle })
  const rates = new Map<string, { model: ModelRow; jack: JackRow; rate: number; kinds: CableKind[] }>()
  for (const model of left.models) {
    for (const instance of byModel.get(model.key) ?? []) {
      const jack = jackOf.get(jackKey(instance))!
      const key = `${model.key}\n${jack.key}`
      const found = rates.get(key) ?? { model, jack, rate: 0, kinds: [] }
      found.rate += statOf(instance).rate
      found.kinds.push(kinds.get(jackKey(instance))!)
      rates.set(key, found)
    }
  }
  const max = Math.max(0, ...[...rates.values()].map((cable) => cable.rate))
  const cables = [...rates].map(([key, { model, jack, rate, kinds: parts }]): Cable => {
    const kind = worst(parts)
    const width = kind === 'flow' ? cableWidth(rate, max) : kind === 'idle' ? 1.3 : 2.5
    return { key, model: model.key, jack: jack.key, y1: model.y, y2: jack.y, width, kind }
  })
  const drawn: CableKind[] = ['idle', 'flow', 'half', 'unreachable', 'open']
  return {
    tall,
    folding,
    height: Math.max(left.height, right.height),
    models: left.models,
    hosts: right.hosts,
    jacks: right.jacks,
    hidden: left.hidden,
    hiddenY: left.hiddenY,
    // Thick cables lie below thin ones, and trouble lies on top.
    cables: cables
      .filter((cable) => cable.kind !== 'none')
      .sort((a, b) => drawn.indexOf(a.kind) - drawn.indexOf(b.kind) || b.width - a.width),
  }
}

function placeJacks(
  instances: InstanceState[],
  byModel: Map<string, InstanceState[]>,
  statOf: (instance: InstanceState) => Stat,
  kinds: Map<string, CableKind>,
  how: { tall: boolean; folding: boolean; unfolded: ReadonlySet<string> },
): { jacks: JackRow[]; hosts: HostRow[]; height: number } {
  const jacks: JackRow[] = []
  const hosts: HostRow[] = []
  let y = padding
  const put = (row: Omit<JackRow, 'y'>) => {
    const height = how.tall ? tallRow : rowHeight
    jacks.push({ ...row, y: y + height / 2 })
    y += height
  }
  const single = (instance: InstanceState): Omit<JackRow, 'y'> => {
    const stat = statOf(instance)
    const total = (byModel.get(modelKey(instance)) ?? []).reduce((sum, other) => sum + statOf(other).requests, 0)
    return {
      key: jackKey(instance), instances: [instance], host: instance.host, folded: false, stat,
      share: total === 0 ? null : stat.requests / total, kind: kinds.get(jackKey(instance))!,
    }
  }
  if (how.tall) {
    for (const instance of instances) put(single(instance))
    return { jacks, hosts, height: y + padding }
  }
  const byHost = group(instances, (instance) => instance.host)
  const others = how.folding ? quietest(byHost, statOf, how.unfolded) : []
  const showsAll = how.unfolded.has(otherHosts)
  for (const [host, members] of byHost) {
    const fold = how.folding && !how.unfolded.has(host)
    if (!showsAll && others.includes(host)) continue
    if (!fold) {
      hosts.push({ host, y: y + hostHeight / 2, jacks: members.length, carrying: members.filter((member) => statOf(member).rate > 0).length })
      y += hostHeight
      for (const member of members) put(single(member))
      continue
    }
    // Trouble never folds: it keeps a row and a cable of its own.
    const quiet = members.filter((member) => !inTrouble(member))
    if (quiet.length > 0) {
      const stat = sum(quiet.map(statOf))
      put({ key: `host ${host}`, instances: quiet, host, folded: true, stat, share: null, kind: stat.rate > 0 ? 'flow' : 'idle' })
    } else {
      hosts.push({ host, y: y + hostHeight / 2, jacks: members.length, carrying: 0 })
      y += hostHeight
    }
    for (const member of members) if (inTrouble(member)) put(single(member))
  }
  if (others.length > 0 && showsAll) {
    hosts.push({ host: otherHosts, y: y + hostHeight / 2, jacks: 0, carrying: 0 })
    y += hostHeight
  } else if (others.length > 0) {
    const members = others.flatMap((host) => byHost.get(host)!)
    const stat = sum(members.map(statOf))
    put({ key: `host ${otherHosts}`, instances: members, host: otherHosts, folded: true, stat, share: null, kind: stat.rate > 0 ? 'flow' : 'idle' })
  }
  return { jacks, hosts, height: y + padding }
}

/** The backends with the least traffic and without trouble that are too many for a row each. */
function quietest(byHost: Map<string, InstanceState[]>, statOf: (instance: InstanceState) => Stat, unfolded: ReadonlySet<string>): string[] {
  const rateOf = (members: InstanceState[]) => members.reduce((total, member) => total + statOf(member).rate, 0)
  let rows = 0
  const calm: { host: string; rate: number }[] = []
  for (const [host, members] of byHost) {
    const troubled = members.filter(inTrouble).length
    rows += unfolded.has(host) ? members.length : troubled + (troubled < members.length ? 1 : 0)
    if (troubled === 0 && !unfolded.has(host)) calm.push({ host, rate: rateOf(members) })
  }
  const excess = rows <= maxRows ? 0 : rows - maxRows + 1
  return calm.toSorted((a, b) => a.rate - b.rate).slice(0, excess).map(({ host }) => host)
}

function placeModels(
  byModel: Map<string, InstanceState[]>,
  stats: Stats,
  kinds: Map<string, CableKind>,
  jackOf: Map<string, JackRow>,
  how: { tall: boolean; folding: boolean; showIdle: boolean },
): { models: ModelRow[]; hidden: number; hiddenY: number; height: number } {
  const models: ModelRow[] = []
  const height = how.tall ? tallRow : rowHeight
  let y = padding
  let last: ServiceType | null = null
  let hidden = 0
  for (const [key, members] of byModel) {
    const { service, model } = members[0]!
    const stat = stats.models.get(key) ?? empty
    const memberKinds = members.map((member) => kinds.get(jackKey(member))!)
    if (how.folding && !how.showIdle && byModel.size > maxRows && stat.requests === 0 && !members.some(inTrouble)) {
      hidden++
      continue
    }
    if (last !== null && last !== service && !how.tall) y += serviceGap
    let middle = y + height / 2
    if (how.tall) {
      const ys = members.map((member) => jackOf.get(jackKey(member))!.y)
      middle = Math.max(middle, ys.reduce((sum, value) => sum + value, 0) / ys.length)
    }
    const served = memberKinds.some((kind) => kind === 'flow' || kind === 'idle')
    models.push({
      key, service, model, first: last !== service, y: middle, stat,
      // A model is in trouble when none of its instances can serve.
      kind: served ? (stat.rate > 0 ? 'flow' : 'idle') : worst(memberKinds),
    })
    y = middle + height / 2
    last = service
  }
  const hiddenY = y + rowHeight / 2
  return { models, hidden, hiddenY, height: y + (hidden > 0 ? rowHeight : 0) + padding }
}

function sum(stats: Stat[]): Stat {
  const requests = stats.reduce((total, stat) => total + stat.requests, 0)
  const errors = stats.reduce((total, stat) => total + stat.errors, 0)
  const p95s = stats.map((stat) => stat.p95).filter((value) => value !== null)
  return {
    requests, errors,
    rate: stats.reduce((total, stat) => total + stat.rate, 0),
    errorRate: requests === 0 ? null : errors / requests,
    p95: p95s.length === 1 ? p95s[0]! : null, // several have no figure in common
    firstToken: null,
  }
}
