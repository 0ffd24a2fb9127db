import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { T, useI18n } from '@/i18n'
import { ago, stamp } from '@/lib/format'
import { useNow } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { Guard } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { CopyButton } from '@/ui/parts'
import { Facts } from '../wrong/frame'
import { Section } from '../wrong/parts'
import { run as runQuery, writes, type RunDetail } from './api'
import { Actions, LoopNote, Meters, State } from './parts'
import { RunTimeline } from './timeline'
import { numberOf, whoOf } from './words'

/** A run: what it does, what it used of its limits, its calls on one line, and what can be done. */
export function RunPage({ id }: { id: string }) {
  const { t } = useI18n()
  const query = useQuery(runQuery(id))
  usePageCalls([{ path: `/api/runs/${id}` }, { method: 'POST', path: `/api/runs/${id}/raise`, body: { cost: 5 } }, { method: 'POST', path: `/api/runs/${id}/end` }])
  usePageFact(query.data?.name ?? '')
  if (query.error !== null && query.data === undefined) return <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />
  return query.data === undefined ? null : <Shown run={query.data} />
}

function Shown({ run }: { run: RunDetail }) {
  const { t, locale } = useI18n()
  const now = useNow(1000)
  const [search, setSearch] = useSearchState()
  return (
    <>
      <div className="head">
        <div className="grow">
          <h2>
            <T k={run.state === 'RUNNING' ? 'runs.is.RUNNING' : `runs.is.${run.state}`} v={{ name: <b className="break-all">{run.name}</b>, n: run.underWay, model: <code>{run.model ?? '–'}</code>, ago: ago(run.last, now, locale) }} />
          </h2>
          <p className="row flex-wrap">
            <Link className="soft" to="/runs">{t('nav.runs')}</Link>
            <State run={run} />
            <span className="muted">{whoOf(run, t)}</span>
          </p>
        </div>
      </div>
      {run.reason !== undefined && <div className="note wn mb-3" role="status"><div>{run.reason}</div></div>}
      <LoopNote run={run} />
      <Guard needs={writes}>
        <Actions run={run} isEnding={search.act === 'end'} setEnding={(is) => setSearch({ act: is ? 'end' : undefined })} />
      </Guard>
      <div className="cols obj">
        <div>
          <Section title={t('runs.limits')}>
            <Meters run={run} />
          </Section>
          <Section title={t('runs.about')}>
            <Facts
              of={[
                [t('runs.id'), <span key="id" className="row"><code className="trunc" title={run.id}>{run.id}</code><CopyButton text={run.id} /></span>],
                [t('runs.sign'), <code key="sign">{run.sign}</code>],
                [t('calls.keyId'), run.key !== undefined && run.key !== '' && <code>{run.key}</code>],
                [t('find.tenant'), run.tenant !== undefined && run.tenant !== '' && <Link to="/tenant" search={{ id: run.tenant } as never}><code>{run.tenant}</code></Link>],
                [t('calls.user'), run.user !== undefined && run.user !== '' && <code>{run.user}</code>],
                [t('runs.started'), stamp(run.started)],
                [t('runs.last'), stamp(run.last)],
                [t('common.model'), run.model !== undefined && <code>{run.model}</code>],
                [t('runs.agents'), run.agents > 0 && numberOf(run.agents, 'requests', locale)],
              ]}
            />
          </Section>
        </div>
        <div>
          <Section title={t('runs.calls')} more={<Link to="/calls" search={{ run: run.id } as never}>{t('wrong.allCalls')}</Link>}>
            <RunTimeline calls={run.calls} total={Math.max(run.used.requests ?? 0, run.calls.length)} turns={run.loop?.turns ?? []} selected={search.call ?? ''} onSelect={(call) => setSearch({ call: call === '' ? undefined : call })} />
          </Section>
        </div>
      </div>
    </>
  )
}
