import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState, type FormEvent } from 'react'
import { fieldErrors } from '@/api/client'
import { useI18n } from '@/i18n'
import { digits, stamp } from '@/lib/format'
import { money } from '@/lib/money'
import { connect, tools, type Tool } from '@/lib/tools'
import { logOut } from '@/shell/session'
import { ErrorNote, Toasts } from '@/ui/feedback'
import { SelectField, TextField } from '@/ui/field'
import { Mark } from '@/ui/glyphs'
import { CodeBox, Segments } from '@/ui/parts'
import { own, type OwnCall, type OwnKey, type OwnUsage, type Person } from './api'

/** The one page of people who have roles in tenants only: keys, usage, refusals, and how to connect. */
export default function Me() {
  const { t } = useI18n()
  const { data: me, error } = useQuery({ queryKey: ['own'], queryFn: ({ signal }) => own<Person>('/api/me', 'GET', undefined, signal) })
  useEffect(() => {
    document.title = `${t('me.title')} · Patchbay`
  }, [t])
  return (
    <main className="main me" id="main">
      <header className="bar">
        <Mark />
        <h1>{t('me.title')}</h1>
        <span className="grow soft">{me?.name}</span>
        <Toasts />
        <button type="button" className="btn ghost" onClick={() => void logOut()}>
          {t('session.logOut')}
        </button>
      </header>
      {error !== null && <ErrorNote error={error} />}
      {me !== undefined && (
        <>
          <Keys me={me} />
          <Usage me={me} />
          <Refusals />
          <Connect me={me} />
        </>
      )}
    </main>
  )
}

function Keys({ me }: { me: Person }) {
  const { t, said } = useI18n()
  const client = useQueryClient()
  const [name, setName] = useState('')
  const [tenant, setTenant] = useState(me.tenants[0]?.tenant ?? '')
  const [shown, setShown] = useState<OwnKey | null>(null)
  const { data: keys, error } = useQuery({ queryKey: ['own', 'keys'], queryFn: ({ signal }) => own<OwnKey[]>('/api/me/keys', 'GET', undefined, signal) })
  const change = useMutation({
    mutationFn: ({ path, method, content }: { path: string; method: string; content?: object }) => own<OwnKey>(path, method, content),
    onSuccess: (made) => {
      setShown(made.key === undefined ? null : made)
      void client.invalidateQueries({ queryKey: ['own'] })
    },
  })
  const make = (event: FormEvent) => {
    event.preventDefault()
    change.mutate({ path: '/api/me/keys', method: 'POST', content: { name, tenant } })
  }
  const wrong = fieldErrors(change.error, said)
  return (
    <section className="panel" aria-labelledby="me-keys">
      <h2 id="me-keys">{t('me.keys')}</h2>
      <p className="soft">{t('me.keysHint', { n: me.mostKeys, absence: me.absence })}</p>
      {shown?.key !== undefined && (
        <div className="note" role="status">
          <p>{t('me.once')}</p>
          <CodeBox fold text={shown.key} />
        </div>
      )}
      {change.error !== null && <ErrorNote error={change.error} />}
      {error !== null && <ErrorNote error={error} />}
      <table className="tbl">
        <thead>
          <tr>
            <th>{t('me.name')}</th>
            <th>{t('me.tenant')}</th>
            <th>{t('me.status')}</th>
            <th>{t('me.expires')}</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {(keys ?? []).filter((key) => key.status !== 'REVOKED').map((key) => (
            <tr key={key.id}>
              <td title={key.id}>{key.name ?? key.id}</td>
              <td>{key.tenant}</td>
              <td>{t(`key.${key.status}`)}</td>
              <td>{key.expiresAt === '' ? '' : stamp(key.expiresAt)}</td>
              <td className="num">
                <button type="button" className="btn ghost" disabled={change.isPending} onClick={() => change.mutate({ path: `/api/me/keys/${encodeURIComponent(key.id)}/rotate`, method: 'POST' })}>
                  {t('me.rotate')}
                </button>
                <button type="button" className="btn ghost" disabled={change.isPending} onClick={() => change.mutate({ path: `/api/me/keys/${encodeURIComponent(key.id)}`, method: 'DELETE' })}>
                  {t('me.revoke')}
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <form className="bar" onSubmit={make}>
        <TextField label={t('me.name')} value={name} error={wrong.name} onChange={setName} />
        {me.tenants.length > 1 && <SelectField label={t('me.tenant')} value={tenant} options={me.tenants.map((place) => ({ value: place.tenant, label: place.tenant }))} onChange={setTenant} />}
        <button type="submit" className="btn pri" disabled={change.isPending}>
          {t('me.make')}
        </button>
      </form>
    </section>
  )
}

function Usage({ me }: { me: Person }) {
  const { t, locale } = useI18n()
  const { data: usage, error } = useQuery({ queryKey: ['own', 'usage'], retry: false, queryFn: ({ signal }) => own<OwnUsage>('/api/me/usage?by=model', 'GET', undefined, signal) })
  return (
    <section className="panel" aria-labelledby="me-usage">
      <h2 id="me-usage">{t('me.usage')}</h2>
      {error !== null && <ErrorNote error={error} />}
      {usage?.enabled === false && <p className="soft">{t('me.ledgerOff')}</p>}
      {usage?.enabled === true && <p>{t('me.total', { requests: digits(usage.total.requestCount, locale), tokens: digits(usage.total.tokenCount, locale), cost: money(usage.total.cost, usage.currency, locale) })}</p>}
      <ul>
        {(usage?.groups ?? []).map((group) => (
          <li key={group.name}>{`${group.name}: ${t('me.total', { requests: digits(group.requestCount, locale), tokens: digits(group.tokenCount, locale), cost: money(group.cost, usage?.currency ?? '', locale) })}`}</li>
        ))}
        {me.budgets.budgets.map((use) => (
          <li key={`${use.of} ${use.window} ${use.unit}`}>
            {t('me.budget', { of: use.of, window: use.window, used: use.unit === 'cost' ? money(use.used, me.budgets.currency, locale) : digits(use.used, locale), limit: use.unit === 'cost' ? money(use.limit, me.budgets.currency, locale) : digits(use.limit, locale), unit: use.unit === 'cost' ? '' : use.unit })}
          </li>
        ))}
      </ul>
    </section>
  )
}

function Refusals() {
  const { t, said } = useI18n()
  const { data: page, error } = useQuery({ queryKey: ['own', 'calls'], refetchInterval: 10_000, queryFn: ({ signal }) => own<{ calls: OwnCall[] }>('/api/me/calls?outcome=failed&limit=20', 'GET', undefined, signal) })
  return (
    <section className="panel" aria-labelledby="me-refused">
      <h2 id="me-refused">{t('me.refused')}</h2>
      {error !== null && <ErrorNote error={error} />}
      {page?.calls.length === 0 && <p className="soft">{t('me.noneRefused')}</p>}
      <ul>
        {(page?.calls ?? []).map((call) => (
          <li key={call.requestId}>
            <span className="soft">{stamp(call.time)}</span> {call.asked ?? call.model}: {call.said === undefined ? (call.errorMessage ?? call.errorCode) : said(call.said, call.errorMessage)}
            {call.refusedBy !== undefined && ` (${call.refusedBy})`}
          </li>
        ))}
      </ul>
    </section>
  )
}

function Connect({ me }: { me: Person }) {
  const { t } = useI18n()
  const models = [...new Set(me.tenants.flatMap((place) => place.models.filter((model) => model.service === 'chat').map((model) => model.id)))]
  const [tool, setTool] = useState<Tool>('claude')
  const [model, setModel] = useState(models[0] ?? '')
  return (
    <section className="panel" aria-labelledby="me-connect">
      <h2 id="me-connect">{t('me.connect')}</h2>
      <p className="soft">{t('me.connectHint')}</p>
      <Segments<Tool> label={t('me.tool')} value={tool} options={tools} onChange={setTool} />
      {models.length > 0 && <SelectField label={t('me.model')} value={model} options={models.map((name) => ({ value: name, label: name }))} onChange={setModel} />}
      <CodeBox text={connect(tool, location.origin, model)} />
    </section>
  )
}
