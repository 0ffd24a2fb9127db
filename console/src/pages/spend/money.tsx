import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { ChevronLeft, ChevronRight, Download, X } from 'lucide-react'
import { useCallback, useMemo, useState, type ReactNode } from 'react'
import { budgets, spendOf, spendPath, type SpendQuestion } from '@/api/queries'
import type { BudgetUse, Spend, SpendBy, SpendGroup } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { digits, percent, shorten } from '@/lib/format'
import { amount, budgetText, difference, download, money } from '@/lib/money'
import { oneOf } from '@/lib/url'
import { useNow } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { Bar, CodeBox, Name, Segments } from '@/ui/parts'
import { isAmong, RefusedNote, useRefusing, type Refusing } from '../quota/refused'
import { SpendChart, strengths } from './chart'
import { LedgerOff } from './off'
import { dateText, dayText, move, periodName, periods, readPeriod, stepName, type Period, type PeriodKind } from './period'
import { budgetOf, foretold, grewMost, growth, hasNoPrice, layers, range, toCsv, usedUpAt } from './sums'

const dimensions: SpendBy[] = ['tenant', 'key', 'user', 'model', 'service']

/** The groups that the chart tells apart; the others are its last layer. */
const shownLayers = strengths.length - 1

/** "tenant~acme" of the address as a filter of the question. */
function readOnly(text: string | undefined): { by: SpendBy; name: string } | null {
  const [by, ...rest] = (text ?? '').split('~')
  return rest.length > 0 && dimensions.includes(by as SpendBy) ? { by: by as SpendBy, name: rest.join('~') } : null
}

/** What it cost, by whom, and where it goes. */
export function Money() {
  const { t, locale } = useI18n()
  usePageFact(t('spend.sum'))
  const [search, setSearch] = useSearchState()
  const now = useNow(60_000)
  const kind = oneOf(search.period, periods)
  const by = oneOf(search.by, dimensions)
  const { at, from, to } = search
  const today = Math.floor(now / 86_400_000)
  const period = useMemo(() => readPeriod(kind, { at, from, to }, today * 86_400_000), [kind, at, from, to, today])
  const only = useMemo(() => readOnly(search.only), [search.only])
  const question = { by, from: period.from, to: period.to, only, limit: 100 }
  const query = useQuery({ ...spendOf(question), placeholderData: keepPreviousData, refetchInterval: 10_000 })
  const uses = useQuery({ ...budgets, refetchInterval: 10_000 })
  usePageCalls([{ path: spendPath(question) }, { path: '/api/monitoring/budgets' }])
  const spend = query.data
  const refused = useRefusing()
  return (
    <>
      <div className="bar spendbar">
        <Segments label={t('spend.period')} value={kind} options={periods.map((value) => ({ value, label: t(`spend.period.${value}`) }))} onChange={(value: PeriodKind) => setSearch({ period: value, at: undefined, from: undefined, to: undefined })} />
        <Pick period={period} now={now} onChange={setSearch} />
        <Segments label={t('spend.by')} value={by} options={dimensions.map((value) => ({ value, label: t(`spend.by.${value}`) }))} onChange={(value) => setSearch({ by: value })} />
        {only !== null && (
          <button type="button" className="btn sm" aria-label={t('quota.all', { name: only.name })} title={t('quota.all', { name: only.name })} onClick={() => setSearch({ only: undefined })}>
            {t(`spend.by.${only.by}`)} <code>{only.name === '' ? t('quota.nobody') : shorten(only.name, 20)}</code>
            <X className="ic s14" aria-hidden />
          </button>
        )}
        <span className="grow onlydesk" />
        <Csv question={question} period={period} off={spend === undefined || spend.groups.length === 0} />
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {spend !== undefined && !spend.enabled && <LedgerOff />}
      {spend !== undefined && spend.enabled && (
        <>
          {!spend.complete && <div className="note mb-4">{t('spend.incomplete')}</div>}
          {!spend.priced && (
            <div className="note mb-4">
              <div>
                <b>{t('spend.noPrices')}</b>
                <CodeBox text={'prices:\n  currency: USD\n  models:\n    - {model: "gpt-4o*", input: 2.5, output: 10}'} />
              </div>
            </div>
          )}
          <Headline spend={spend} period={period} now={now} budgets={uses.data?.budgets ?? []} refused={refused} />
          {spend.total.requestCount === 0 ? <div className="panel muted p-4">{t('spend.nothing', { period: periodName(period, locale) })}</div> : <Chart spend={spend} now={now} />}
          {spend.groups.length > 0 && <Groups spend={spend} isOver={period.to <= now} kind={kind} budgets={uses.data?.budgets ?? []} refused={refused} onOnly={(name) => setSearch({ only: `${by}~${name}`, by: by === 'model' || by === 'service' ? 'tenant' : 'model' }, true)} />}
        </>
      )}
    </>
  )
}

/** Which period: the one before and after, or two days. */
function Pick({ period, now, onChange }: { period: Period; now: number; onChange(change: Record<string, string | undefined>): void }) {
  const { t, locale } = useI18n()
  return (
    <div className="row spendpick">
      <button type="button" className="btn icon" aria-label={t('spend.earlier')} title={t('spend.earlier')} onClick={() => onChange(move(period, -1))}>
        <ChevronLeft className="ic" aria-hidden />
      </button>
      {period.kind === 'range' ? (
        <>
          <input className="inp" type="date" aria-label={t('spend.from')} value={dayText(period.from)} max={dayText(period.to - 1)} onChange={(event) => event.target.value !== '' && onChange({ from: event.target.value, to: dayText(period.to - 1) })} />
          <span aria-hidden="true">–</span>
          <input className="inp" type="date" aria-label={t('spend.to')} value={dayText(period.to - 1)} min={dayText(period.from)} onChange={(event) => event.target.value !== '' && onChange({ from: dayText(period.from), to: event.target.value })} />
        </>
      ) : (
        <span className="when">{periodName(period, locale)}</span>
      )}
      <button type="button" className="btn icon" aria-label={t('spend.later')} title={t('spend.later')} disabled={period.to > now} onClick={() => onChange(move(period, 1))}>
        <ChevronRight className="ic" aria-hidden />
      </button>
      <span className="hint" title={t('spend.utc')}>UTC</span>
    </div>
  )
}

/** What it cost, where it goes, who grew most and whose budget does not last, in sentences. */
function Headline({ spend, period, now, budgets, refused }: { spend: Spend; period: Period; now: number; budgets: readonly BudgetUse[]; refused: readonly Refusing[] }) {
  const { t, locale } = useI18n()
  const shown = (micros: number) => money(micros, spend.currency, locale)
  const { total } = spend
  const name = periodName(period, locale)
  const isOver = Date.parse(spend.to) <= now
  const between = range(total)
  const grown = growth(total, isOver)
  const [first] = grewMost(spend.groups, isOver, 1)
  const told = refused.filter(({ group }) => group !== null)
  const short = spend.groups
    .map((group) => ({ group, budget: budgetOf(budgets, spend.by, group.name, period.kind) }))
    .flatMap(({ group, budget }) => {
      if (budget === null || group.pace === null || isAmong(told, budget)) return []
      const at = usedUpAt(budget, group.pace / 86_400_000, now)
      return at === null ? [] : [{ group, budget, at }]
    })
    .toSorted((a, b) => a.at - b.at)[0]
  return (
    <div className="spendhead">
      <h2>
        {t(isOver ? 'spend.was' : 'spend.soFar', { cost: shown(total.cost), period: name })}{' '}
        {between !== null && t('spend.between', { low: amount(between.low, locale), high: shown(between.high), date: dateText(Date.parse(spend.to) - 1, locale) })}
      </h2>
      <p className="soft">
        {!isOver && between === null && <span>{t('spend.tooEarly')} </span>}
        {total.before !== null && total.before > 0 && grown !== null && (
          <span>{t(Math.abs(grown) / total.before < 0.005 ? 'spend.same' : grown > 0 ? 'spend.more' : 'spend.less', { percent: percent(Math.abs(grown) / total.before, 0), before: shown(total.before) })} </span>
        )}
        {first !== undefined && (
          <span>
            <T k={first.forecast === null ? 'spend.grewMost' : 'spend.growsMost'} v={{ date: dateText(Date.parse(spend.to) - 1, locale), name: <code>{first.name === '' ? t('quota.nobody') : shorten(first.name, 28)}</code>, by: `${difference(growth(first, isOver)!, locale)} ${spend.currency}`, before: shown(first.before ?? 0) }} />{' '}
          </span>
        )}
        {short !== undefined && (
          <span className="warn font-semibold">
            <T
              k={short.budget.used >= short.budget.limit ? 'spend.usedUp' : 'spend.willPass'}
              v={{ name: <code>{shorten(short.group.name, 28)}</code>, limit: shown(short.budget.limit), date: dateText(short.at, locale) }}
            />
          </span>
        )}
      </p>
      {spend.unpriced.length > 0 && spend.priced && (
        <p className="warn">
          <T k="spend.unpriced" v={{ n: spend.total.unpriced, requests: digits(spend.total.unpriced, locale), models: <code>{spend.unpriced.slice(0, 5).join(', ') + (spend.unpriced.length > 5 ? ' …' : '')}</code> }} />
        </p>
      )}
      <RefusedNote of={told} />
    </div>
  )
}

function Chart({ spend, now }: { spend: Spend; now: number }) {
  const { t, locale } = useI18n()
  const [cursor, setCursor] = useState<number | null>(null)
  const [table, setTable] = useState(false)
  const stack = useMemo(() => layers(spend, shownLayers), [spend])
  const labels = useMemo(() => spend.starts.map((start) => stepName(start, spend.step, locale)), [spend, locale])
  const future = useMemo(() => foretold(spend, now), [spend, now])
  const costs = useMemo(() => stack.map((layer) => layer.costs), [stack])
  const label = useCallback((micros: number) => amount(micros, locale), [locale])
  const name = (layer: (typeof stack)[number]) => (layer.name === null ? t('spend.others') : layer.name === '' ? t('quota.nobody') : shorten(layer.name, 28))
  const begun = spend.starts.filter((start) => Date.parse(start) <= now).length
  return (
    <section className="panel p-4 mb-4" aria-label={t('spend.chart')}>
      <div className="row mb-2">
        <span className="soft">{cursor === null ? t('spend.perStep', { step: t(`spend.step.${spend.step}`), currency: spend.currency }) : `${labels[cursor]} · ${money(spend.total.costs[cursor] ?? 0, spend.currency, locale)}`}</span>
        <button type="button" className="link ml-auto" aria-pressed={table} onClick={() => setTable(!table)}>
          {t('common.table')}
        </button>
      </div>
      {table ? (
        <div className="max-h-[260px] overflow-auto" tabIndex={0}>
          <table className="tbl">
            <caption className="sr-only">{t('spend.chart')}</caption>
            <thead>
              <tr>
                <th>{t(`spend.step.${spend.step}`)}</th>
                {stack.map((layer) => (
                  <th key={layer.name ?? '\0'} className="num">
                    {name(layer)}
                  </th>
                ))}
                <th className="num">{t('spend.total')}</th>
              </tr>
            </thead>
            <tbody>
              {labels.slice(0, begun).map((text, step) => (
                <tr key={spend.starts[step]}>
                  <td>{text}</td>
                  {stack.map((layer) => (
                    <td key={layer.name ?? '\0'} className="num">
                      {amount(layer.costs[step]!, locale)}
                    </td>
                  ))}
                  <td className="num">{amount(spend.total.costs[step]!, locale)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <SpendChart labels={labels} layers={costs} foretold={future} money={label} onCursor={setCursor} />
      )}
      <div className="leg mt-2">
        {stack.map((layer, index) => (
          <span key={layer.name ?? '\0'}>
            <i className="swatch" style={{ opacity: strengths[Math.min(index, strengths.length - 1)] }} aria-hidden="true" />
            {name(layer)} <b>{amount(cursor === null ? layer.cost : layer.costs[cursor], locale)}</b>
          </span>
        ))}
        {future.some((value) => value !== null) && (
          <span>
            <i className="swatch hollow" aria-hidden="true" />
            {t('spend.forecast')} <b>{amount(cursor === null ? spend.total.forecast! - spend.total.cost : future[cursor], locale)}</b>
          </span>
        )}
      </div>
    </section>
  )
}

/** An amount that leaves out requests whose model has no price. */
function PartlyPriced({ group, children }: { group: SpendGroup; children: ReactNode }) {
  const { t, locale } = useI18n()
  if (group.unpriced === 0) return children
  const said = t('spend.partly', { n: digits(group.unpriced, locale), all: digits(group.requestCount, locale) })
  return (
    <span title={said}>
      {children}
      <span aria-hidden="true">*</span>
      <span className="sr-only">{said}</span>
    </span>
  )
}

function Groups({ spend, isOver, kind, budgets, refused, onOnly }: { spend: Spend; isOver: boolean; kind: PeriodKind; budgets: readonly BudgetUse[]; refused: readonly Refusing[]; onOnly(name: string): void }) {
  const { t, locale } = useI18n()
  const [search, setSearch] = useSearchState()
  const order = oneOf(search.sort, ['cost', 'growth'] as const)
  const rows = useMemo(() => (order === 'cost' ? spend.groups : spend.groups.toSorted((a, b) => (growth(b, isOver) ?? 0) - (growth(a, isOver) ?? 0))), [spend, isOver, order])
  const withBudgets = rows.map((group) => ({ group, budget: budgetOf(budgets, spend.by, group.name, kind) }))
  const hasBudgets = withBudgets.some(({ budget }) => budget !== null)
  const share = (group: SpendGroup) => (spend.total.cost === 0 ? 0 : group.cost / spend.total.cost)
  const change = (group: SpendGroup) => {
    const grown = growth(group, isOver)
    return grown === null ? '–' : group.before === 0 ? t('spend.new') : `${difference(grown, locale)}`
  }
  const cells = (group: SpendGroup) => (
    <>
      <td className="num c-cost">{hasNoPrice(group) ? <span className="muted">{t('spend.noPrice')}</span> : <PartlyPriced group={group}>{amount(group.cost, locale)}</PartlyPriced>}</td>
      <td className="c-share">
        {hasNoPrice(group) ? (
          <span className="muted">–</span>
        ) : (
          <span className="row">
            <span className="w-[36px] text-right">{percent(share(group), 0)}</span>
            <span className="grow">
              <Bar share={share(group)} />
            </span>
          </span>
        )}
      </td>
      <td className="num c-req">{digits(group.requestCount, locale)}</td>
      <td className="num c-tok">{digits(group.tokenCount, locale)}</td>
      <td className="num c-fore">{group.forecast === null || hasNoPrice(group) ? '–' : amount(group.forecast, locale)}</td>
      <td className="num c-before">{amount(group.before, locale)}</td>
      <td className="num c-grew">{change(group)}</td>
    </>
  )
  return (
    <section>
      <div className="h2">
        <h2>{t(`spend.byTitle.${spend.by}`)}</h2>
        <span className="hint">{t('spend.in', { currency: spend.currency })}</span>
        <span className="grow" />
        <Segments label={t('spend.sort')} value={order} options={[{ value: 'cost' as const, label: t('spend.sort.cost') }, { value: 'growth' as const, label: t('spend.sort.growth') }]} onChange={(value) => setSearch({ sort: value })} />
      </div>
      <div className="panel">
        <table className={`tbl fx spt ${hasBudgets ? 'budgeted' : ''}`}>
          <thead>
            <tr>
              <th>{t(`spend.by.${spend.by}`)}</th>
              <th className="num c-cost">{t('spend.cost')}</th>
              <th className="c-share">{t('common.share')}</th>
              <th className="num c-req">{t('quota.requests')}</th>
              <th className="num c-tok">{t('quota.tokens')}</th>
              <th className="num c-fore">{t('spend.forecast')}</th>
              <th className="num c-before">{t('spend.before')}</th>
              <th className="num c-grew">{t('spend.change')}</th>
              {hasBudgets && <th className="c-budget">{t('spend.budget')}</th>}
            </tr>
          </thead>
          <tbody>
            {withBudgets.map(({ group, budget }) => (
              <tr key={group.name}>
                <td className="c-name">
                  <button type="button" className="link" title={t('quota.only', { name: group.name === '' ? t('quota.nobody') : group.name })} onClick={() => onOnly(group.name)}>
                    {group.name === '' ? <code>{t('quota.nobody')}</code> : <Name>{group.name}</Name>}
                  </button>
                </td>
                {cells(group)}
                {hasBudgets && <td className="c-budget">{budget === null ? <span className="muted">–</span> : <BudgetText budget={budget} currency={spend.currency} isOut={isAmong(refused, budget)} />}</td>}
              </tr>
            ))}
            {spend.others !== null && (
              <tr>
                <td className="c-name soft">{t('spend.otherGroups', { n: spend.others.count ?? 0 })}</td>
                {cells(spend.others)}
                {hasBudgets && <td className="c-budget" />}
              </tr>
            )}
            <tr className="total">
              <td className="c-name">{t('spend.total')}</td>
              {cells(spend.total)}
              {hasBudgets && <td className="c-budget" />}
            </tr>
          </tbody>
        </table>
      </div>
    </section>
  )
}

/** "16.31 of 20 USD this month", with a bar. */
function BudgetText({ budget, currency, isOut }: { budget: BudgetUse; currency: string; isOut: boolean }) {
  const { t, locale } = useI18n()
  const share = Math.min(1, budget.used / budget.limit)
  return (
    <span className={isOut ? 'bad font-semibold' : share >= 0.9 ? 'warn font-semibold' : ''}>
      {budgetText(budget, currency, t, locale)} <span className="muted font-normal">{t(`budget.in.${budget.window}`)}</span>
      <Bar share={share} kind={isOut ? 'bd' : share >= 0.9 ? 'wn' : ''} />
    </span>
  )
}

/** All groups as a file, also those that the page does not list. */
function Csv({ question, period, off }: { question: SpendQuestion; period: Period; off: boolean }) {
  const { t } = useI18n()
  const query = useQuery({ ...spendOf({ ...question, limit: 1000 }), enabled: false })
  const save = async () => {
    const { data } = await query.refetch()
    if (data !== undefined) download(`spend${question.only === null ? '' : `-of-${question.only.name.replaceAll(/[^\p{L}\p{N}._-]/gu, '_') || 'nobody'}`}-by-${question.by}-${dayText(period.from)}-to-${dayText(period.to - 1)}.csv`, toCsv(data), 'text/csv')
  }
  return (
    <button type="button" className="btn" disabled={off || query.isFetching} onClick={() => void save()}>
      <Download className="ic s14" aria-hidden />
      {t('quota.csv')}
    </button>
  )
}
