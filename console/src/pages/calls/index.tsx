import { useQuery } from '@tanstack/react-query'
import { useVirtualizer } from '@tanstack/react-virtual'
import { ArrowUp, Check, Download, Pause, Play, Search as SearchIcon, X } from 'lucide-react'
import { memo, useCallback, useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react'
import { api, body } from '@/api/client'
import { monitoringConfig } from '@/api/queries'
import { serviceTypes, type Call } from '@/api/types'
import { useI18n } from '@/i18n'
import { clock, duration, percent, shorten, splitId, text } from '@/lib/format'
import { shell } from '@/lib/snippets'
import { oneOf } from '@/lib/url'
import { useLive } from '@/live/context'
import { endOf, outcome } from '@/live/series'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { Select } from '@/ui/field'
import { Bar, CodeBox, Name, Segments } from '@/ui/parts'
import { CaptureBadge } from './contents'
import { CallDrawer } from './drawer'
import { countNew, filterCalls, logShare, rescuedFrom, shown } from './filter'

export default function Calls() {
  const { t, locale } = useI18n()
  const [search, setSearch] = useSearchState()
  const { calls, capacity, samplingRate, snapshot } = useLive()
  const [paused, setPaused] = useState(false)
  const [inside, setInside] = useState(false)
  const [held, setHeld] = useState<readonly Call[] | null>(null)
  const capture = useQuery(monitoringConfig).data?.capture
  usePageFact(t(capture === 'none' || capture === undefined ? 'calls.sum' : 'calls.sumKept', { n: new Intl.NumberFormat(locale).format(Math.max(capacity, calls.length)) }))

  // Rows do not move below the pointer: while it is in the table the list is
  // held, and a chip counts what is new.
  const hold = paused || inside
  const current = useRef(calls)
  current.current = calls
  useEffect(() => setHeld(hold ? current.current : null), [hold])
  const list = held ?? calls
  const filter = { q: search.q ?? '', show: oneOf(search.show, shown), service: search.service ?? '', model: search.model ?? '' }
  const rows = useMemo(() => filterCalls(list, filter), [list, filter.q, filter.show, filter.service, filter.model]) // eslint-disable-line react-hooks/exhaustive-deps -- the parts of the filter
  const fresh = held === null ? 0 : countNew(calls, held, filter)
  const selected = search.call ?? ''
  const question = new URLSearchParams({ limit: '100', ...(filter.service === '' ? {} : { service: filter.service }), ...(filter.model === '' ? {} : { model: filter.model }), ...(filter.q === '' ? {} : { q: filter.q }), ...(filter.show === 'failed' ? { status: 'error' } : {}) })
  usePageCalls([...(selected === '' ? [] : [{ path: `/api/monitoring/calls/${encodeURIComponent(selected)}` }]), { path: `/api/monitoring/calls?${question.toString()}` }])
  const known = selected === '' ? undefined : (calls.find((call) => call.requestId === selected) ?? list.find((call) => call.requestId === selected))
  const asked = useQuery({
    queryKey: ['call', selected],
    enabled: selected !== '' && known === undefined && snapshot !== null,
    retry: false,
    queryFn: async ({ signal }) => (await body(api.GET('/api/monitoring/calls/{requestId}', { params: { path: { requestId: selected } }, signal }))) as unknown as Call,
  })
  const call = known ?? asked.data
  const open = useCallback((id: string) => setSearch({ call: id }, true), [setSearch])
  const close = useCallback(() => setSearch({ call: undefined }), [setSearch])
  const walk = useCallback(
    (step: 1 | -1) => {
      const index = rows.findIndex((row) => row.requestId === selected)
      const next = rows[index < 0 ? 0 : index + step]
      if (next !== undefined) setSearch({ call: next.requestId })
    },
    [rows, selected, setSearch],
  )
  useEffect(() => {
    const press = (event: globalThis.KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]') !== null) return
      if (event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return
      if (event.key === 'j') walk(1)
      if (event.key === 'k') walk(-1)
    }
    document.addEventListener('keydown', press)
    return () => document.removeEventListener('keydown', press)
  }, [walk])

  const content = (
    <div className="callpage">
      <div className="bar">
        <div className="inp quiet grow md:max-w-[300px]">
          <SearchIcon className="ic s14" aria-hidden />
          <input data-filter aria-label={t('calls.filter')} placeholder={t('calls.filter')} value={filter.q} onChange={(event) => setSearch({ q: event.target.value })} />
        </div>
        <Segments
          label={t('calls.status')}
          value={filter.show}
          options={[
            { value: 'all', label: t('common.all') },
            { value: 'failed', label: t('calls.failed') },
            { value: 'retried', label: t('calls.retried') },
            // Where a link from another page leads, not one more button for everyone.
            ...(filter.show === 'troubled' ? [{ value: 'troubled' as const, label: t('calls.troubled') }] : []),
            { value: 'slow', label: t('calls.slow') },
          ]}
          onChange={(value) => setSearch({ show: value === 'all' ? undefined : value })}
        />
        <span className="lo w-[150px]">
          <Select quiet label={t('common.service')} value={filter.service} options={[{ value: '', label: t('calls.allServices') }, ...serviceTypes.map((type) => ({ value: type as string, label: type }))]} onChange={(value) => setSearch({ service: value })} />
        </span>
        {filter.model !== '' && (
          <button type="button" className="btn sm" onClick={() => setSearch({ model: undefined })}>
            <code>{shorten(filter.model, 20)}</code>
            <X className="ic s14" aria-hidden />
          </button>
        )}
        <CaptureBadge capture={capture} />
        <span className="grow onlydesk" />
        <button type="button" className="btn" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? <Play className="ic s14" aria-hidden /> : <Pause className="ic s14" aria-hidden />}
          {t(paused ? 'calls.resume' : 'calls.pause')}
        </button>
        <button type="button" className="btn lo onlydesk" onClick={() => exportCalls(rows)}>
          <Download className="ic s14" aria-hidden />
          {t('calls.export')}
        </button>
      </div>
      {samplingRate < 1 && <div className="note wn mb-3">{t('calls.sampled', { share: percent(samplingRate, 0) })}</div>}
      {asked.error !== null && (
        <div className="mb-3">
          <ErrorNote error={asked.error} title={t('calls.notFound', { n: new Intl.NumberFormat(locale).format(capacity) })} />
        </div>
      )}
      <div className="callbox" onPointerEnter={() => setInside(true)} onPointerLeave={() => setInside(false)}>
      {fresh > 0 && (
        <button
          type="button"
          className="btn sm fresh"
          onClick={() => {
            setPaused(false)
            setHeld(paused || inside ? calls : null)
          }}
        >
          <ArrowUp className="ic s14" aria-hidden />
          {t('calls.new', { n: fresh })}
        </button>
      )}
      {rows.length === 0 ? (
        <div className="panel empty">
          <h3>{calls.length === 0 ? t('calls.empty') : t('calls.noMatch')}</h3>
          {calls.length === 0 && <CodeBox fold text={shell`curl ${`${location.origin}/v1/chat/completions`} -H 'Content-Type: application/json' -d '{"model":"demo-chat","messages":[{"role":"user","content":"hi"}]}'`} />}
        </div>
      ) : (
        <CallTable rows={rows} selected={selected} onOpen={open} />
      )}
      </div>
    </div>
  )
  // The list keeps its place in the tree, and with it its scroll position.
  return (
    <div className={call === undefined ? '' : 'split narrow calls'}>
      <div className="list">{content}</div>
      {call !== undefined && <CallDrawer key={call.requestId} call={call} capture={capture} onClose={close} onWalk={walk} />}
    </div>
  )
}

const phoneQuery = '(max-width: 767px)'

/** Only the rows in sight are in the page: 10,000 scroll like ten. */
function CallTable({ rows, selected, onOpen }: { rows: readonly Call[]; selected: string; onOpen(id: string): void }) {
  const { t } = useI18n()
  const box = useRef<HTMLDivElement>(null)
  const [phone, setPhone] = useState(() => matchMedia(phoneQuery).matches)
  useEffect(() => {
    const query = matchMedia(phoneQuery)
    const follow = () => setPhone(query.matches)
    query.addEventListener('change', follow)
    return () => query.removeEventListener('change', follow)
  }, [])
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => (phone ? 58 : 32), overscan: 8, useFlushSync: false })
  useEffect(() => virtual.measure(), [phone, virtual])
  const index = rows.findIndex((row) => row.requestId === selected)
  const shownIndex = useRef(-1)
  useEffect(() => {
    if (index >= 0 && shownIndex.current !== index) virtual.scrollToIndex(index, { align: 'auto' })
    shownIndex.current = index
  }, [index, virtual])
  const key = (event: KeyboardEvent) => {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
    const row = (event.target as HTMLElement).closest('[data-index]')
    const next = Number(row?.getAttribute('data-index')) + (event.key === 'ArrowDown' ? 1 : -1)
    event.preventDefault()
    virtual.scrollToIndex(Math.max(0, next), { align: 'auto' })
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus())
  }
  return (
    <div className="panel calltable" role="table" aria-rowcount={rows.length} aria-label={t('nav.calls')}>
      <div className="crow chead" role="row">
        <span role="columnheader">{t('calls.time')}</span>
        <span role="columnheader">{t('calls.status')}</span>
        <span role="columnheader">{t('common.model')}</span>
        <span role="columnheader">{t('calls.instanceOrError')}</span>
        <span role="columnheader" className="num lo">{t('common.firstToken')}</span>
        <span role="columnheader" className="num">{t('calls.total')}</span>
        <span role="columnheader" className="lo" title={t('calls.barHint')}><span className="sr-only">{t('calls.barHint')}</span></span>
        <span role="columnheader" className="num lo">{t('calls.tokens')}</span>
        <span role="columnheader" className="num">{t('calls.tries')}</span>
      </div>
      <div
        className="cbody"
        role="rowgroup"
        ref={box}
        tabIndex={0}
        aria-label={t('nav.calls')}
        onKeyDown={key}
      >
        <div role="presentation" style={{ height: virtual.getTotalSize(), position: 'relative' }}>
          {virtual.getVirtualItems().map((item) => {
            const call = rows[item.index]!
            // Rows are used again for other calls: changing text is cheaper than
            // making elements.
            return <CallRow key={item.index % 128} call={call} index={item.index} top={item.start} selected={call.requestId === selected} onOpen={onOpen} />
          })}
        </div>
      </div>
    </div>
  )
}

const CallRow = memo(function CallRow({ call, index, top, selected, onOpen }: { call: Call; index: number; top: number; selected: boolean; onOpen(id: string): void }) {
  const kind = outcome(call)
  const tone = kind === 'answered' ? '' : kind === 'limited' ? 'warn' : 'bad'
  return (
    <div
      role="row"
      data-index={index}
      tabIndex={-1}
      aria-selected={selected}
      className={`crow ${selected ? 'sel' : ''}`}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => onOpen(call.requestId)}
      onKeyDown={(event) => event.key === 'Enter' && onOpen(call.requestId)}
    >
      <code role="cell" className="c-time soft">{clock(endOf(call), true)}</code>
      <span role="cell" className={`c-stat ${tone}`}>
        {kind === 'answered' ? <Check className="ic s14 text-accent" aria-hidden /> : kind === 'limited' ? <Pause className="ic s14" aria-hidden /> : <X className="ic s14" aria-hidden />}
        <code className={tone === '' ? '' : 'font-semibold'}>{call.httpStatus}</code>
      </span>
      <span role="cell" className="c-model min-w-0">{call.model === '' ? '–' : <Name className="font-medium">{call.model}</Name>}</span>
      {tone === '' ? (
        <Answerer call={call} />
      ) : (
        <code role="cell" className={`c-inst trunc ${tone}`} title={call.errorCode ?? call.status}>{call.errorCode ?? call.status}</code>
      )}
      <span role="cell" className="num lo">{text(duration(call.timeToFirstTokenMs))}</span>
      <span role="cell" className="num c-total">{text(duration(call.durationMs))}</span>
      <span role="cell" className="lo">
        <Bar share={logShare(call.durationMs)} kind={tone === 'bad' ? 'bd' : tone === 'warn' ? 'wn' : ''} />
      </span>
      <span role="cell" className="num lo">{call.usage === undefined ? '–' : `${call.usage.promptTokens} / ${call.usage.completionTokens}`}</span>
      <span role="cell" className={`num c-tries ${call.attempts > 1 ? 'warn' : 'muted'}`}>{call.attempts}</span>
    </div>
  )
})

/** The instance that answered, behind those that failed before it. */
function Answerer({ call }: { call: Call }) {
  const { t } = useI18n()
  if (call.instance === '') return <code role="cell" className="c-inst muted">–</code>
  const failed = rescuedFrom(call)
  const { host } = splitId(call.instance)
  if (failed.length === 0) return <span role="cell" className="c-inst muted"><Name title={call.instance}>{host}</Name></span>
  const first = failed.map((id) => splitId(id).host)
  return (
    <span role="cell" className="c-inst muted rescued" title={t('calls.rescued', { first: first.join(', '), host })}>
      <s><Name>{first[0]!}</Name></s>
      <span className="warn" aria-label={t('calls.then')}>→</span>
      <Name>{host}</Name>
    </span>
  )
}

function exportCalls(rows: readonly Call[]): void {
  const blob = new Blob([rows.map((row) => JSON.stringify(row)).join('\n') + '\n'], { type: 'application/x-ndjson' })
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = `calls-${new Date().toISOString().replaceAll(':', '-').slice(0, 19)}.ndjson`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}
