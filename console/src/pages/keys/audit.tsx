import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useCallback, type ReactNode } from 'react'
import { ask } from '@/api/client'
import type { AuditHead, AuditRecord } from '@/api/types'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { usePageCalls } from '@/shell/api-calls'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { Drawer } from '@/ui/overlay'
import { CodeBox } from '@/ui/parts'
import { Named, Table } from '@/ui/table'

interface Found {
  content: AuditRecord[]
  page: { number: number; totalElements: number; totalPages: number }
}

const size = '50'

/** What the API takes as a time, of the beginning of a day in UTC; undefined where there is none. */
function dayStart(day: unknown): string | undefined {
  return typeof day === 'string' && /^\d{4}-\d\d-\d\d$/.test(day) ? `${day}T00:00:00Z` : undefined
}

/** Who did what: a search of the records; all of them as a file, and their signed heads, for who may read everything. */
export function Audit({ tenant }: {
  /** Whose records are shown to the administrator of a team. */
  tenant?: string
}) {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const text = (name: string) => (typeof search[name] === 'string' && search[name] !== '' ? String(search[name]) : undefined)
  const page = Math.max(1, Number(search.page ?? 1) || 1)
  const asked = new URLSearchParams(Object.entries({ who: text('who'), what: text('what'), from: dayStart(search.from), to: dayStart(search.to), page: String(page), size }).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))).toString()
  const query = useQuery({ queryKey: ['audit', asked], placeholderData: keepPreviousData, queryFn: ({ signal }) => ask<Found>(`/api/audit?${asked}`, 'GET', undefined, signal) })
  usePageCalls([{ path: `/api/audit?${asked}` }, ...(tenant === undefined ? [{ path: '/api/audit/heads' }, { path: '/api/audit/keys' }] : [])])
  const close = useCallback(() => setSearch({ record: undefined }), [setSearch])
  const found = query.data
  const open = found?.content.find((record) => idOf(record) === search.record)
  const filter = (name: 'who' | 'what' | 'from' | 'to', type: string) => (
    <label className="row">
      {type === 'date' && <span className="soft">{t(`audit.${name}`)}</span>}
      <div className="inp grow">
        <input type={type} aria-label={t(`audit.${name}`)} placeholder={t(`audit.${name}`)} value={text(name) ?? ''} onChange={(event) => setSearch({ [name]: event.target.value === '' ? undefined : event.target.value, page: undefined, record: undefined })} />
      </div>
    </label>
  )
  return (
    <div className={open === undefined ? '' : 'split narrow'}>
      <div className="list">
        <div className="bar">
          <span className="soft grow">{t(tenant === undefined ? 'audit.text' : 'audit.teamText', { tenant: tenant ?? '' })}</span>
          {tenant === undefined && (
            <a className="btn" href="/api/audit?format=jsonl" download="audit.jsonl">
              {t('audit.export')}
            </a>
          )}
        </div>
        <div className="bar">
          {filter('who', 'search')}
          {filter('what', 'search')}
          {filter('from', 'date')}
          {filter('to', 'date')}
        </div>
        {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
        {found !== undefined && (
          <Table
            rows={found.content}
            keyOf={idOf}
            selected={open === undefined ? undefined : idOf(open)}
            empty={t('audit.none')}
            columns={[
              { head: t('audit.what'), className: 'cut', cell: (record) => <Named name={record.action} below={record.object} isData onOpen={() => setSearch({ record: idOf(record) }, true)} /> },
              { head: t('audit.who'), className: 'cut w-[22%]', cell: ({ who, role }) => <Named name={who === '' ? '–' : who.replace(/ <.*>$/, '')} title={who} below={role} /> },
              { head: t('audit.result'), className: 'cut w-[18%]', cell: ({ result }) => <span className={/refused|failed|unknown/.test(result) ? 'warn' : ''} title={result} translate="no">{result}</span> },
              { head: t('audit.time'), className: 'lo w-[136px]', cell: ({ time }) => stamp(time).slice(0, 19) },
              { head: t('audit.address'), className: 'lo cut w-[13%]', cell: ({ address }) => (address === '' ? '–' : address) },
            ]}
          />
        )}
        {found !== undefined && found.page.totalPages > 1 && (
          <div className="bar mt-3">
            <span className="soft grow">{t('audit.pages', { page, pages: found.page.totalPages, count: found.page.totalElements })}</span>
            <button type="button" className="btn" disabled={page <= 1} onClick={() => setSearch({ page: String(page - 1) })}>
              {t('audit.newer')}
            </button>
            <button type="button" className="btn" disabled={page >= found.page.totalPages} onClick={() => setSearch({ page: String(page + 1) })}>
              {t('audit.older')}
            </button>
          </div>
        )}
        {tenant === undefined && <Heads />}
      </div>
      {open !== undefined && <RecordDrawer record={open} onClose={close} />}
    </div>
  )
}

/** A record is the only one of its chain with its hash. */
const idOf = ({ gateway, seq, hash }: AuditRecord) => `${gateway.slice(0, 8)}-${seq}-${(hash ?? '').slice(0, 8)}`

/** All that a record says. */
function RecordDrawer({ record, onClose }: { record: AuditRecord; onClose(): void }) {
  const { t } = useI18n()
  const rows: [string, ReactNode][] = [
    [t('audit.time'), stamp(record.time)],
    [t('audit.who'), [record.who, record.role].filter((word) => word !== '').join(', ')],
    [t('audit.address'), record.address],
    [t('audit.object'), record.object],
    [t('audit.result'), record.result],
    [t('key.tenant'), record.tenant],
    [t('audit.gateway'), <code key="gateway">{record.gateway}</code>],
    [t('audit.seq'), record.seq],
    [t('audit.hash'), <code key="hash">{record.hash}</code>],
    [t('audit.previous'), record.previous === '' ? undefined : <code key="previous">{record.previous}</code>],
  ]
  return (
    <Drawer label={record.action} title={<code className="text-[13px]">{record.action}</code>} onClose={onClose}>
      <dl className="dl mb-4" translate="no">
        {rows.filter(([, value]) => value !== undefined && value !== '').map(([name, value]) => (
          <div key={name} className="contents">
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <CodeBox fold text={JSON.stringify(record, null, 2)} />
    </Drawer>
  )
}

/** The newest signed head of each gateway: what is kept of it elsewhere shows a chain that was written anew. */
function Heads() {
  const { t } = useI18n()
  const query = useQuery({ queryKey: ['audit', 'heads'], refetchInterval: 30_000, queryFn: ({ signal }) => ask<AuditHead[]>('/api/audit/heads', 'GET', undefined, signal) })
  const newest = (query.data ?? []).filter(({ gateway }, i, all) => all.findIndex((head) => head.gateway === gateway) === i)
  return (
    <section className="mt-5" aria-labelledby="audit-heads">
      <div className="h2 flex-wrap">
        <h2 id="audit-heads">{t('audit.heads')}</h2>
        <span className="soft grow">{t('audit.headsText')}</span>
        <a className="btn ghost" href="/api/audit/heads" download="heads.json">
          {t('audit.allHeads')}
        </a>
        <a className="btn ghost" href="/api/audit/keys" download="keys.json">
          {t('audit.publicKeys')}
        </a>
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && (
        <Table
          rows={newest}
          keyOf={({ gateway }) => gateway}
          empty={t('audit.noHead')}
          columns={[
            { head: t('audit.gateway'), className: 'lo cut w-[24%]', cell: ({ gateway }) => <code title={gateway}>{gateway}</code> },
            { head: t('audit.seq'), className: 'num w-[80px]', cell: ({ seq }) => seq },
            { head: t('audit.time'), className: 'lo w-[136px]', cell: ({ time }) => stamp(time).slice(0, 19) },
            { head: t('audit.hash'), className: 'cut', cell: ({ hash }) => <code title={hash}>{hash}</code> },
          ]}
        />
      )}
    </section>
  )
}
