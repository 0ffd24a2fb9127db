import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { budgets, keys, spentThisMonth, terms } from '@/api/queries'
import type { Key } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { stamp, utc } from '@/lib/format'
import { budgetText, spentText } from '@/lib/money'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { GuardedLink, useDenied } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { Bar } from '@/ui/parts'
import { budgetUnits, budgetWindows, limitNames, type StoredTerms } from '../keys/form'
import { LastUsed } from '../keys/used'
import { Facts, ObjectPage } from './frame'
import { changesTenant, Errors, Here, Section } from './parts'
import { TermsDrawer } from './terms-drawer'

/** A tenant: what it used, what was refused, its keys and its terms. Without a name, all of them. */
export default function TenantPage() {
  const [search] = useSearchState()
  return (search.id ?? '') === '' ? <Tenants /> : <Tenant key={search.id} id={search.id!} />
}

/** The tenants that have terms or keys, with what they spent. */
function Tenants() {
  const { t, locale } = useI18n()
  const all = useQuery(terms)
  const issued = useQuery({ ...keys, retry: false, enabled: useDenied('auth:key:manage') === undefined }).data ?? []
  const { data: spent } = useQuery(spentThisMonth('tenant'))
  const own = new Set((all.data?.tenants ?? []).map((one) => one.name))
  const names = [...new Set([...own, ...issued.map((key) => key.tenant), ...(spent?.costs.keys() ?? [])])].filter((name) => name !== '').toSorted((a, b) => a.localeCompare(b))
  usePageCalls([{ path: '/api/config/terms' }, { path: '/api/auth/keys' }, { path: '/api/monitoring/spend?by=tenant' }])
  return (
    <Section title={t('wrong.tenants')}>
      {all.error !== null && <ErrorNote error={all.error} title={t('error.load')} />}
      <div className="panel">
        {names.length === 0 && <div className="muted px-3 py-3">{t('wrong.noTenants')}</div>}
        {names.map((name) => (
          <Link key={name} className="pr obj plain" to="/tenant" search={{ id: name } as never}>
            <b className="trunc" title={name}>{name}</b>
            <span className="muted">{[t('wrong.keyCount', { n: issued.filter((key) => key.tenant === name).length }), own.has(name) ? t('wrong.hasTerms') : t('wrong.hasNoTerms')].join(' · ')}</span>
            <span className="nowrap">{spent?.shown === true && spentText(spent, name, t, locale)}</span>
          </Link>
        ))}
      </div>
    </Section>
  )
}

function Tenant({ id }: { id: string }) {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const all = useQuery(terms)
  const denied = useDenied('auth:key:manage')
  const issued = useQuery({ ...keys, retry: false, enabled: denied === undefined })
  const its = (issued.data ?? []).filter((key) => key.tenant === id)
  const own = all.data?.tenants.find((one) => one.name === id) as StoredTerms | undefined
  const accounts = new Set([`tenant/${id}`, ...its.map((key) => `key/${key.id}`)])
  usePageFact(id)
  const name = encodeURIComponent(id)
  usePageCalls([{ path: '/api/config/terms' }, { path: '/api/monitoring/budgets' }, { path: `/api/monitoring/series?by=tenant&tenant=${name}` }, { path: `/api/monitoring/calls?tenant=${name}` }, { path: `/api/monitoring/running?tenant=${name}` }])
  const drawer = search.terms === '1' && all.data !== undefined ? <TermsDrawer tenant={id} stored={own ?? null} version={all.data.version} onClose={() => setSearch({ terms: undefined })} /> : null
  return (
    <ObjectPage
      sentence={<Spent id={id} hasTerms={own !== undefined} />}
      under={<Link className="soft" to="/tenant">{t('wrong.tenants')}</Link>}
      actions={
        <div className="bar" role="group" aria-label={t('wrong.actions')}>
          <GuardedLink needs="config:terms:write" className="btn" to="/tenant" search={((old: object) => ({ ...old, terms: '1' })) as never}>{t('wrong.editTerms')}</GuardedLink>
          <GuardedLink needs="auth:key:manage" className="btn" to="/keys" search={{ create: '1', tenant: id } as never}>{t('wrong.newKey')}</GuardedLink>
          <Link className="btn ghost" to="/spend" search={{ only: `tenant~${id}`, by: 'model' } as never}>{t('nav.spend')}</Link>
        </div>
      }
      history={{ of: { by: 'tenant', tenant: id }, label: id }}
      errors={<Errors question={{ tenant: id }} />}
      parts={
        <>
          <Budgets accounts={accounts} />
          <Keys list={its} isKnown={denied === undefined && issued.error === null} />
        </>
      }
      question={{ tenant: id }}
      settings={
        <Section title={t('wrong.terms')} more={<Here search={{ terms: '1' }}>{t('wrong.edit')}</Here>}>
          {all.error !== null && <ErrorNote error={all.error} title={t('error.load')} />}
          {own === undefined ? <div className="panel muted px-3 py-3">{t('wrong.noTerms')}</div> : <Terms own={own} />}
        </Section>
      }
      changes={changesTenant(id)}
      drawer={drawer}
    />
  )
}

/** What a tenant with nothing wrong has used this month, by the ledger. */
function Spent({ id, hasTerms }: { id: string; hasTerms: boolean }) {
  const { t, locale } = useI18n()
  const { data: spent } = useQuery({ ...spentThisMonth('tenant'), refetchInterval: 5000 })
  const name = <b>{id}</b>
  if (spent?.isCounted !== true) return <T k={hasTerms ? 'wrong.tenantWell' : 'wrong.tenantFree'} v={{ name }} />
  const requests = spent.requests.get(id) ?? 0
  if (requests === 0) return <T k="wrong.tenantQuiet" v={{ name }} />
  const used = { name, requests: t('wrong.runningSum', { n: requests }) }
  return spent.shown ? <T k="wrong.tenantSpent" v={{ ...used, cost: spentText(spent, id, t, locale) }} /> : <T k="wrong.tenantUsed" v={used} />
}

/** What is used of the budgets of a tenant and of its keys. */
function Budgets({ accounts }: { accounts: ReadonlySet<string> }) {
  const { t, locale } = useI18n()
  const { data } = useQuery({ ...budgets, refetchInterval: 5000 })
  const uses = (data?.budgets ?? []).filter((one) => accounts.has(one.of))
  return (
    <Section title={t('wrong.budgets')} more={<Link to="/spend" search={{ view: 'ledger' } as never}>{t('nav.spend')}</Link>}>
      <div className="panel">
        {uses.length === 0 && <div className="muted px-3 py-3">{t('wrong.noBudgets')}</div>}
        {uses.map((one) => (
          <div key={`${one.of} ${one.window} ${one.unit}`} className="pr obj">
            <Bar share={Math.min(1, one.used / Math.max(1e-9, one.limit))} kind={one.used >= one.limit ? 'bd' : one.used >= 0.9 * one.limit ? 'wn' : ''} />
            <span className="min-w-0">
              {budgetText(one, data?.currency ?? '', t, locale)} · {t(`quota.budget.${one.window}`)}
              {one.of.startsWith('key/') && <code className="muted block trunc" title={one.of}>{one.of.slice(4)}</code>}
            </span>
            <span className="muted nowrap">{one.reset === null ? '' : t('wrong.resets', { time: `${utc(one.reset)} UTC` })}</span>
          </div>
        ))}
      </div>
    </Section>
  )
}

/** The keys of a tenant, with what each cost this month. */
function Keys({ list, isKnown }: { list: Key[]; isKnown: boolean }) {
  const { t, locale } = useI18n()
  const { data: spent } = useQuery(spentThisMonth('key'))
  return (
    <Section title={t('wrong.keys')} more={<Link to="/keys">{t('nav.keys')}</Link>}>
      <div className="panel">
        {list.length === 0 && <div className="muted px-3 py-3">{t(isKnown ? 'wrong.noKeys' : 'wrong.keysHidden')}</div>}
        {list.map((key) => (
          <Link key={key.id} className="pr obj plain" to="/keys" search={{ key: key.id } as never}>
            <span className={key.status === 'ACTIVE' ? 'soft' : 'bad'}>{t(`key.${key.status}`)}</span>
            <span className="min-w-0">
              <code className="trunc block" title={key.id}>{key.id}</code>
              <span className="muted"><LastUsed of={key} /></span>
            </span>
            <span className="nowrap" title={t('spend.thisMonth')}>{spent?.shown === true && spentText(spent, key.id, t, locale)}</span>
          </Link>
        ))}
      </div>
    </Section>
  )
}

/** What a tenant may use, in words. */
function Terms({ own }: { own: StoredTerms }) {
  const { t, locale } = useI18n()
  const { data } = useQuery(budgets)
  const number = new Intl.NumberFormat(locale)
  const limits = limitNames.filter((name) => own.limits[name] !== 0).map((name) => [t(`key.limit.${name}`), own.limits[name] < 0 ? t('wrong.unlimited') : number.format(own.limits[name])] as const)
  const each = budgetWindows.flatMap((window) =>
    budgetUnits.flatMap((unit) => {
      const limit = own.budgets[window]?.[unit]
      if (limit === undefined || limit === null || Number(limit) === 0) return []
      return [[`${t('key.budgets')} · ${t(`key.window.${window}`)} · ${t(`key.budget.${unit}`)}`, `${unit === 'cost' ? `${limit} ${data?.currency ?? ''}` : `${number.format(Number(limit))} ${t(`quota.budget.${unit}`)}`}`] as const]
    }),
  )
  return (
    <Facts
      of={[
        [t('key.services'), own.services.length === 0 ? t('key.anyService') : own.services.map((type) => t(`pg.${type}`)).join(t('common.comma'))],
        [t('key.models'), own.models.length === 0 ? t('wrong.anyModel') : <code>{own.models.join(', ')}</code>],
        [t('key.addresses'), own.addresses.length > 0 && <code>{own.addresses.join(', ')}</code>],
        [t('key.expires'), own.expiresAt !== '' && stamp(own.expiresAt)],
        [t('key.priority'), own.priority !== undefined && t(`common.${own.priority}`)],
        ...limits,
        ...each,
      ]}
    />
  )
}
