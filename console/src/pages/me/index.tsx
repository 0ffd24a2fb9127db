import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { ask } from '@/api/client'
import type { Person } from '@/api/types'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { connect, tools, type Tool } from '@/lib/tools'
import { useNow } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useMe } from '@/shell/session'
import { ErrorNote } from '@/ui/feedback'
import { SelectField } from '@/ui/field'
import { CodeBox, Segments } from '@/ui/parts'
import { Named, Table } from '@/ui/table'
import { BudgetTable } from '../quota/budgets'
import { OwnRuns } from '../runs/mine'
import { callsAt, ownPace, stillRefused, useNameOf, Why } from './calls'
import { keysAt, MakeKey, OwnKeys } from './keys'
import { OwnUsage } from './usage'

const at = '/api/me'

/** The page of people who make their own keys: keys, how to connect, usage, and what was refused. */
export default function Mine() {
  const { t } = useI18n()
  const who = useMe()
  const isMember = (who?.memberships?.length ?? 0) > 0
  const query = useQuery({ queryKey: ['own', at], refetchInterval: ownPace, enabled: isMember, queryFn: ({ signal }) => ask<Person>(at, 'GET', undefined, signal) })
  usePageFact(query.data === undefined ? '' : query.data.tenants.map(({ tenant }) => tenant).join(', '))
  if (!isMember) return <div className="note">{t('own.noTenant')}</div>
  if (query.data === undefined) return query.error === null ? null : <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />
  return <Page me={query.data} />
}

function Page({ me }: { me: Person }) {
  const { t } = useI18n()
  const now = useNow()
  const { data: keys } = useQuery(keysAt(at))
  const refusals = useQuery(callsAt(at, { outcome: 'failed', limit: '20' }))
  usePageCalls([{ path: at }, { path: `${at}/usage?by=model` }, { path: `${at}/calls?outcome=failed&limit=20` }])
  const nameOf = useNameOf(keys ?? [])
  const out = stillRefused(refusals.data?.calls ?? [], now)
  return (
    <>
      {out.map((call) => (
        <div key={call.requestId} className="note bd mb-3" role="status">
          <p>
            <Why call={call} nameOf={nameOf} />
          </p>
        </div>
      ))}
      <section className="mb-4" aria-labelledby="own-keys">
        <div className="h2 flex-wrap">
          <h2 id="own-keys">{t('own.keys')}</h2>
          <span className="soft grow">{t('own.keysHint', { n: me.mostKeys, absence: me.absence })}</span>
          <MakeKey />
        </div>
        <OwnKeys at={at} places={me.tenants} mine={me.name} currency={me.budgets.currency} />
      </section>
      <Connect me={me} />
      <section className="mb-4" aria-labelledby="own-usage">
        <div className="h2">
          <h2 id="own-usage">{t('own.usage')}</h2>
        </div>
        <OwnUsage at={at} nameOf={nameOf} />
        {me.budgets.budgets.length > 0 && (
          <div className="mt-3">
            <BudgetTable rows={me.budgets.budgets} currency={me.budgets.currency} nameOf={nameOf} isOut={(row) => row.used >= row.limit || out.some(({ refusedBy }) => refusedBy === row.of)} />
          </div>
        )}
      </section>
      <OwnRuns />
      <section aria-labelledby="own-refused">
        <div className="h2">
          <h2 id="own-refused">{t('own.refused')}</h2>
        </div>
        {refusals.error !== null && <ErrorNote error={refusals.error} title={t('error.load')} retry={() => void refusals.refetch()} />}
        {refusals.data !== undefined && (
          <Table
            rows={refusals.data.calls}
            keyOf={({ requestId, number }) => `${requestId} ${number}`}
            empty={t('own.noneRefused')}
            columns={[
              { head: t('common.model'), className: 'cut w-[40%] md:w-[22%]', cell: ({ asked, model, time }) => <Named name={asked ?? model ?? '–'} below={stamp(time)} /> },
              { head: t('spend.by.key'), className: 'lo cut w-[16%]', cell: ({ keyId }) => nameOf(`key/${keyId ?? ''}`).replace(/^key\//, '') },
              { head: t('own.why'), className: 'wrap', cell: (call) => <Why call={call} nameOf={nameOf} /> },
            ]}
          />
        )}
      </section>
    </>
  )
}

/** How a tool is connected, with the address and a model filled in. */
function Connect({ me }: { me: Person }) {
  const { t } = useI18n()
  const models = [...new Set(me.tenants.flatMap(({ models: offered }) => offered.filter(({ service }) => service === 'chat').map(({ id }) => id)))]
  const [tool, setTool] = useState<Tool>('claude')
  const [wanted, setModel] = useState('')
  const model = models.includes(wanted) ? wanted : models[0]
  return (
    <section className="mb-4" aria-labelledby="own-connect">
      <div className="h2">
        <h2 id="own-connect">{t('own.connect')}</h2>
      </div>
      {model === undefined ? (
        <p className="note">{t('own.noModel')}</p>
      ) : (
        <div className="panel p-4">
          <p className="soft mb-3">{t(tool === 'cursor' ? 'own.connectCursor' : tool === 'continue' ? 'own.connectContinue' : 'own.connectHint')}</p>
          <div className="bar">
            <Segments<Tool> label={t('own.tool')} value={tool} options={tools.map(({ value, label }) => ({ value, label: <span translate="no">{label}</span> }))} onChange={setTool} />
          </div>
          <div className="max-w-[360px]">
            <SelectField label={t('common.model')} value={model} options={models.map((name) => ({ value: name, label: name }))} onChange={setModel} />
          </div>
          <CodeBox text={connect(tool, location.origin, model)} />
        </div>
      )}
    </section>
  )
}
