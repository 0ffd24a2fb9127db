import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Sentence } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { host as hostOf, percent, rate, splitId } from '@/lib/format'
import { useLive, useNow, useStats } from '@/live/context'
import { empty } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useDenied } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { AbleSum, canServe } from '@/ui/status'
import { useServiceDrawer } from '../services/drawers'
import { ManyConfirm, type Many } from '../services/many'
import { servingRows, useRows } from '../services/rows'
import { Facts, ObjectPage } from './frame'
import { Instances, TestAll } from './instances'
import { Errors, Section } from './parts'
import { timeOf } from './why'

/** Everything about one host: machines fail, not names, and all that is on one fails with it. */
export default function HostPage() {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const id = search.id ?? ''
  const { snapshot } = useLive()
  const stats = useStats('5m')
  const now = useNow()
  const members = (snapshot?.instances ?? []).filter((one) => one.host === id)
  const table = useRows()
  const { drawer } = useServiceDrawer(table)
  const name = encodeURIComponent(id)
  usePageFact(id)
  usePageCalls([
    { path: '/api/monitoring/problems' },
    { path: `/api/monitoring/series?by=host&host=${name}` },
    { path: `/api/monitoring/figures?by=host&host=${name}` },
    { path: `/api/monitoring/calls?host=${name}` },
    { path: `/api/monitoring/running?host=${name}` },
  ])
  const sum = members.map((one) => stats.instances.get(`${one.service} ${one.id}`) ?? empty).reduce((total, one) => ({ ...total, requests: total.requests + one.requests, errors: total.errors + one.errors, rate: total.rate + one.rate }), empty)
  const failing = members.flatMap((one) => (one.failingSince === null ? [] : [one.failingSince]))
  const values = { host: <b className="nowrap">{id}</b>, n: members.filter(canServe).length, all: members.length, rate: rate(sum.rate), errors: percent(sum.requests === 0 ? 0 : sum.errors / sum.requests), since: failing.length === 0 ? '' : timeOf(Math.min(...failing), now) }
  const isOff = members.length > 0 && members.every((one) => !one.enabled)
  return (
    <ObjectPage
      sentence={<T k={members.length === 0 ? 'wrong.hostGone' : isOff ? 'wrong.hostOff' : values.n === 0 ? (failing.length > 0 ? 'wrong.hostDownSince' : 'wrong.hostDown') : sum.requests === 0 ? 'wrong.hostIdle' : 'wrong.hostWell'} v={values} />}
      under={
        <>
          <AbleSum members={members} />
          <Link className="soft" to="/services" search={{ q: id } as never}>{t('nav.services')}</Link>
        </>
      }
      actions={<HostActions key={id} id={id} members={members} table={table} asked={search.act} onAnswered={() => setSearch({ act: undefined })} />}
      history={{ of: { by: 'host', host: id }, label: id }}
      errors={<Errors question={{ host: id }} last={members.map((one) => one.lastError).find((last) => last !== null) ?? null} />}
      parts={<Instances members={members} table={table} named="model" />}
      question={{ host: id }}
      settings={
        <Section title={t('wrong.settings')}>
          <About members={members} />
        </Section>
      }
      changes={(change: Sentence) => change.values?.instance !== undefined && splitId(change.values.instance).host === id}
      drawer={drawer}
    />
  )
}

/** A real call to each of its instances, and all of them taken out or put back at once. */
function HostActions({ id, members, table, asked, onAnswered }: { id: string; members: InstanceState[]; table: ReturnType<typeof useRows>; /** What the address asks for. */ asked: string | undefined; onAnswered(): void }) {
  const { t } = useI18n()
  const denied = useDenied('config:instance:write')
  const [many, setMany] = useState<Many | null>(null)
  const stored = table.rows.filter((row) => hostOf(row.instance.baseUrl) === id)
  const acts: Many[] = [
    { act: 'disable', rows: stored.filter((row) => row.instance.enabled !== false) },
    { act: 'enable', rows: stored.filter((row) => row.instance.enabled === false) },
  ]
  const now = many ?? (denied === undefined ? acts.find(({ act, rows }) => act === asked && rows.length > 0) : undefined)
  const close = () => {
    setMany(null)
    onAnswered()
  }
  return (
    <div className="bar" role="group" aria-label={t('wrong.actions')}>
      <TestAll members={members} named="model" />
      {acts.filter(({ rows }) => rows.length > 0).map((one) => (
        <button key={one.act} type="button" className="btn" disabled={denied !== undefined} title={denied} onClick={() => setMany(one)}>
          {t(`services.${one.act}All`, { n: one.rows.length })}
        </button>
      ))}
      {now !== undefined && <ManyConfirm many={now} serving={servingRows(table.rows)} version={table.version} onClose={close} />}
    </div>
  )
}

/** What is known of a host: its addresses, how it is spoken to, and the services that it is part of. */
function About({ members }: { members: InstanceState[] }) {
  const { t } = useI18n()
  const each = (values: string[]) => [...new Set(values)].join(', ')
  return (
    <Facts
      of={[
        [t('wrong.addresses'), <code key="addresses">{each(members.map((one) => one.url))}</code>],
        [t('services.dialect'), <code key="adapters">{each(members.map((one) => one.adapter))}</code>],
        [t('key.services'), each(members.map((one) => one.service))],
        [t('wrong.itsModels'), <code key="models">{each(members.map((one) => one.model))}</code>],
      ]}
    />
  )
}
