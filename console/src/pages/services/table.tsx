import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { Fragment, useMemo, type ReactNode } from 'react'
import { figures } from '@/api/queries'
import type { Service, ServiceType } from '@/api/types'
import { useI18n, type Key } from '@/i18n'
import { axis, duration, rate } from '@/lib/format'
import { byHost } from '@/live/figures'
import { empty } from '@/live/stats'
import { GuardedLink } from '@/shell/guard'
import { Name } from '@/ui/parts'
import { Gap, useTableLines, type Drawn, type Kind } from '@/ui/sight'
import { inTrouble, type Condition } from '@/ui/status'
import type { Hold } from './hold'
import { nextSort, rowKey, type Column, type Group, type Grouping, type Readings, type Sort } from './order'
import { Beside, InstanceRow, shownColumns, type Last, type Row } from './row'
import { strategyLabel } from './strategies'

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
  const sentence = breaker?.enabled ? t('services.breakerSentence', { failures: breaker.failureThreshold ?? 0, wait: axis(duration(Number(breaker.recoveryTimeout))), successes: breaker.successThreshold ?? 0 }) : undefined
  const words = [
    strategyLabel(t, value.loadBalancer),
    limit?.enabled ? t('services.limit', { capacity: limit.capacity ?? 0, rate: limit.refillRate ?? 0 }) : t('services.noLimit'),
    breaker?.enabled ? t('services.breaker', { failures: breaker.failureThreshold ?? 0 }) : t('services.noBreaker'),
    names(),
  ]
  return (
    <span className="pol">
      {/* All lead to the same drawer: the keyboard needs one of them. */}
      {words.map((word, index) => (
        <Link key={word} title={index === 2 ? sentence : undefined} tabIndex={index === 0 ? undefined : -1} to="/services" search={((old: object) => ({ ...old, policy: service, alias: undefined, edit: undefined, add: undefined })) as never}>
          {word}
        </Link>
      ))}
    </span>
  )
}

/** What all tables of instances have in common. */
export interface TableProps {
  readings: Readings
  version: number
  now: number
  selected: string
  sort: Sort | null
  /** What is wrong with an instance is said in a line below it. */
  explains: boolean
  /** There are so many rows that only those in sight are drawn. */
  isMany: boolean
  isLast(row: Row): boolean
  onSort(sort: Sort | null): void
  onLast(last: Last): void
  onRemove(row: Row): void
  onHold(hold: Hold): void
}

export function ServiceGroup({ service, value, rows, hasSorts, ...table }: TableProps & { service: ServiceType; value: Service; rows: Row[]; hasSorts: boolean }) {
  const { t } = useI18n()
  const models = new Set(rows.map((row) => row.instance.name)).size
  return (
    <section className="grp" aria-label={t(`pg.${service}`)}>
      <div className="gh">
        <h2 title={service}>{t(`pg.${service}`)}</h2>
        <span className="muted trunc">{`${t('common.instances', { n: rows.length })}${t('common.comma')}${t('common.models', { n: models })}`}</span>
        <span className="grow" />
        <Policies service={service} value={value} />
        <GuardedLink needs="config:instance:write" className="btn sm" to="/services" search={((old: object) => ({ ...old, add: service, edit: undefined, policy: undefined })) as never}>
          <Plus className="ic s14" aria-hidden />
          {t('services.addInstance')}
        </GuardedLink>
      </div>
      <InstanceTable {...table} hasSorts={hasSorts} groups={[{ key: '', rows }]} />
    </section>
  )
}

/** The service types without instances, from which one is added. */
export function Unused({ services }: { services: readonly ServiceType[] }) {
  const { t } = useI18n()
  if (services.length === 0) return null
  return (
    <p className="row flex-wrap muted mt-4" data-part="unused">
      {t('services.unused')}
      {services.map((service) => (
        <Fragment key={service}>
          <GuardedLink needs="config:instance:write" className="btn sm" to="/services" search={((old: object) => ({ ...old, add: service, edit: undefined, policy: undefined })) as never}>
            <Plus className="ic s14" aria-hidden />
            {t(`pg.${service}`)}
          </GuardedLink>
        </Fragment>
      ))}
    </p>
  )
}

/** The words of the states, as the rows have them. */
const stateWords: Record<Condition, Key> = { ok: 'health.healthy', unknown: 'health.unknown', unreachable: 'health.unhealthy', open: 'breaker.open', half: 'breaker.halfOpen', disabled: 'health.disabled', unweighted: 'health.noWeight' }

/** All instances in one table, under what they have in common. */
export function Grouped({ groups, grouping, ...table }: TableProps & { groups: Group[]; grouping: Grouping }) {
  const { t } = useI18n()
  const { data } = useQuery({ ...figures({ by: 'host' }), enabled: grouping === 'host' })
  const hosts = useMemo(() => byHost(data?.figures ?? []), [data])
  const heading = ({ key, rows }: Group) => {
    const bad = rows.filter((row) => row.state !== undefined && inTrouble(row.state)).length
    const sum = rows.reduce((total, row) => total + (table.readings.stats.instances.get(rowKey(row))?.rate ?? 0), 0)
    return (
      <>
        {grouping === 'state' ? <b>{t(stateWords[key as Condition])}</b> : grouping === 'host' ? <Link className="plain hosted hover:underline" to="/host" search={{ id: key } as never}><Name className="font-semibold">{key}</Name></Link> : <Name className="font-semibold">{key}</Name>}
        <span className="muted">{t('common.instances', { n: rows.length })}</span>
        {sum > 0 && <span className="muted">{`${rate(sum)} ${t('common.reqs')}`}</span>}
        {grouping === 'host' && hosts.get(key)?.map((one) => <span key={one.service} className="muted">{`${t(`pg.${one.service}`)} ${t('common.p95')} ${one.p95}`}</span>)}
        {bad > 0 && grouping !== 'state' && <span className="bad">{t('services.inTrouble', { n: bad })}</span>}
      </>
    )
  }
  return (
    <div className="grp">
      <InstanceTable {...table} hasSorts groups={groups} heading={heading} />
    </div>
  )
}

/** A row, or the heading of a group. */
interface Line {
  key: string
  kind: Kind
  group: Group
  row?: Row
}

function useLines(groups: Group[], hasHeadings: boolean, selected: string, isMany: boolean) {
  const lines = groups.flatMap((group): Line[] => [...(hasHeadings ? [{ key: group.key, kind: 'head' as const, group }] : []), ...group.rows.map((row) => ({ key: rowKey(row), kind: 'row' as const, group, row }))])
  const edited = lines.findIndex(({ row }) => row !== undefined && selected === `${row.service}/${row.id}`)
  const { drawn, ...rest } = useTableLines(lines, isMany, edited)
  const bodies: { group: Group; lines: (Line & Drawn)[] }[] = []
  for (const line of drawn) {
    if (bodies.at(-1)?.group === line.group) bodies.at(-1)!.lines.push(line)
    else bodies.push({ group: line.group, lines: [line] })
  }
  return { bodies, ...rest }
}

function InstanceTable({ groups, heading, hasSorts, readings, version, now, selected, sort, isMany, explains, isLast, onSort, onLast, onRemove, onHold }: TableProps & { groups: Group[]; heading?: (group: Group) => ReactNode; hasSorts: boolean }) {
  const { t } = useI18n()
  const { bodies, after, rowHeight, props } = useLines(groups, heading !== undefined, selected, isMany)
  const Head = ({ column, className = '', title, children }: { column: Column; className?: string; title?: string; children: ReactNode }) => (
    <th className={className} title={title} aria-sort={sort?.column === column ? (sort.down ? 'descending' : 'ascending') : undefined}>
      {/* The order is that of the page, so one table has the buttons. */}
      {hasSorts ? (
        <button type="button" className="sortb" onClick={() => onSort(nextSort(sort, column))}>
          {children}
          {sort?.column === column && <span aria-hidden="true">{sort.down ? ' ↓' : ' ↑'}</span>}
        </button>
      ) : (
        children
      )}
    </th>
  )
  return (
    <div className="panel">
      <table className="tbl fx svc" {...props}>
        <thead>
          <tr>
            <th className="w-[52px]">
              <span className="sr-only">{t('common.on')}</span>
            </th>
            {Head({ column: 'name', children: t('common.instance') })}
            {Head({ column: 'state', className: 'w-[138px]', children: t('common.state') })}
            {Head({ column: 'dialect', className: 'lo w-[84px]', children: t('services.dialect') })}
            {Head({ column: 'weight', className: 'cw', children: t('common.weight') })}
            {Head({
              column: 'share', className: 'num csh', title: t('services.shareHint'), children: (
                <>
                  {t('common.share')}
                  <span className="lo"> / {t('res.expected')}</span>
                </>
              ),
            })}
            {Head({ column: 'rate', className: 'num rd w-[68px]', children: t('common.reqs') })}
            {Head({ column: 'p95', className: 'num rd w-[80px]', children: t('common.p95') })}
            {Head({ column: 'errors', className: 'num w-[80px]', children: t('common.errors') })}
            <th className="w-[52px]">
              <span className="sr-only">{t('common.more')}</span>
            </th>
          </tr>
        </thead>
        {bodies.map(({ group, lines }) => (
          <tbody key={group.key}>
            {lines.map(({ key, row, index, gap }) => (
              <Fragment key={key}>
                <Gap height={gap} columns={shownColumns} />
                {row === undefined ? (
                  <tr className={`grouphead ${index === 0 ? 'first' : ''}`} aria-rowindex={index + 2}>
                    <th colSpan={shownColumns} scope="rowgroup">
                      <span className="row">{heading?.(group)}</span>
                    </th>
                    <Beside />
                  </tr>
                ) : (
                  <InstanceRow
                    {...{ row, version, now, onLast, onRemove, onHold, index, rowHeight }}
                    stat={readings.stats.instances.get(key) ?? empty}
                    share={readings.shares.get(key)}
                    isLast={isLast(row)}
                    explains={explains && !isMany}
                    selected={selected === `${row.service}/${row.id}`}
                  />
                )}
              </Fragment>
            ))}
          </tbody>
        ))}
        {after > 0 && (
          <tbody>
            <Gap height={after} columns={shownColumns} />
          </tbody>
        )}
      </table>
    </div>
  )
}
