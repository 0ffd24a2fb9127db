import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Search as SearchIcon } from 'lucide-react'
import { useMemo } from 'react'
import { T, useI18n } from '@/i18n'
import { ago, since, stamp } from '@/lib/format'
import { useNow } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { Bar, Name } from '@/ui/parts'
import { Section } from '../wrong/parts'
import { runs, runsPath, type Question, type Run } from './api'
import { State } from './parts'
import { RunPage } from './run'
import { doingOf, metersOf, numberOf, whoOf } from './words'

const weekMs = 7 * 86_400_000
const dayMs = 86_400_000

/** The runs of agents: what each does and costs, and the dearest of the week. */
export default function Runs() {
  const [search] = useSearchState()
  return (search.id ?? '') === '' ? <List /> : <RunPage key={search.id} id={search.id!} />
}

function List() {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const text = (search.q ?? '').trim()
  // The questions stay the same for an hour, so that the answers before stay on the screen.
  const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000
  const day = useMemo((): Question => ({ search: text, sort: 'last', since: new Date(hour - dayMs).toISOString(), size: 100 }), [text, hour])
  const week = useMemo((): Question => ({ search: text, sort: 'cost', since: new Date(hour - weekMs).toISOString(), size: 10 }), [text, hour])
  const query = useQuery({ ...runs(day), placeholderData: keepPreviousData })
  const dearest = useQuery({ ...runs(week, 10_000), placeholderData: keepPreviousData })
  const list = query.data?.content ?? []
  usePageFact(t('runs.sum', { n: list.filter((run) => run.state === 'RUNNING').length }))
  usePageCalls([{ path: runsPath(day) }, { path: runsPath(week) }])
  const open = (id: string) => setSearch({ id, q: undefined }, true)
  const dear = (dearest.data?.content ?? []).filter((run) => (run.used.cost ?? 0) > 0)
  return (
    <>
      <div className="bar">
        <div className="inp quiet grow md:max-w-[300px]">
          <SearchIcon className="ic s14" aria-hidden />
          <input data-filter aria-label={t('runs.filter')} placeholder={t('runs.filter')} value={search.q ?? ''} onChange={(event) => setSearch({ q: event.target.value })} />
        </div>
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && list.length === 0 && (
        <div className="empty panel">
          <h2>{t(text === '' ? 'runs.none' : 'calls.noMatch')}</h2>
          {text === '' && (
            <p>
              <T k="runs.noneText" v={{ header: <code>x-router-run</code> }} />
            </p>
          )}
        </div>
      )}
      {list.length > 0 && <Table label={t('runs.day')} list={list} onOpen={open} />}
      {dear.length > 0 && <Table label={t('runs.week')} list={dear} onOpen={open} />}
    </>
  )
}

function Table({ label, list, onOpen }: { label: string; list: readonly Run[]; onOpen(id: string): void }) {
  const { t, locale } = useI18n()
  const now = useNow(1000)
  return (
    <Section title={label}>
    <div className="panel">
      <table className="tbl runs" aria-label={label}>
        <thead>
          <tr>
            <th>{t('runs.run')}</th>
            <th>{t('runs.now')}</th>
            <th className="num">{t('runs.unit.cost')}</th>
            <th className="onlydesk roomy w-[90px]">
              <span className="sr-only">{t('runs.limits')}</span>
            </th>
            <th className="num onlydesk roomy">{t('runs.unit.tokens')}</th>
            <th className="num onlydesk">{t('runs.unit.requests')}</th>
            <th className="num onlydesk roomy">{t('runs.agents')}</th>
            <th className="onlydesk">{t('common.model')}</th>
            <th className="onlydesk">{t('runs.who')}</th>
            <th className="num onlydesk">{t('runs.since')}</th>
          </tr>
        </thead>
        <tbody>
          {list.map((run) => {
            const tightest = metersOf(run, now).filter(({ limit }) => limit > 0).toSorted((a, b) => b.share - a.share)[0]
            return (
              <tr key={run.id}>
                <td>
                  <button type="button" className="link" onClick={() => onOpen(run.id)}>
                    <Name>{run.name}</Name>
                  </button>
                </td>
                <td title={`${doingOf(run, t, locale)}, ${ago(run.last, now, locale)}`}>
                  <State run={run} /> {run.underWay > 0 && <span className="muted nowrap">{doingOf(run, t, locale)}</span>}
                  {run.loop !== undefined && <span className="tag wn">{t('runs.loops')}</span>}
                </td>
                <td className="num nowrap">
                  {numberOf(run.used.cost ?? 0, 'cost', locale)} {(run.limits.cost ?? 0) > 0 && <span className="muted">{t('runs.slash', { limit: numberOf(run.limits.cost!, 'cost', locale) })}</span>} {run.currency}
                </td>
                <td className="onlydesk roomy">{tightest !== undefined && <Bar share={tightest.share} kind={tightest.share >= 1 ? 'bd' : tightest.share >= 0.8 ? 'wn' : ''} />}</td>
                <td className="num onlydesk roomy">{numberOf(run.used.tokens ?? 0, 'tokens', locale)}</td>
                <td className="num onlydesk">{numberOf(run.used.requests ?? 0, 'requests', locale)}</td>
                <td className="num onlydesk roomy">{run.agents === 0 ? '–' : numberOf(run.agents, 'requests', locale)}</td>
                <td className="onlydesk">{run.model === undefined ? '–' : <Name>{run.model}</Name>}</td>
                <td className="onlydesk">{whoOf(run, t)}</td>
                <td className="num nowrap onlydesk" title={stamp(run.started)}>{since(run.started, now, locale)}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
    </Section>
  )
}
