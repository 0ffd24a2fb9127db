import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useI18n } from '@/i18n'
import { digits, duration, stamp, text } from '@/lib/format'
import { oneOf } from '@/lib/url'
import { usePageCalls } from '@/shell/api-calls'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { Select } from '@/ui/field'
import { Segments } from '@/ui/parts'
import { Named, Table } from '@/ui/table'
import { callsAt, useNameOf, Why } from '../me/calls'
import { keysAt } from '../me/keys'

const outcomes = ['all', 'answered', 'failed', 'refused'] as const

/** The calls of a team, the newest first, and why some were not answered. */
export function TeamCalls({ at }: { at: string }) {
  const { t, locale } = useI18n()
  const [search, setSearch] = useSearchState()
  const [cursors, setCursors] = useState<string[]>([])
  const { data: keys } = useQuery(keysAt(at))
  const nameOf = useNameOf(keys ?? [])
  const show = oneOf(search.show, outcomes)
  const key = search.key ?? ''
  const cursor = cursors.at(-1)
  const query = useQuery({ ...callsAt(at, { limit: '50', ...(show === 'all' ? {} : { outcome: show }), ...(key === '' ? {} : { keyId: key }), ...(cursor === undefined ? {} : { cursor }) }), placeholderData: keepPreviousData })
  usePageCalls([{ path: `${at}/calls?limit=50` }])
  const choose = (change: Record<string, string | undefined>) => {
    setCursors([])
    setSearch(change)
  }
  return (
    <>
      <div className="bar">
        <Segments label={t('team.tab.calls')} value={show} options={outcomes.map((value) => ({ value, label: t(`team.show.${value}`) }))} onChange={(value) => choose({ show: value === 'all' ? undefined : value })} />
        <Select label={t('spend.by.key')} value={key} options={[{ value: '', label: t('team.allKeys') }, ...(keys ?? []).map(({ id, name }) => ({ value: id, label: name ?? id }))]} onChange={(value) => choose({ key: value === '' ? undefined : value })} />
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && (
        <Table
          rows={query.data.calls}
          keyOf={({ requestId, number }) => `${requestId} ${number}`}
          empty={t('team.noCalls')}
          columns={[
            { head: t('common.model'), className: 'cut w-[40%] md:w-[22%]', cell: ({ asked, model, time }) => <Named name={asked ?? model ?? '–'} below={stamp(time)} /> },
            { head: t('spend.by.key'), className: 'lo cut w-[16%]', cell: ({ keyId, user }) => <Named name={keyId === undefined ? '–' : nameOf(`key/${keyId}`).replace(/^key\//, '')} below={user ?? ''} /> },
            { head: t('own.result'), className: 'wrap', cell: (call) => ((call.errorCode ?? '') === '' ? <span className="muted">{call.httpStatus}</span> : <span className={call.clientGone === true ? 'muted' : 'bad'}><Why call={call} nameOf={nameOf} /></span>) },
            { head: t('own.tokens'), className: 'num lo w-[88px]', cell: ({ usage }) => (usage == null ? '–' : digits(usage.totalTokens, locale)) },
            { head: t('own.took'), className: 'num lo w-[88px]', cell: ({ durationMs }) => text(duration(durationMs)) },
          ]}
        />
      )}
      <div className="bar mt-3">
        <span className="grow" />
        <button type="button" className="btn" disabled={cursors.length === 0} onClick={() => setCursors(cursors.slice(0, -1))}>
          {t('audit.newer')}
        </button>
        <button type="button" className="btn" disabled={(query.data?.next ?? '') === ''} onClick={() => setCursors([...cursors, query.data!.next!])}>
          {t('audit.older')}
        </button>
      </div>
    </>
  )
}
