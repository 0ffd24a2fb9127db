import { useQuery } from '@tanstack/react-query'
import { Ellipsis, Plus, Search as SearchIcon } from 'lucide-react'
import { useMemo, useState } from 'react'
import { useEdit } from '@/api/mutations'
import { shares as shareQuery } from '@/api/queries'
import { serviceTypes } from '@/api/types'
import { useI18n, type I18n } from '@/i18n'
import { host, rate } from '@/lib/format'
import { oneOf } from '@/lib/url'
import { useNow, useStats } from '@/live/context'
import { usePageFact } from '@/shell/fact'
import { usePageCalls } from '@/shell/api-calls'
import { GuardedLink, useDenied } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { DocsLink } from '@/ui/docs'
import { ErrorNote, useToast } from '@/ui/feedback'
import { Select } from '@/ui/field'
import { Confirm } from '@/ui/overlay'
import { Menu, Segments } from '@/ui/parts'
import { manyRows } from '@/ui/sight'
import { isExceptional } from '../wrong/why'
import { useServiceDrawer } from './drawers'
import { HoldConfirm, useHold, type Hold } from './hold'
import { LeftWithout } from './last'
import { ManyConfirm, type Many } from './many'
import { label } from './form'
import { Models } from './models'
import { Processes } from './processes'
import { Queues } from './queues'
import { columns, groupings, groupRows, inOrder, parseSort, rowKey, sortFor, sortRows, sortText, type Column, type Readings, type Sort } from './order'
import type { Last, Row } from './row'
import { idsOf, lastOnes, rateOf, servingRows, useRows } from './rows'
import { Grouped, ServiceGroup, Unused } from './table'

export default function Services() {
  const { t, failure } = useI18n()
  const [search, setSearch] = useSearchState()
  const configured = useRows()
  const { query, rows, services, version } = configured
  const stats = useStats('5m')
  const now = useNow()
  const edit = useEdit()
  const [removing, setRemoving] = useState<Row | null>(null)
  const [held, setHeld] = useState<Hold | null>(null)
  const force = useHold()
  const toast = useToast()
  const [last, setLast] = useState<Last | null>(null)
  const show = oneOf(search.show, ['all', 'problems', 'off'] as const)
  const grouping = oneOf(search.group, groupings)
  const sort = parseSort(search.sort)
  const q = (search.q ?? '').toLowerCase()

  const isOff = (row: Row) => row.instance.enabled === false || row.instance.weight === 0
  const serving = useMemo(() => servingRows(rows), [rows])
  const lasts = useMemo(() => lastOnes(serving), [serving])
  const isLast = (row: Row) => idsOf(row).some((id) => lasts.has(id))
  const isBad = (row: Row) => row.state !== undefined && isExceptional(row.state)
  const matches = (row: Row) =>
    (q === '' || `${row.service} ${row.id} ${row.state?.adapter ?? ''} ${row.state?.breaker ?? ''} ${row.state?.health ?? ''}`.toLowerCase().includes(q)) &&
    (show === 'all' || (show === 'off' ? isOff(row) : isBad(row)))
  const backends = new Set(rows.map((row) => host(row.instance.baseUrl))).size
  usePageFact(query.data === undefined ? '' : `${t('services.sum', { instances: rows.length, backends })} · ${t('services.windows')}`)

  usePageCalls([{ path: '/api/config/type' }, { path: '/api/monitoring/instances' }])
  const denied = useDenied('config:instance:write')
  const { data: shareList } = useQuery(shareQuery)
  const readings = useMemo(() => ({ stats, shares: new Map((shareList ?? []).map((share) => [`${share.service} ${share.instanceId}`, share])) }), [stats, shareList])
  const filtered = rows.filter(matches)
  const [shownRows, hold] = useSteadyOrder(filtered, sort, readings)
  const bulk = (enabled: boolean) => shownRows.filter((row) => (row.instance.enabled !== false) !== enabled)
  const [many, setMany] = useState<Many | null>(null)

  const { drawer, close } = useServiceDrawer(configured)

  const table = {
    readings, version, now, sort, isLast, selected: search.edit ?? '', isMany: filtered.length > manyRows, explains: show === 'problems',
    onSort: (next: Sort | null) => setSearch({ sort: sortText(next) }), onLast: setLast, onRemove: setRemoving,
    // To let go of a breaker takes nothing from anybody.
    onHold: (hold: Hold) => (hold.state === 'AUTO' ? force.mutate(hold, { onError: (error) => toast(failure(error)) }) : setHeld(hold)),
  }
  const groups = serviceTypes.flatMap((service) => {
    const value = services[service]
    const members = shownRows.filter((row) => row.service === service)
    return value === undefined || members.length === 0 ? [] : [{ service, value, members }]
  })
  const sorting = groups[0]?.service
  const isWhole = q === '' && show === 'all'
  const list = (
    <>
      <div className="bar">
        <div className="inp quiet grow md:max-w-[320px]">
          <SearchIcon className="ic s14" aria-hidden />
          <input data-filter aria-label={t('services.filter')} placeholder={t('services.filter')} value={search.q ?? ''} onChange={(event) => setSearch({ q: event.target.value })} />
        </div>
        <Segments
          label={t('services.filter')}
          value={show}
          options={[
            { value: 'all', label: `${t('common.all')} ${rows.length}` },
            { value: 'problems', label: `${t('services.problems')} ${rows.filter(isBad).length}` },
            { value: 'off', label: `${t('services.offTab')} ${rows.filter(isOff).length}` },
          ]}
          onChange={(value) => setSearch({ show: value === 'all' ? undefined : value })}
        />
        <span className="pick">
          <Select
            quiet
            label={t('services.group')}
            value={grouping}
            options={groupings.map((value) => ({ value, label: t(`services.group.${value}`) }))}
            onChange={(value) => setSearch({ group: value === 'service' ? undefined : value, sort: sortText(sortFor(value, grouping, sort)) })}
          />
        </span>
        <span className="pick onlyphone">
          <Select
            quiet
            label={t('services.sort')}
            value={sortText(sort) ?? ''}
            options={[{ value: '', label: t('services.sort.none') }, ...columns.flatMap((column) => [column, `-${column}`]).map((value) => ({ value, label: sortLabel(t, value) }))]}
            onChange={(value) => setSearch({ sort: value })}
          />
        </span>
        <span className="grow onlydesk" />
        <Menu
          trigger={
            <button type="button" className="btn" title={t('services.bulk', { n: shownRows.length })} aria-label={t('services.bulk', { n: shownRows.length })}>
              <Ellipsis className="ic" aria-hidden />
            </button>
          }
          items={[
            { label: t('services.bulk', { n: shownRows.length }), disabled: true, onSelect: () => undefined },
            'separator',
            { label: t('services.enableAll', { n: bulk(true).length }), title: denied, disabled: denied !== undefined || bulk(true).length === 0, onSelect: () => setMany({ act: 'enable', rows: bulk(true) }) },
            { label: t('services.disableAll', { n: bulk(false).length }), title: denied, disabled: denied !== undefined || bulk(false).length === 0, onSelect: () => setMany({ act: 'disable', rows: bulk(false) }) },
            { label: t('services.removeAll', { n: shownRows.length }), danger: true, title: denied, disabled: denied !== undefined || shownRows.length === 0, onSelect: () => setMany({ act: 'remove', rows: shownRows }) },
          ]}
        />
        <GuardedLink needs="config:instance:write" className={`btn addb ${drawer === null ? 'pri' : ''}`} to="/services" search={((old: object) => ({ ...old, add: 'chat', edit: undefined, policy: undefined })) as never}>
          <Plus className="ic" aria-hidden />
          {t('services.add')}
        </GuardedLink>
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      <div {...hold}>
        {grouping === 'service' ? (
          groups.map(({ service, value, members }) => <ServiceGroup key={service} {...{ service, value }} rows={members} hasSorts={service === sorting} {...table} />)
        ) : shownRows.length === 0 ? null : (
          <Grouped key={grouping} groups={groupRows(shownRows, grouping, sort)} grouping={grouping} {...table} />
        )}
      </div>
      {isWhole && rows.length > 0 && <Unused services={serviceTypes.filter((service) => services[service] !== undefined && !rows.some((row) => row.service === service))} />}
      {isWhole && <Queues />}
      {isWhole && <Models />}
      {isWhole && <Processes />}
      {query.data !== undefined && filtered.length === 0 && (
        <div className="panel empty">
          <h2>{rows.length === 0 ? t('overview.first.title') : t('services.empty')}</h2>
          {rows.length === 0 && <p>{t('services.none')}</p>}
          {rows.length === 0 && <DocsLink page="first-backend">{t('guide.backend')}</DocsLink>}
        </div>
      )}
      {many !== null && <ManyConfirm many={many} serving={serving} version={version} onClose={() => setMany(null)} />}
      {held !== null && <HoldConfirm hold={held} serving={serving} onClose={() => setHeld(null)} />}
      {last !== null && (
        <Confirm
          title={t('services.lastTitle', { model: label(last.row.instance) })}
          action={t('services.lastAction')}
          onClose={() => setLast(null)}
          onConfirm={() => edit.mutateAsync({ edit: { kind: 'update', service: last.row.service, id: last.row.id, instance: last.change }, version, said: last.said })}
        >
          <LeftWithout serving={serving} out={idsOf(last.row)} />
          {t('services.lastText', { rate: rate(rateOf([last.row], stats)) })}
        </Confirm>
      )}
      {removing !== null && (
        <Confirm
          title={t('services.removeTitle', { id: removing.id })}
          action={t('services.remove')}
          onClose={() => setRemoving(null)}
          onConfirm={() =>
            edit
              .mutateAsync({ edit: { kind: 'remove', service: removing.service, instance: removing.instance }, version, said: t('services.removed', { id: removing.id }) })
              .then(() => search.edit === `${removing.service}/${removing.id}` && close())
          }
        >
          <LeftWithout serving={serving} out={idsOf(removing)} />
          {t('services.removeText', { rate: rate(rateOf([removing], stats)) })}
        </Confirm>
      )}
    </>
  )
  return (
    <div className={drawer === null ? '' : 'split narrow'}>
      <div className="list">{list}</div>
      {drawer}
    </div>
  )
}

/**
 * The rows in the order that was asked for. Rows do not move below the pointer
 * or the focus: the order is kept while one of them is in the list.
 */
function useSteadyOrder(rows: readonly Row[], sort: Sort | null, readings: Readings): [Row[], { onPointerEnter(): void; onPointerLeave(): void; onFocus(): void; onBlur(): void }] {
  const [hands, setHands] = useState({ pointer: false, focus: false })
  const [kept, setKept] = useState<{ sort: string | undefined; order: ReadonlyMap<string, number> }>({ sort: undefined, order: new Map() })
  const isHeld = (hands.pointer || hands.focus) && kept.sort === sortText(sort)
  const shown = sort === null ? [...rows] : isHeld ? inOrder(rows, kept.order) : sortRows(rows, sort, readings)
  const isNew = sort !== null && !isHeld && (kept.sort !== sortText(sort) || shown.length !== kept.order.size || shown.some((row, index) => kept.order.get(rowKey(row)) !== index))
  if (isNew) setKept({ sort: sortText(sort), order: new Map(shown.map((row, index) => [rowKey(row), index])) })
  const set = (change: Partial<typeof hands>) => () => setHands((old) => ({ ...old, ...change }))
  return [shown, { onPointerEnter: set({ pointer: true }), onPointerLeave: set({ pointer: false }), onFocus: set({ focus: true }), onBlur: set({ focus: false }) }]
}

function sortLabel(t: I18n['t'], value: string): string {
  const words: Record<Column, string> = { name: t('common.instance'), state: t('common.state'), dialect: t('services.dialect'), weight: t('common.weight'), share: t('common.share'), rate: t('common.reqs'), p95: t('common.p95'), errors: t('common.errors') }
  const sort = parseSort(value)!
  return `${words[sort.column]} ${sort.down ? '↓' : '↑'}`
}
