import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { TriangleAlert } from 'lucide-react'
import { useMemo, useState } from 'react'
import { wrong } from '@/api/queries'
import { serviceTypes, type ProblemGroup } from '@/api/types'
import { useI18n, type Key } from '@/i18n'
import { duration, percent, rate, shorten, since, text } from '@/lib/format'
import { useLive, useNow, useStats } from '@/live/context'
import type { Range } from '@/live/series'
import { empty, type Stats } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { ErrorNote } from '@/ui/feedback'
import { BreakerGlyph, HealthGlyph } from '@/ui/glyphs'
import { BreakerPill, canServe, inTrouble, isFailing } from '@/ui/status'
import { callsOf, GroupCounts, GroupLink, GroupModels, GroupSentence } from '../wrong/sentence'
import { jackKey, modelKey, type Bay } from './bay-layout'

/** The bay without cables, for narrow screens: trouble first, then traffic. */
export function BayList({ instances, stats }: { instances: readonly InstanceState[]; stats: Stats }) {
  const { t } = useI18n()
  const now = useNow()
  const [all, setAll] = useState(false)
  const models = useMemo(() => {
    const groups = new Map<string, InstanceState[]>()
    for (const instance of instances) groups.set(modelKey(instance), [...(groups.get(modelKey(instance)) ?? []), instance])
    return [...groups].map(([key, members]) => ({ key, members, stat: stats.models.get(key) ?? empty }))
  }, [instances, stats])
  const busy = models
    .filter((model) => model.stat.requests > 0 || model.members.some(inTrouble) || all)
    .sort((a, b) => Number(b.members.some(inTrouble)) - Number(a.members.some(inTrouble)) || b.stat.rate - a.stat.rate || a.key.localeCompare(b.key))
  const quiet = models.length - busy.length
  const max = Math.max(0.001, ...busy.map((model) => model.stat.rate))
  return (
    <div className="panel baylist">
      {busy.map(({ key, members, stat }) => {
        // A model of which an instance answers is not open, whatever happened to the others.
        const able = members.find((member) => canServe(member) && !inTrouble(member))
        const worst = able ?? members.find(inTrouble) ?? members[0]!
        const hurt = members.filter(inTrouble).length
        const first = members[0]!
        return (
          <Link key={key} className="bl plain" to="/model" search={{ service: first.service, id: first.model } as never}>
            <span className="nm trunc" title={first.model}>{shorten(first.model, 26)}</span>
            <BreakerPill instance={worst} now={now} idle={stat.requests === 0 && !inTrouble(worst)} />
            <code className={`trunc ${able !== undefined && hurt > 0 ? 'warn' : ''}`}>{members.length === 1 ? first.host : able !== undefined && hurt > 0 ? t('wrong.canServe', { n: members.filter(canServe).length, all: members.length }) : t('common.instances', { n: members.length })}</code>
            <span className="val">
              {rate(stat.requests === 0 ? null : stat.rate)} <span className="u">{t('common.reqs')}</span>
              {(stat.errorRate ?? 0) > 0 && <span className="bad ml-2">{percent(stat.errorRate)}</span>}
            </span>
            <span className="share" aria-hidden="true">
              {members.map((member) => {
                const own = stats.instances.get(jackKey(member))?.rate ?? 0
                return own === 0 ? null : <i key={member.id} className={inTrouble(member) ? 'wn' : ''} style={{ width: `${(own / max) * 100}%` }} />
              })}
            </span>
          </Link>
        )
      })}
      {(quiet > 0 || all) && (
        <div className="px-3 py-2 text-[12px]">
          <button type="button" className="link muted" onClick={() => setAll(!all)}>
            {all ? t('overview.fold') : t('overview.moreModels', { n: quiet })}
          </button>
        </div>
      )}
    </div>
  )
}

type Column = 'model' | 'share' | 'rate' | 'errors' | 'p95'

/** The bay as a table that can be sorted. */
export function BayTable({ bay }: { bay: Bay }) {
  const { t } = useI18n()
  const now = useNow()
  const [sort, setSort] = useState<{ column: Column; down: boolean }>({ column: 'model', down: false })
  const value = (row: Bay['jacks'][number]) =>
    ({ model: row.instances[0]!.id, share: row.share ?? -1, rate: row.stat.rate, errors: row.stat.errorRate ?? -1, p95: row.stat.p95 ?? -1 })[sort.column]
  const rows = bay.jacks.toSorted((a, b) => {
    const [x, y] = [value(a), value(b)]
    const by = typeof x === 'string' ? x.localeCompare(String(y)) : Number(x) - Number(y)
    return sort.down ? -by : by
  })
  const Head = ({ column, label, num }: { column: Column; label: Key; num?: boolean }) => (
    <th className={num ? 'num w-[96px]' : ''} aria-sort={sort.column === column ? (sort.down ? 'descending' : 'ascending') : undefined}>
      <button type="button" className="sortb" onClick={() => setSort({ column, down: sort.column === column ? !sort.down : num === true })}>
        {t(label)}
        {sort.column === column ? (sort.down ? ' ↓' : ' ↑') : ''}
      </button>
    </th>
  )
  return (
    <div className="panel">
      <table className="tbl fx">
        <thead>
          <tr>
            <Head column="model" label="common.instance" />
            <th className="w-[100px]">{t('common.service')}</th>
            <Head column="share" label="common.share" num />
            <Head column="rate" label="common.reqs" num />
            <Head column="errors" label="common.errors" num />
            <Head column="p95" label="common.p95" num />
            <th className="w-[140px]">{t('common.breaker')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const instance = row.instances[0]!
            return (
              <tr key={row.key}>
                <td className="cut">
                  <Link to="/instance" search={{ service: instance.service, id: instance.id } as never}>
                    <code>{row.folded ? row.host : shorten(instance.model, 30)}</code>
                  </Link>{' '}
                  <code className="muted">{row.folded ? t('common.instances', { n: row.instances.length }) : instance.host}</code>
                </td>
                <td>{t(`pg.${instance.service}`)}</td>
                <td className="num">{percent(row.share, 0)}</td>
                <td className="num">{rate(row.stat.requests === 0 ? null : row.stat.rate)}</td>
                <td className={`num ${(row.stat.errorRate ?? 0) > 0 ? 'bad' : ''}`}>{percent(row.stat.errorRate)}</td>
                <td className="num">{text(duration(row.stat.p95))}</td>
                <td>
                  <BreakerPill instance={instance} now={now} idle={row.stat.requests === 0} />
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

export function ServicesTable({ range }: { range: Range }) {
  const { t } = useI18n()
  const { snapshot } = useLive()
  const stats = useStats(range)
  const services = serviceTypes
    .map((type) => ({ type, members: (snapshot?.instances ?? []).filter((instance) => instance.service === type) }))
    .filter(({ members }) => members.length > 0)
  return (
    <div className="panel">
      <table className="tbl">
        <thead>
          <tr>
            <th>{t('common.service')}</th>
            <th>{t('overview.canServe')}</th>
            <th className="onlydesk roomy">{t('overview.breakers')}</th>
            <th className="num">{t('common.reqs')}</th>
            <th className="num">{t('common.errors')}</th>
            <th className="num">{t('common.p95')}</th>
            <th className="num onlydesk roomy">{t('common.firstToken')}</th>
          </tr>
        </thead>
        <tbody>
          {services.map(({ type, members }) => {
            const able = members.filter(canServe).length
            const wanted = members.filter((member) => member.enabled && member.weight > 0).length
            const open = members.filter((member) => member.breaker === 'OPEN').length
            const half = members.filter((member) => member.breaker === 'HALF_OPEN').length
            const stat = stats.services.get(type) ?? empty
            const failing = members.filter(isFailing).length
            const short = able < wanted || failing > 0
            return (
              <tr key={type}>
                <td>
                  <Link className="plain font-medium hover:underline" to="/services" search={{ q: type } as never}>
                    {t(`pg.${type}`)}
                  </Link>
                </td>
                <td>
                  <span className={`pill ${short ? 'wn' : 'ok'}`} title={failing === 0 ? undefined : t('wrong.canServe', { n: able, all: members.length }) + t('wrong.ofThemFail', { n: failing })}>
                    {short ? <TriangleAlert className="ic s14" aria-hidden /> : <HealthGlyph state="healthy" />}
                    {able - failing} / {members.length}
                  </span>
                </td>
                <td className="onlydesk roomy">
                  {open + half === 0 ? (
                    <span className="pill ok">
                      <BreakerGlyph state="CLOSED" />
                      {t('breaker.allClosed')}
                    </span>
                  ) : (
                    <span className="row">
                      {open > 0 && (
                        <span className="pill bd" title={t('breaker.open')}>
                          <BreakerGlyph state="OPEN" />
                          {open}
                        </span>
                      )}
                      {half > 0 && (
                        <span className="pill wn" title={t('breaker.halfOpen')}>
                          <BreakerGlyph state="HALF_OPEN" />
                          {half}
                        </span>
                      )}
                    </span>
                  )}
                </td>
                <td className="num">{rate(stat.requests === 0 ? null : stat.rate)}</td>
                <td className={`num ${(stat.errorRate ?? 0) > 0 ? 'bad' : ''}`}>{percent(stat.errorRate)}</td>
                <td className="num">{text(duration(stat.p95))}</td>
                <td className="num onlydesk roomy">{text(duration(stat.firstToken))}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

/** What is wrong, the worst first; each leads to the page of its object. Calls of strangers are apart. */
export function ProblemList() {
  const { t } = useI18n()
  const { data, error } = useQuery(wrong())
  const list = data?.groups ?? []
  if (error !== null && data === undefined) return <ErrorNote error={error} title={t('error.load')} />
  const strangers = list.filter((group) => group.kind === 'stranger')
  return (
    <>
      <div className="panel">
        {data !== undefined && list.length === strangers.length && <div className="muted px-3 py-3">{t('overview.noProblems')}</div>}
        {list.filter((group) => group.kind !== 'stranger').slice(0, 10).map((group) => <Problem key={`${group.kind} ${group.service} ${group.subject} ${group.code} ${group.since} ${group.models.join(' ')} ${group.text ?? ''}`} group={group} />)}
      </div>
      {strangers.length > 0 && (
        <div className="panel mt-2" aria-label={t('wrong.strangers')} role="group">
          {strangers.slice(0, 3).map((group) => <Problem key={`${group.service} ${group.code} ${group.since}`} group={group} />)}
        </div>
      )}
    </>
  )
}

function Problem({ group }: { group: ProblemGroup }) {
  const { t, locale } = useI18n()
  const now = useNow()
  const count = group.lost + group.rescued + group.refused
  return (
    <div className="pr" data-state={group.state}>
      <span className="muted">{group.requestId === '' ? t('wrong.now') : since(Date.parse(group.last), now, locale)}</span>
      <span className="min-w-0">
        <GroupLink group={group} className="goes">
          <GroupSentence group={group} now={now} />
        </GroupLink>
        <GroupModels group={group} />
        {group.code !== '' && <code className={`block ${group.state === 'losing' ? 'bad' : group.state === 'over' ? 'muted' : 'warn'}`}>{`${group.httpStatus ?? ''} ${group.code}`}</code>}
        {group.requestId !== '' && <GroupCounts group={group} />}
      </span>
      {count > 0 ? (
        <Link to="/calls" search={{ ...callsOf(group), call: group.requestId } as never}>
          {`×${count}`}
        </Link>
      ) : (
        <span />
      )}
    </div>
  )
}
