import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Ellipsis, Plus } from 'lucide-react'
import { memo, useEffect, useRef, useState, type RefObject } from 'react'
import { useEdit } from '@/api/mutations'
import { shares } from '@/api/queries'
import type { Instance, InstanceChanges, Service, ServiceType } from '@/api/types'
import { useI18n } from '@/i18n'
import { axis, duration, host, percent, rate, text } from '@/lib/format'
import { empty, type Stats } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { GuardedLink, useDenied } from '@/shell/guard'
import { useToast } from '@/ui/feedback'
import { Menu, Name, Slider, Switch } from '@/ui/parts'
import { StatePill } from '@/ui/status'
import { label } from './form'
import { strategyLabel } from './strategies'

export interface Row {
  service: ServiceType
  id: string
  instance: Instance
  state: InstanceState | undefined
  /** The instances that this one has found at its backend; empty for one with a name. */
  found: InstanceState[]
}

/** The policies of a service in three links: balancing, limit, breaker. */
function Policies({ service, value }: { service: ServiceType; value: Service }) {
  const { t } = useI18n()
  const limit = value.rateLimit
  const names = () => {
    const [aliases, fallbacks] = [Object.keys(value.aliases ?? {}).length, Object.keys(value.fallbacks ?? {}).length]
    const said = [aliases > 0 ? t('services.aliasCount', { n: aliases }) : '', fallbacks > 0 ? t('services.fallbackCount', { n: fallbacks }) : ''].filter((text) => text !== '')
    return said.length === 0 ? t('services.namesLink') : said.join(t('common.comma'))
  }
  const breaker = value.circuitBreaker
  const words = [
    strategyLabel(t, value.loadBalancer),
    limit?.enabled ? t('services.limit', { capacity: limit.capacity ?? 0, rate: limit.refillRate ?? 0 }) : t('services.noLimit'),
    breaker?.enabled
      ? t('services.breaker', { failures: breaker.failureThreshold ?? 0, wait: axis(duration(Number(breaker.recoveryTimeout))), successes: breaker.successThreshold ?? 0 })
      : t('services.noBreaker'),
    names(),
  ]
  return (
    <span className="pol">
      {words.map((word) => (
        <Link key={word} to="/services" search={((old: object) => ({ ...old, policy: service, edit: undefined, add: undefined })) as never}>
          {word}
        </Link>
      ))}
    </span>
  )
}

export function ServiceGroup({ service, value, rows, stats, version, now, selected, isLast, onLast, onRemove }: {
  service: ServiceType
  value: Service
  rows: Row[]
  stats: Stats
  version: number
  now: number
  selected: string
  isLast(row: Row): boolean
  onLast(row: Row): void
  onRemove(row: Row): void
}) {
  const { t } = useI18n()
  const models = new Set(rows.map((row) => row.instance.name)).size
  const [body, near] = useNearRows(rows.length > manyRows)
  return (
    <section className="grp" aria-label={service}>
      <div className="gh">
        <h2>{service}</h2>
        <span className="muted trunc">{`${t('common.instances', { n: rows.length })}${t('common.comma')}${t('common.models', { n: models })}`}</span>
        <span className="grow" />
        <Policies service={service} value={value} />
        <GuardedLink needs="config:instance:write" className="btn sm" to="/services" search={((old: object) => ({ ...old, add: service, edit: undefined, policy: undefined })) as never}>
          <Plus className="ic s14" aria-hidden />
          {t('services.addInstance')}
        </GuardedLink>
      </div>
      <div className="panel">
        <table className="tbl fx svc">
          <thead>
            <tr>
              <th className="w-[52px]">
                <span className="sr-only">{t('common.on')}</span>
              </th>
              <th>{t('common.instance')}</th>
              <th className="w-[138px]">{t('common.state')}</th>
              <th className="lo w-[84px]">{t('services.dialect')}</th>
              <th className="cw">{t('common.weight')}</th>
              <th className="num csh" title={t('services.shareHint')}>
                {t('common.share')}
                <span className="lo"> / {t('res.expected')}</span>
              </th>
              <th className="num lo w-[62px]">{t('common.reqs')}</th>
              <th className="num lo w-[80px]">{t('common.p95')}</th>
              <th className="num w-[80px]">{t('common.errors')}</th>
              <th className="w-[52px]">
                <span className="sr-only">{t('common.more')}</span>
              </th>
            </tr>
          </thead>
          <tbody ref={body}>
            {rows.map((row) =>
              rows.length <= manyRows || near.has(row.id) || selected === `${service}/${row.id}` ? (
                <InstanceRow key={row.id} {...{ row, stats, version, now, onLast, onRemove }} isLast={isLast(row)} selected={selected === `${service}/${row.id}`} />
              ) : (
                <FarRow key={row.id} id={row.id} name={label(row.instance)} address={host(row.instance.baseUrl)} />
              ),
            )}
          </tbody>
        </table>
      </div>
    </section>
  )
}

/** Of more rows than these, only those in sight are whole: hundreds that change each second would hold up the page. */
const manyRows = 40

/** Which rows of a table are in sight, or nearly. */
function useNearRows(isOn: boolean): [RefObject<HTMLTableSectionElement | null>, ReadonlySet<string>] {
  const body = useRef<HTMLTableSectionElement>(null)
  const [near, setNear] = useState<ReadonlySet<string>>(new Set())
  useEffect(() => {
    const table = body.current
    if (!isOn || table === null) return
    const look = () => {
      const found = new Set<string>()
      for (const row of table.rows) {
        const { top, bottom } = row.getBoundingClientRect()
        if (bottom > -400 && top < innerHeight + 400) found.add(row.dataset.id ?? '')
      }
      setNear((old) => (old.size === found.size && [...found].every((id) => old.has(id)) ? old : found))
    }
    look()
    let frame = 0
    const soon = () => {
      cancelAnimationFrame(frame)
      frame = requestAnimationFrame(look)
    }
    const watch = new MutationObserver(soon) // rows come and go with the filter
    watch.observe(table, { childList: true })
    document.addEventListener('scroll', soon, { capture: true, passive: true })
    addEventListener('resize', soon)
    return () => {
      cancelAnimationFrame(frame)
      watch.disconnect()
      document.removeEventListener('scroll', soon, { capture: true })
      removeEventListener('resize', soon)
    }
  }, [isOn])
  return [body, near]
}

/** A row that is not in sight: its name, so that it can be found and reached by keys. */
const FarRow = memo(function FarRow({ id, name, address }: { id: string; name: string; address: string }) {
  return (
    <tr data-id={id}>
      <td />
      <td className="cut nmtd" colSpan={9}>
        <button type="button" className="nmad" title={id}>
          <code>{name}</code> <code className="muted">{address}</code>
        </button>
      </td>
    </tr>
  )
})

function InstanceRow({ row, stats, version, now, selected, isLast, onLast, onRemove }: {
  row: Row
  stats: Stats
  version: number
  now: number
  selected: boolean
  /** Nothing else serves its model. */
  isLast: boolean
  onLast(row: Row): void
  onRemove(row: Row): void
}) {
  const { t } = useI18n()
  const navigate = useNavigate()
  const toast = useToast()
  const edit = useEdit()
  const denied = useDenied('config:instance:write')
  const { instance, service, id } = row
  const [weight, setWeight] = useState<number | null>(null)
  const enabled = instance.enabled !== false
  const stat = stats.instances.get(`${service} ${id}`) ?? empty
  const discovers = (instance.models ?? []).length > 0
  const share = useQuery(shares).data?.find((one) => one.service === service && one.instanceId === id)
  const shown = weight ?? instance.weight ?? 1
  const open = () => void navigate({ to: '/services', search: ((old: object) => ({ ...old, edit: `${service}/${id}`, add: undefined, policy: undefined })) as never })
  const change = (part: InstanceChanges, said: string) =>
    edit.mutate({ edit: { kind: 'update', service, id, instance: part }, version, said }, { onError: (error) => toast(error.message), onSettled: () => setWeight(null) })
  // Arrow keys move the slider step by step; what is saved is where it comes to rest.
  const rest = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  useEffect(() => () => clearTimeout(rest.current), [])
  const latest = useRef(change)
  useEffect(() => {
    latest.current = change
  })
  const weigh = (next: number) => {
    clearTimeout(rest.current)
    rest.current = setTimeout(() => latest.current({ weight: next }, t('services.weightIs', { n: next })), 400)
  }
  return (
    <tr data-id={id} className={selected ? 'sel' : ''} aria-selected={selected}>
      <td title={denied}>
        <Switch
          checked={enabled}
          disabled={edit.isPending || denied !== undefined}
          label={t('services.enable', { id })}
          onChange={(next) => (!next && isLast ? onLast(row) : change({ enabled: next }, t(next ? 'services.enabled' : 'services.disabled', { id: instance.name })))}
        />
      </td>
      <td className="cut nmtd">
        <button type="button" className="nmad" title={id} onClick={open}>
          <Name className={`font-medium ${enabled ? '' : 'off'}`}>{instance.models?.[0] === 'discover' ? t('services.serves.all') : label(instance)}</Name>
          <span className="muted addr">
            <Name>{host(instance.baseUrl)}</Name>
            {row.state?.slots !== undefined && <code title={row.state.slots.why}>{` · ${t('services.slotsAre', { n: row.state.slots.now })}`}</code>}
            {(instance.tier ?? 0) > 0 && <code>{` · ${t('services.tierIs', { n: instance.tier ?? 0 })}`}</code>}
          </span>
        </button>
      </td>
      <td className="sttd">{discovers ? (
          <span className="soft" title={row.found.map((one) => one.model).join(', ')}>
            {t('services.foundModels', { n: row.found.length })}
          </span>
        ) : row.state !== undefined ? (
          <StatePill instance={row.state} now={now} />
        ) : (
          <span className="muted">–</span>
        )}</td>
      <td className="lo soft">{row.state?.adapter ?? instance.adapter}</td>
      <td className="wtd" title={denied}>
        <span className="row">
          <span className="w-[24px] text-right">{shown}</span>
          <span className="lo2 w-[84px]">
            <Slider
              label={`${t('common.weight')} ${id}`}
              value={shown}
              min={0}
              max={10}
              step={1}
              disabled={denied !== undefined}
              onChange={setWeight}
              onCommit={weigh}
            />
          </span>
        </span>
      </td>
      <td className="num shtd" title={share?.reason}>
        <b className="font-semibold">{percent(row.state?.breaker === 'OPEN' ? 0 : share?.share, 0)}</b>
        <span className="muted lo"> / {percent(share?.expectedShare, 0)}</span>
      </td>
      <td className="num lo">{rate(stat.requests === 0 ? null : stat.rate)}</td>
      <td className="num lo">{text(duration(stat.p95))}</td>
      <td className={`num ertd ${(stat.errorRate ?? 0) > 0 ? 'bad' : 'muted'}`}>{percent(stat.errorRate)}</td>
      <td className="mtd">
        <Menu
          trigger={
            <button type="button" className="btn ghost icon" aria-label={`${t('common.more')}: ${id}`}>
              <Ellipsis className="ic" aria-hidden />
            </button>
          }
          items={[
            { label: t('services.edit'), onSelect: open },
            { label: t('services.try'), onSelect: () => void navigate({ to: '/playground', search: { type: service, model: instance.name } as never }) },
            { label: t('services.calls'), onSelect: () => void navigate({ to: '/calls', search: { service, q: id } as never }) },
            { label: t('services.copy'), disabled: denied !== undefined, title: denied, onSelect: () => void navigate({ to: '/services', search: ((old: object) => ({ ...old, add: service, from: id, edit: undefined })) as never }) },
            'separator',
            { label: t('services.remove'), danger: true, disabled: denied !== undefined, title: denied, onSelect: () => onRemove(row) },
          ]}
        />
      </td>
    </tr>
  )
}
