import { useQuery } from '@tanstack/react-query'
import { budgets, terms, troubles } from '@/api/queries'
import type { ProblemGroup } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { yamlLines } from '@/lib/yaml'
import { useNow } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { Bar } from '@/ui/parts'
import { Link } from '@tanstack/react-router'
import { Errors, LatestCalls, Running, Section } from './parts'
import { GroupSentence, isCurrent } from './sentence'

/** A tenant: its terms, what is left of them, what was refused. Without a name, all of them. */
export default function TenantPage() {
  const { t } = useI18n()
  const [search] = useSearchState()
  const id = search.id ?? ''
  const now = useNow()
  const all = useQuery(terms)
  const used = useQuery({ ...budgets, refetchInterval: 5000 })
  const mine = (group: ProblemGroup) => group.kind === 'refusal' && group.subject === `tenant/${id}`
  const current = (useQuery(troubles).data ?? []).find((group) => mine(group) && isCurrent(group, now))
  usePageFact(id)
  usePageCalls([{ path: '/api/config/terms' }, { path: '/api/monitoring/budgets' }, { path: `/api/monitoring/calls?tenant=${encodeURIComponent(id)}` }])
  const tenants = (all.data as { tenants?: { name: string }[] } | undefined)?.tenants ?? []
  const own = tenants.find((one) => one.name === id)
  if (id === '') {
    return (
      <Section title={t('wrong.tenants')}>
        {all.error !== null && <ErrorNote error={all.error} title={t('error.load')} />}
        <div className="panel">
          {tenants.length === 0 && <div className="muted px-3 py-3">{t('wrong.noTenants')}</div>}
          {tenants.map((one) => (
            <Link key={one.name} className="pr plain" to="/tenant" search={{ id: one.name } as never}><span /> <b>{one.name}</b><span /></Link>
          ))}
        </div>
      </Section>
    )
  }
  const uses = (used.data?.budgets ?? []).filter((one) => one.of === `tenant/${id}`)
  return (
    <>
      <div className="head">
        <div className="grow">
          <h2>{current !== undefined ? <GroupSentence group={current} now={now} /> : <T k={own === undefined ? 'wrong.tenantFree' : 'wrong.tenantWell'} v={{ name: <b>{id}</b> }} />}</h2>
          <p><Link className="soft" to="/tenant">{t('wrong.tenants')}</Link></p>
        </div>
      </div>
      <div className="cols">
        <div>
          <Section title={t('wrong.budgets')} more={<Link to="/quota">{t('nav.quota')}</Link>}>
            <div className="panel">
              {uses.length === 0 && <div className="muted px-3 py-3">{t('wrong.noBudgets')}</div>}
              {uses.map((one) => (
                <div key={`${one.window} ${one.unit}`} className="pr obj">
                  <Bar share={Math.min(1, Number(one.used) / Math.max(1e-9, Number(one.limit)))} kind={Number(one.used) >= Number(one.limit) ? 'bd' : ''} />
                  <span className="min-w-0">{t('wrong.usedOf', { used: amount(one.used, one.unit), limit: amount(one.limit, one.unit), unit: one.unit, window: one.window })}</span>
                  <span className="muted nowrap">{one.reset === null ? '' : stamp(one.reset).slice(0, 16)}</span>
                </div>
              ))}
            </div>
          </Section>
          <Section title={t('wrong.terms')}>
            {all.error !== null && <ErrorNote error={all.error} title={t('error.load')} />}
            <pre className="code fold">{own === undefined ? '–' : yamlLines(own).join('\n')}</pre>
          </Section>
        </div>
        <div>
          <Errors of={mine} />
          <LatestCalls question={{ tenant: id }} />
          <Running question={{ tenant: id }} />
        </div>
      </div>
    </>
  )
}

/** Costs come in millionths. */
function amount(value: number, unit: string): string {
  return unit === 'cost' ? (value / 1e6).toFixed(2) : String(value)
}
