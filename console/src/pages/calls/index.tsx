import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { ArrowUp, Check, Download, Pause, Play, Search as SearchIcon, X } from 'lucide-react'
import { memo, useCallback, useEffect, useRef, useState, type KeyboardEvent } from 'react'
import { api, body } from '@/api/client'
import { callSummary, config, monitoringConfig, runningCount } from '@/api/queries'
import { toCall, type Call, type CallSummary } from '@/api/types'
import { useI18n } from '@/i18n'
import { clock, duration, percent, shorten, splitId, stamp, text } from '@/lib/format'
import { shell } from '@/lib/snippets'
import { oneOf, type Search } from '@/lib/url'
import { endOf, outcome } from '@/live/series'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { CallCost } from '@/ui/cost'
import { ErrorNote } from '@/ui/feedback'
import { Bar, CodeBox, Name, Segments } from '@/ui/parts'
import { usePrinting } from '@/ui/size'
import { CaptureBadge } from './contents'
import { CallDrawer } from './drawer'
import { Chips, MoreFilters } from './filters'
import { Running } from '../wrong/parts'
import { backendWords, isServedByOther, logShare, rescuedFrom } from './rows'
import { pageSize, questionOf, runningQuestion, searchKey, useCallSearch, views } from './search'

export default function Calls() {
  const { t, locale } = useI18n()
  const [search, setSearch] = useSearchState()
  const [paused, setPaused] = useState(false)
  const [inside, setInside] = useState(false)
  const capture = useQuery(monitoringConfig).data?.capture
  // Rows do not move below the pointer: while it is in the table the list is
  // held, and a chip counts what is new.
  const found = useCallSearch(search, paused || inside)
  const { rows, capacity, samplingRate } = found
  const number = (n: number) => new Intl.NumberFormat(locale).format(n)
  usePageFact(found.fileDays > 0 ? t('find.sumFile', { n: found.fileDays }) : t(capture === 'none' || capture === undefined ? 'calls.sum' : 'calls.sumKept', { n: number(Math.max(capacity, rows.length)) }))
  const show = oneOf(search.show, views)
  const isRunning = show === 'running'
  const { data: running = 0 } = useQuery(runningCount)
  const selected = search.call ?? ''
  const question = new URLSearchParams({ ...questionOf(search, Date.now()), limit: String(pageSize) })
  usePageCalls([...(selected === '' ? [] : [{ path: `/api/monitoring/calls/${encodeURIComponent(selected)}` }]), { path: isRunning ? '/api/monitoring/running' : `/api/monitoring/calls?${question.toString()}` }])
  const place = rows.find((row) => row.requestId === selected)?.number
  const asked = useQuery({
    queryKey: ['call', selected],
    enabled: selected !== '',
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }) => toCall((await body(api.GET('/api/monitoring/calls/{requestId}', { params: { path: { requestId: selected }, query: place === undefined ? {} : { number: place } }, signal }))) as never),
  })
  const call = selected === '' ? undefined : asked.data
  const filter = useCallback((change: Record<string, string | undefined>) => setSearch(change), [setSearch])
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

  const summary = useSummary(search, isRunning)
  const model = useQuery(config).data?.services.chat?.instances.find(({ name }) => name !== '')?.name
  const filtered = Object.keys(questionOf(search, 0)).length > 0

  const list = (
    <div className="callbox" onPointerEnter={() => setInside(true)} onPointerLeave={() => setInside(false)}>
      {found.fresh.length > 0 && (
        <button
          type="button"
          className="btn sm fresh"
          onClick={() => {
            setPaused(false)
            found.release()
          }}
        >
          <ArrowUp className="ic s14" aria-hidden />
          {t('calls.new', { n: found.fresh.length })}
        </button>
      )}
      {rows.length === 0 ? (
        <div className="panel empty">
          {!found.isLoaded ? (
            <h2>–</h2>
          ) : filtered ? (
            <>
              <h2>{t('calls.noMatch')}</h2>
              {(search.q ?? '') !== '' && (
                <button type="button" className="btn" onClick={() => setSearch({ q: undefined, errorText: search.q })}>
                  {t('find.inErrors', { q: shorten(search.q!, 40) })}
                </button>
              )}
              <Further found={found} />
            </>
          ) : (
            <>
              <h2>{t('calls.empty')}</h2>
              {model !== undefined && <CodeBox fold text={shell`curl ${`${location.origin}/v1/chat/completions`} -H 'Content-Type: application/json' -d ${JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] })}`} />}
            </>
          )}
        </div>
      ) : (
        <>
          <CallTable rows={rows} selected={selected} onOpen={open} onEnd={found.more} />
          {found.next !== undefined && <Further found={found} />}
        </>
      )}
    </div>
  )
  const content = (
    <div className="callpage">
      <div className="bar">
        <div className="inp quiet grow md:max-w-[300px]">
          <SearchIcon className="ic s14" aria-hidden />
          <input data-filter aria-label={t('calls.filter')} placeholder={t('calls.filter')} value={search.q ?? ''} onChange={(event) => setSearch({ q: event.target.value })} />
        </div>
        <Segments
          label={t('calls.status')}
          value={show}
          options={[
            { value: 'all', label: t('common.all') },
            { value: 'running', label: `${t('run.tab')} ${number(running)}` },
            { value: 'lost', label: t('wrong.count.lost') },
            { value: 'refused', label: t('wrong.count.refused') },
            { value: 'retried', label: t('calls.retried') },
            // Where a link from another page leads, not one more button for everyone.
            ...(show === 'troubled' ? [{ value: 'troubled' as const, label: t('calls.troubled') }] : []),
            ...(show === 'failed' ? [{ value: 'failed' as const, label: t('calls.failed') }] : []),
            ...(show === 'rescued' ? [{ value: 'rescued' as const, label: t('wrong.count.rescued') }] : []),
            ...(show === 'answered' ? [{ value: 'answered' as const, label: t('find.answered') }] : []),
          ]}
          onChange={(value) => setSearch({ show: value === 'all' ? undefined : value })}
        />
        <MoreFilters search={search} names={summary.data?.names} onChange={filter} />
        <CaptureBadge capture={capture} />
        {!isRunning && (
          <>
            <span className="grow onlydesk" />
            <button type="button" className="btn" aria-pressed={paused} onClick={() => setPaused(!paused)}>
              {paused ? <Play className="ic s14" aria-hidden /> : <Pause className="ic s14" aria-hidden />}
              {t(paused ? 'calls.resume' : 'calls.pause')}
            </button>
            <button type="button" className="btn onlydesk" onClick={() => exportCalls(rows)}>
              <Download className="ic s14" aria-hidden />
              {t('calls.export')}
            </button>
          </>
        )}
      </div>
      <Chips search={search} onChange={filter} />
      {!isRunning && summary.data !== undefined && <HowMany of={summary.data} isFiltered={filtered} />}
      {found.error !== null && (
        <div className="mb-3">
          <ErrorNote error={found.error} title={t('find.failed')} />
        </div>
      )}
      {samplingRate < 1 && <div className="note wn mb-3">{t('calls.sampled', { share: percent(samplingRate, 0) })}</div>}
      {selected !== '' && asked.error !== null && (
        <div className="mb-3">
          <ErrorNote error={asked.error} title={t('calls.notFound', { n: new Intl.NumberFormat(locale).format(capacity) })} />
        </div>
      )}
      {isRunning ? <Running question={runningQuestion(search)} /> : list}
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

/** The summary of what the address asks for, once nobody has typed for a moment. */
function useSummary(search: Search, isOff: boolean) {
  const key = searchKey(search)
  const [question, setQuestion] = useState(() => questionOf(search, Date.now()))
  const latest = useRef(search)
  latest.current = search
  useEffect(() => {
    const timer = setTimeout(() => setQuestion(questionOf(latest.current, Date.now())), 300)
    return () => clearTimeout(timer)
  }, [key])
  return useQuery({ ...callSummary(question), enabled: !isOff, placeholderData: keepPreviousData })
}

/** How many calls match, of how many, since when, and whether a restart forgets them. */
function HowMany({ of: { total, looked, complete, oldest, fileDays, startedAt }, isFiltered }: { of: CallSummary; isFiltered: boolean }) {
  const { t, locale } = useI18n()
  const number = (n: number) => new Intl.NumberFormat(locale).format(n)
  const isForgotten = (fileDays ?? 0) === 0
  return (
    <p className="hint mb-2" role="status" data-part="matches">
      {isFiltered ? t('find.matches', { n: total, some: number(total), all: number(looked) }) : t('find.kept', { n: looked, some: number(looked) })}{' '}
      {!complete && `${t('find.andMore')} `}
      {oldest !== undefined && !isForgotten && `${t('find.since', { time: stamp(oldest).slice(0, 16) })} `}
      {isForgotten && (
        <>
          {t('find.forgotten', { time: stamp(startedAt).slice(0, 16) })} <Link to="/settings" hash="calls-file">{t('find.keep')}</Link>
        </>
      )}
    </p>
  )
}

/** Older calls are a button away, and how far the search has come is told. */
function Further({ found }: { found: ReturnType<typeof useCallSearch> }) {
  const { t } = useI18n()
  if (found.next === undefined) return null
  return (
    <div className="further">
      {found.reached !== undefined && <span className="muted">{t('find.reached', { time: stamp(found.reached) })}</span>}
      <button type="button" className="btn sm" disabled={found.isLoading} onClick={found.more}>
        {t('find.older')}
      </button>
    </div>
  )
}

/** So many calls are on paper; more are in the file that can be exported. */
const printed = 300

const phoneQuery = '(max-width: 767px)'

/** Only the rows in sight are in the page: 10,000 scroll like ten. */
function CallTable({ rows, selected, onOpen, onEnd }: { rows: readonly Call[]; selected: string; onOpen(id: string): void; onEnd(): void }) {
  const { t } = useI18n()
  const box = useRef<HTMLDivElement>(null)
  const [phone, setPhone] = useState(() => matchMedia(phoneQuery).matches)
  useEffect(() => {
    const query = matchMedia(phoneQuery)
    const follow = () => setPhone(query.matches)
    query.addEventListener('change', follow)
    return () => query.removeEventListener('change', follow)
  }, [])
  const printing = usePrinting()
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => (phone ? 58 : 32), overscan: printing ? printed : 8, useFlushSync: false })
  useEffect(() => virtual.measure(), [phone, virtual])
  // Whoever scrolls to the end gets the next page.
  const last = virtual.getVirtualItems().at(-1)?.index ?? 0
  const atEnd = last >= rows.length - 3 && (box.current?.scrollTop ?? 0) > 0
  const ended = useRef(0)
  useEffect(() => {
    if (!atEnd || ended.current === rows.length) return
    ended.current = rows.length
    onEnd()
  }, [atEnd, rows.length, onEnd])
  const index = rows.findIndex((row) => row.requestId === selected)
  const shownIndex = useRef(-1)
  useEffect(() => {
    if (index >= 0 && shownIndex.current !== index) virtual.scrollToIndex(index, { align: 'auto' })
    shownIndex.current = index
  }, [index, virtual])
  // The list has the focus, or one of its rows: what it had last, or the first in sight.
  const at = useRef(-1)
  const key = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / (phone ? 58 : 32)) - 1)
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length }[event.key]
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey || rows.length === 0) return
    event.preventDefault()
    event.nativeEvent.stopImmediatePropagation() // j and k walk from call to call where no row has the focus
    const row = (event.target as HTMLElement).closest('[data-index]')
    const from = row === null ? at.current : Number(row.getAttribute('data-index'))
    const next = from < 0 && step > 0 && event.key !== 'End' ? 0 : Math.min(rows.length - 1, Math.max(0, from + step))
    at.current = next
    virtual.scrollToIndex(next, { align: 'auto' })
    focusRow(box.current, next)
  }
  return (
    <div className={`panel calltable ${rows.some((row) => (row.keyId ?? '') !== '') ? 'keys' : ''}`} role="table" aria-rowcount={rows.length} aria-label={t('nav.calls')}>
      <div className="crow chead" role="row">
        <span role="columnheader">{t('calls.time')}</span>
        <span role="columnheader">{t('calls.status')}</span>
        <span role="columnheader">{t('common.model')}</span>
        <span role="columnheader" className="c-key">{t('calls.keyId')}</span>
        <span role="columnheader">{t('calls.instanceOrError')}</span>
        <span role="columnheader" className="num lo">{t('common.firstToken')}</span>
        <span role="columnheader" className="num">{t('calls.total')}</span>
        <span role="columnheader" className="lo c-bar" title={t('calls.barHint')}><span className="sr-only">{t('calls.barHint')}</span></span>
        <span role="columnheader" className="num lo">{t('calls.tokens')}</span>
        <span role="columnheader" className="num c-cost">{t('wrong.chart.spend')}</span>
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
            return <CallRow key={printing ? item.index : item.index % 128} call={call} index={item.index} top={item.start} selected={call.requestId === selected} onOpen={onOpen} />
          })}
        </div>
      </div>
    </div>
  )
}

/** Focuses a row as soon as it is drawn. */
function focusRow(box: HTMLElement | null, index: number, tries = 10): void {
  requestAnimationFrame(() => {
    const row = box?.querySelector<HTMLElement>(`[data-index="${index}"]`)
    if (row !== null && row !== undefined) row.focus({ preventScroll: true })
    else if (tries > 0) focusRow(box, index, tries - 1)
  })
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
      <ModelCell call={call} />
      <span role="cell" className="c-key muted min-w-0" title={call.tenant}>{(call.keyId ?? '') === '' ? '–' : <Name>{call.keyId!}</Name>}</span>
      {tone === '' ? (
        <Answerer call={call} />
      ) : (
        <Failure call={call} tone={tone} />
      )}
      <span role="cell" className="num lo">{text(duration(call.timeToFirstTokenMs))}</span>
      <span role="cell" className="num c-total">{text(duration(call.durationMs))}</span>
      <span role="cell" className="lo c-bar">
        <Bar share={logShare(call.durationMs)} kind={tone === 'bad' ? 'bd' : tone === 'warn' ? 'wn' : ''} />
      </span>
      <span role="cell" className="num lo">{call.usage === undefined ? '–' : `${call.usage.promptTokens} / ${call.usage.completionTokens}`}</span>
      <span role="cell" className={`num c-cost nowrap ${(call.cost ?? 0) > 0 ? '' : 'muted'}`}>{(call.cost ?? 0) > 0 ? <CallCost call={call} /> : '–'}</span>
      <span role="cell" className={`num c-tries ${call.attempts > 1 ? 'warn' : 'muted'}`}>{call.attempts}</span>
    </div>
  )
})

/** The model that served a call, behind the name that was asked for where that is another one. */
function ModelCell({ call }: { call: Call }) {
  const { t } = useI18n()
  if (call.model === '') return <span role="cell" className="c-model min-w-0">{(call.asked ?? '') === '' ? '–' : <s title={call.asked}><Name>{call.asked!}</Name></s>}</span>
  if (!isServedByOther(call)) return <span role="cell" className="c-model min-w-0"><Name className="font-medium">{call.model}</Name></span>
  return (
    <span role="cell" className="c-model min-w-0 rescued" title={t('calls.askedServed', { asked: call.asked!, model: call.model })}>
      <span className="muted"><Name>{call.asked!}</Name></span>
      <span className="muted" aria-label={t('calls.then')}>→</span>
      <Name className="font-medium">{call.model}</Name>
    </span>
  )
}

/** Why a call failed, and behind that the instance that had it last, which gives way where both are too long: what a backend said goes without what every failure of it begins with. */
function Failure({ call, tone }: { call: Call; tone: string }) {
  const { said } = useI18n()
  const code = call.errorCode ?? call.status
  const host = call.instance === '' ? '' : splitId(call.instance).host
  const whole = call.errorMessage === undefined ? undefined : said(call.said, call.errorMessage)
  return (
    <span role="cell" className={`c-inst why ${tone}`} title={[host, whole === undefined ? code : `${code}: ${whole}`].filter((part) => part !== '').join(' · ')}>
      <span className="trunc">{backendWords(call) ?? whole ?? <code>{code}</code>}</span>
      {host !== '' && <code className="muted trunc">{host}</code>}
    </span>
  )
}

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
