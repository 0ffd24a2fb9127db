import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api, data } from '@/api/client'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { usePageCalls } from '@/shell/api-calls'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { Name } from '@/ui/parts'

interface Found {
  content: { seq: number; time: string; gateway: string; who: string; role: string; address: string; action: string; object: string; result: string; hash: string }[]
  page: { number: number; totalElements: number; totalPages: number }
}

const size = 50

/** What the API takes as a time, of the beginning of a day in UTC; undefined where there is none. */
function dayStart(day: unknown): string | undefined {
  return typeof day === 'string' && /^\d{4}-\d\d-\d\d$/.test(day) ? `${day}T00:00:00Z` : undefined
}

/** Who did what: a search of the records, and all of them as a file. */
export function Audit() {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const text = (name: string) => (typeof search[name] === 'string' && search[name] !== '' ? String(search[name]) : undefined)
  const page = Math.max(1, Number(search.page ?? 1) || 1)
  const asked = { who: text('who'), what: text('what'), from: dayStart(search.from), to: dayStart(search.to), page, size }
  const query = useQuery({
    queryKey: ['audit', asked],
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }) => (await data(api.GET('/api/audit', { params: { query: asked }, signal }) as never)) as Found,
  })
  usePageCalls([{ path: '/api/audit' }])
  const found = query.data
  const filter = (name: string, type: string) => (
    <input className="inp" type={type} aria-label={t(`audit.${name}` as never)} placeholder={t(`audit.${name}` as never)} value={text(name) ?? ''} onChange={(event) => setSearch({ [name]: event.target.value === '' ? undefined : event.target.value, page: undefined })} />
  )
  return (
    <>
      <div className="bar">
        <span className="soft grow">{t('audit.text')}</span>
        <a className="btn" href="/api/audit?format=jsonl" download="audit.jsonl">
          {t('audit.export')}
        </a>
      </div>
      <div className="bar">
        {filter('who', 'search')}
        {filter('what', 'search')}
        {filter('from', 'date')}
        {filter('to', 'date')}
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {found !== undefined && (
        <div className="panel">
          <table className="tbl fx kt">
            <thead>
              <tr>
                <th className="w-[136px]">{t('audit.time')}</th>
                <th className="w-[18%]">{t('audit.who')}</th>
                <th>{t('audit.what')}</th>
                <th className="lo w-[15%]">{t('audit.address')}</th>
                <th className="w-[15%]">{t('audit.result')}</th>
              </tr>
            </thead>
            <tbody>
              {found.content.map((record) => (
                <tr key={`${record.gateway} ${record.hash}`} title={`seq ${record.seq} · ${record.gateway} · ${record.hash}`}>
                  <td>{stamp(record.time).slice(0, 19)}</td>
                  <td className="cut">
                    <span className="nmad">
                      <Name className="font-medium">{record.who === '' ? '–' : record.who}</Name>
                      <span className="muted trunc">{record.role}</span>
                    </span>
                  </td>
                  <td className="cut">
                    <span className="nmad">
                      <span className="trunc">{record.action}</span>
                      <span className="muted trunc">{record.object}</span>
                    </span>
                  </td>
                  <td className="lo cut">{record.address === '' ? '–' : record.address}</td>
                  <td className="cut">{record.result}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {found.content.length === 0 && <div className="note">{t('audit.none')}</div>}
        </div>
      )}
      {found !== undefined && found.page.totalPages > 1 && (
        <div className="bar">
          <span className="soft grow">{t('audit.pages', { page, pages: found.page.totalPages, count: found.page.totalElements })}</span>
          <button type="button" className="btn" disabled={page <= 1} onClick={() => setSearch({ page: String(page - 1) })}>
            {t('audit.newer')}
          </button>
          <button type="button" className="btn" disabled={page >= found.page.totalPages} onClick={() => setSearch({ page: String(page + 1) })}>
            {t('audit.older')}
          </button>
        </div>
      )}
    </>
  )
}
