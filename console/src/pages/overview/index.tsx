import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Search as SearchIcon } from 'lucide-react'
import { useMemo, useState } from 'react'
import { instanceTraffic, runningCount } from '@/api/queries'
import { useI18n } from '@/i18n'
import { oneOf, parseList, stringifyList } from '@/lib/url'
import { useLive, useStats } from '@/live/context'
import { leading } from '@/live/history'
import { ranges } from '@/live/series'
import { usePageCalls } from '@/shell/api-calls'
import { useSearchState } from '@/shell/search'
import { Part } from '@/ui/feedback'
import { Select } from '@/ui/field'
import { Segments } from '@/ui/parts'
import { SinceStart } from '@/ui/since'
import { PatchBay } from './bay'
import { layout, modelKey } from './bay-layout'
import { DemoBar } from './demo'
import { FirstRun } from './first-run'
import { Fleet } from './fleet'
import { BayList, BayTable, ProblemList, ServicesTable } from './lists'
import { Meters } from './meters'
import { StatusSentence } from './sentence'

export default function Overview() {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const { snapshot } = useLive()
  const range = oneOf(search.range, ranges)
  const stats = useStats(range)
  const view = oneOf(search.view, ['cables', 'table'] as const)
  const [find, setFind] = useState('')
  const unfolded = useMemo(() => new Set(parseList(search.unfold)), [search.unfold])
  const instances = snapshot?.instances ?? []
  const bay = useMemo(() => layout(snapshot?.instances ?? [], stats, { unfolded, showIdle: search.idle === '1' }), [snapshot, stats, unfolded, search.idle])
  const models = new Set(instances.map(modelKey)).size
  const traffic = useQuery({ ...instanceTraffic, enabled: bay.tall && instances.length > 0 }).data
  const { data: running = 0 } = useQuery(runningCount)
  // Figures of several services are shown one service at a time.
  const timed = [...stats.services].filter(([, stat]) => stat.p95 !== null).map(([service]) => service)
  const service = timed.find((one) => one === search.of) ?? leading(stats.services)
  usePageCalls([
    { path: '/api/monitoring/live?topics=snapshot,change' },
    { path: `/api/monitoring/series?range=${range}&metric=requests,tokens,cost` },
    { path: `/api/monitoring/series?range=${range}&by=service&metric=latency,ttft,overhead` },
    ...(range === '5m' ? [] : [{ path: `/api/monitoring/series?range=${range}&by=service&metric=whole` }]),
    { path: '/api/monitoring/problems?limit=10' },
    { path: '/api/monitoring/fleet' },
  ])
  const fold = (host: string) => {
    const next = new Set(unfolded)
    if (!next.delete(host)) next.add(host)
    setSearch({ unfold: stringifyList(next) })
  }
  if (snapshot !== null && instances.length === 0) return <FirstRun />
  return (
    <>
      <div className="head">
        <StatusSentence />
        <div className="acts">
          <Link className="btn" to="/calls" search={{ show: 'running' } as never}>
            {t('run.count', { n: running })}
          </Link>
          {timed.length > 1 && (
            <Select
              quiet
              label={t('figures.of')}
              value={service!}
              options={timed.map((value) => ({ value, label: t(`pg.${value}`) }))}
              onChange={(value) => setSearch({ of: value === leading(stats.services) ? undefined : value })}
            />
          )}
          <Segments
            label={t('overview.range')}
            value={range}
            options={ranges.map((value) => ({ value, label: t(`overview.${value}`) }))}
            onChange={(value) => setSearch({ range: value === '5m' ? undefined : value })}
          />
        </div>
      </div>
      <DemoBar />
      <Meters range={range} service={service} open={search.charts === 'open'} onOpen={() => setSearch({ charts: search.charts === 'open' ? undefined : 'open' })} />
      <SinceStart range={range} />
      <div className="h2">
        <h2>{t('overview.patchbay')}</h2>
        <span className="muted trunc baycap">{`${t('overview.baySum', { models, instances: instances.length })} · ${t(`overview.read.${range}`)}`}</span>
        <span className="grow" />
        {bay.folding && (
          <div className="inp quiet onlydesk baycap w-[190px]">
            <SearchIcon className="ic s14" aria-hidden />
            <input aria-label={t('overview.find')} placeholder={t('overview.find')} value={find} onChange={(event) => setFind(event.target.value)} />
          </div>
        )}
        <span className="baycap">
          <Segments
            label={t('overview.patchbay')}
            value={view}
            options={[
              { value: 'cables', label: t('overview.cables') },
              { value: 'table', label: t('common.table') },
            ]}
            onChange={(value) => setSearch({ view: value === 'cables' ? undefined : value })}
          />
        </span>
      </div>
      <Part>
        {view === 'cables' ? (
          <PatchBay bay={bay} traffic={traffic} find={find} unfolded={unfolded} onFold={fold} onShowIdle={() => setSearch({ idle: '1' })} />
        ) : (
          <div className="bay-table-only">
            <BayTable bay={bay} />
          </div>
        )}
        <BayList instances={instances} stats={stats} />
      </Part>
      <Part>
        <Fleet />
      </Part>
      <div className="cols">
        <div>
          <div className="h2">
            <h2>{t('overview.services')}</h2>
            <span className="muted trunc">{t(`overview.read.${range}`)}</span>
          </div>
          <ServicesTable range={range} />
        </div>
        <div>
          <div className="h2">
            <h2>{t('overview.problems')}</h2>
            <Link className="soft ml-auto text-[12px]" to="/calls" search={{ show: 'failed' } as never}>
              {t('overview.allFailed')}
            </Link>
          </div>
          <ProblemList />
        </div>
      </div>
    </>
  )
}
