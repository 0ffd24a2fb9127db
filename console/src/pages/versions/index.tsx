import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Download, TriangleAlert, Undo2 } from 'lucide-react'
import { useMemo, useState } from 'react'
import { api, data } from '@/api/client'
import { useEdit } from '@/api/mutations'
import { versionConfig, versionDiff, versions } from '@/api/queries'
import type { Difference, Version } from '@/api/types'
import { useI18n, type I18n, type Key } from '@/i18n'
import { ago, rate, since, splitId, stamp } from '@/lib/format'
import { maskSecrets, yamlLines } from '@/lib/yaml'
import { oneOf } from '@/lib/url'
import { useLive, useNow, useStats } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { Guard } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { ErrorNote, useToast } from '@/ui/feedback'
import { Select } from '@/ui/field'
import { Confirm } from '@/ui/overlay'
import { Segments } from '@/ui/parts'
import { DiffView } from './diff-view'
import { personOf } from './person'

const origins: Record<string, Key> = {
  api: 'ver.origin.api',
  console: 'ver.origin.console',
  file: 'ver.origin.file',
  reload: 'ver.origin.reload',
  rollback: 'ver.origin.rollback',
  import: 'ver.origin.import',
  reset: 'ver.origin.reset',
}

/** How a version came to be, and by whom. */
const madeBy = (t: I18n['t'], version: Version) => t(origins[version.origin] ?? 'ver.origin.api') + (version.author === '' ? '' : t('common.comma') + personOf(t, version.author))

export default function Versions() {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const { snapshot } = useLive()
  const query = useQuery({ ...versions, refetchInterval: 5000 })
  const list = query.data ?? []
  const current = list.find((version) => version.current)
  usePageFact(current === undefined ? '' : t('ver.sum', { n: list.length, current: current.version }))
  const wanted = Number(search.version)
  // What is in force comes first: nobody rolls back what they have not chosen.
  const selected = list.find((version) => version.version === wanted) ?? current
  if (query.error !== null) return <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />
  return (
    <div className="vg">
      <div>
        <div className="bar">
          <span className="soft grow">{t('ver.compare')}</span>
          <a className="btn" href="/api/config/backup" download title={t('ver.downloadHint')}>
            <Download className="ic s14" aria-hidden />
            {t('ver.download')}
          </a>
        </div>
        <VersionList list={list} selected={selected?.version} onSelect={(version) => setSearch({ version: String(version) })} />
        <p className="hint mt-2">{t('ver.grow')}</p>
      </div>
      {selected !== undefined && current !== undefined && (
        <Comparison key={selected.version} list={list} selected={selected} current={current} live={snapshot?.version} view={oneOf(search.diff, ['unified', 'side'] as const)} onView={(view) => setSearch({ diff: view === 'unified' ? undefined : view })} withOther={list.find((version) => String(version.version) === search.with)?.version} onWith={(version) => setSearch({ with: version === undefined ? undefined : String(version) })} />
      )}
    </div>
  )
}

function VersionList({ list, selected, onSelect }: { list: Version[]; selected: number | undefined; onSelect(version: number): void }) {
  const { t, locale, said } = useI18n()
  const now = useNow(10_000)
  return (
    <div className="panel" role="listbox" aria-label={t('ver.list')}>
      {list.length === 0 && <div className="muted p-3">{t('ver.none')}</div>}
      {list.map((version) => (
        <button key={version.version} type="button" role="option" aria-selected={version.version === selected} className={`v ${version.version === selected ? 'sel' : ''}`} onClick={() => onSelect(version.version)}>
          <span className="vn">{version.version}</span>
          <span className="min-w-0">
            <span className="row muted text-[12px]">
              <span title={stamp(version.createdAt)}>{ago(version.createdAt, now, locale)}</span>
              <span className="trunc" title={madeBy(t, version)}>
                {madeBy(t, version)}
              </span>
              {version.current && (
                <span className="tag" title={version.activatedAt == null ? undefined : stamp(version.activatedAt)}>
                  {version.activatedAt == null ? t('ver.inForce') : t('ver.inForceFor', { time: since(version.activatedAt, now, locale) })}
                </span>
              )}
            </span>
            <span className="vsum">{said(version.said, version.summary)}</span>
            <Comings version={version} />
          </span>
        </button>
      ))}
    </div>
  )
}

/** A version that came into force again after others leaves a trace of it. */
function Comings({ version }: { version: Version }) {
  const { t, locale } = useI18n()
  const now = useNow(10_000)
  const again = (version.activations ?? []).filter((coming, index) => index > 0 || (coming.replaced ?? 0) > version.version).toReversed()
  if (again.length === 0) return null
  const say = (coming: (typeof again)[number]) => {
    const values = { ago: ago(coming.at, now, locale), by: coming.by === undefined ? '–' : personOf(t, coming.by), from: coming.replaced ?? '–' }
    return t((coming.replaced ?? 0) > version.version ? 'ver.rolledBack' : 'ver.applied', values)
  }
  return (
    <span className="vback" title={again.map((coming) => `${stamp(coming.at)} · ${say(coming)}`).join('\n')}>
      <Undo2 className="ic s14" aria-hidden />
      <span>
        {say(again[0]!)}
        {again.length > 1 && ` ${t('ver.moreTimes', { n: again.length - 1 })}`}
      </span>
    </span>
  )
}

function Comparison({ list, selected, current, live, view, onView, withOther, onWith }: {
  list: Version[]
  selected: Version
  current: Version
  live: number | undefined
  view: 'unified' | 'side'
  onView(view: 'unified' | 'side'): void
  /** The version that it is compared with, where somebody chose one. */
  withOther: number | undefined
  onWith(version: number | undefined): void
}) {
  const { t } = useI18n()
  const edit = useEdit()
  const toast = useToast()
  const client = useQueryClient()
  const [asking, setAsking] = useState(false)
  const [deleting, setDeleting] = useState(false)
  const isCurrent = selected.version === current.version
  // Of the version in force one asks what it has changed.
  const previous = list.filter((version) => version.version < selected.version).sort((a, b) => b.version - a.version)[0]
  const usual = isCurrent ? previous?.version : current.version
  const from = withOther === selected.version ? usual : (withOther ?? usual)
  const to = selected.version
  const back = to < current.version
  usePageCalls([
    ...(from === undefined ? [] : [{ path: `/api/config/version/diff?from=${from}&to=${to}` }]),
    ...(isCurrent ? [] : [{ method: 'POST' as const, path: `/api/config/version/rollback/${to}`, version: current.version }]),
    { path: '/api/config/version?details=true' },
  ])
  const before = useQuery({ ...versionConfig(from ?? 0), enabled: from !== undefined })
  const after = useQuery(versionConfig(to))
  const changes = useQuery({ ...versionDiff(from ?? 0, to), enabled: from !== undefined })
  const left = useMemo(() => yamlLines(maskSecrets(before.data ?? {})), [before.data])
  const right = useMemo(() => yamlLines(maskSecrets(after.data ?? {})), [after.data])
  const title = from !== usual ? t('ver.between', { from: from ?? 0, to }) : isCurrent ? t('ver.since', { n: to }) : t(back ? 'ver.rollTitle' : 'ver.forwardTitle', { from: from ?? 0, to })
  const error = before.error ?? after.error ?? changes.error

  const roll = () => {
    if (!asking) {
      setAsking(true)
      return
    }
    edit.mutate({ edit: { kind: 'rollback', version: to }, version: current.version }, {
      onSuccess: () => {
        setAsking(false)
        toast(t('ver.rolled', { n: to }), { label: t('common.undo'), run: () => edit.mutate({ edit: { kind: 'rollback', version: current.version } }) })
      },
    })
  }
  return (
    <section className="panel dv" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {list.length > 1 && (
          <Select label={t('ver.with')} quiet value={String(from ?? '')} options={list.filter((version) => version.version !== to).map((version) => ({ value: String(version.version), label: t('ver.withVersion', { n: version.version }) }))} onChange={(value) => onWith(Number(value) === usual ? undefined : Number(value))} />
        )}
        <Segments
          label={t('ver.unified')}
          value={view}
          options={[
            { value: 'unified' as const, label: t('ver.unified') },
            { value: 'side' as const, label: t('ver.sideBySide') },
          ]}
          onChange={(next) => onView(next)}
        />
      </header>
      {error !== null && (
        <div className="p-3">
          <ErrorNote error={error} title={t('error.load')} />
        </div>
      )}
      {from === undefined ? (
        <p className="muted p-4">{t('ver.firstOne')}</p>
      ) : (
        <>
          <Effect changes={changes.data ?? []} loaded={changes.data !== undefined} warn={!isCurrent} />
          {before.data !== undefined && after.data !== undefined && left.join('\n') !== right.join('\n') && <DiffView before={left} after={right} sideBySide={view === 'side'} />}
        </>
      )}
      {edit.error !== null && (
        <div className="p-3">
          <ErrorNote error={edit.error} retry={roll} />
        </div>
      )}
      <footer>
        <span className="hint grow">{isCurrent ? t('ver.cannotDelete', { n: to }) : t('ver.effect')}</span>
        {!isCurrent && (
          <Guard needs="config:version:write">
            <button type="button" className="btn ghost" onClick={() => setDeleting(true)}>
              {t('ver.delete', { n: to })}
            </button>
            {asking && (
              <button type="button" className="btn" onClick={() => setAsking(false)}>
                {t('common.cancel')}
              </button>
            )}
            <button type="button" className="btn pri" disabled={edit.isPending || live === undefined} onClick={roll}>
              {t(asking ? (back ? 'ver.confirm' : 'ver.confirmApply') : back ? 'ver.roll' : 'ver.apply', { n: to })}
            </button>
          </Guard>
        )}
      </footer>
      {deleting && (
        <Confirm
          title={t('ver.delete', { n: to })}
          action={t('ver.delete', { n: to })}
          onClose={() => setDeleting(false)}
          onConfirm={async () => {
            await data(api.DELETE('/api/config/version/{version}', { params: { path: { version: to } } }) as never)
            await client.invalidateQueries({ queryKey: ['versions'] })
            toast(t('ver.deleted', { n: to }))
          }}
        >
          {t('ver.deleteText', { n: to })}
        </Confirm>
      )}
    </section>
  )
}

function show(value: unknown): string {
  if (value === undefined || value === null || value === '') return '–'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** The change as sentences, and the traffic that it touches. */
function Effect({ changes, loaded, warn }: { changes: Difference[]; loaded: boolean; warn: boolean }) {
  const { t } = useI18n()
  const stats = useStats('5m')
  const removed = changes.filter((change) => change.kind === 'removed' && change.instance !== undefined && (change.field === undefined || change.field === ''))
  const lost = removed.reduce((sum, change) => sum + (stats.instances.get(`${change.service} ${change.instance}`)?.rate ?? 0), 0)
  return (
    <div className="effect">
      <div className="sub">{t('ver.what')}</div>
      {loaded && changes.length === 0 && <p className="muted">{t('ver.nothing')}</p>}
      <ul className="cl">
        {changes.map((change, index) => {
          const sign = change.kind === 'added' ? '+' : change.kind === 'removed' ? '−' : '~'
          const whole = change.field === undefined || change.field === ''
          const id = change.instance === undefined ? '' : `${splitId(change.instance).model}@${splitId(change.instance).host}`
          return (
            <li key={index}>
              <b className={change.kind === 'removed' ? 'bad' : 'text-accent'}>{sign}</b>
              <span className="soft trunc" title={change.field}>
                {whole
                  ? t(change.instance !== undefined && change.instance !== '' ? (change.kind === 'added' ? 'ver.added' : 'ver.removed') : change.kind === 'added' ? 'ver.serviceAdded' : 'ver.serviceRemoved')
                  : `${change.service} ${change.field}`}
              </span>
              <code className="wrap">
                {id !== '' && id}
                {id !== '' && !whole && ': '}
                {!whole && (
                  <>
                    {show(change.from)} → <b>{show(change.to)}</b>
                  </>
                )}
                {whole && id === '' && change.service}
              </code>
            </li>
          )
        })}
      </ul>
      {warn && lost > 0 && (
        <div className="note wn mt-3">
          <TriangleAlert className="ic" aria-hidden />
          <div>{t('ver.traffic', { rate: rate(lost) })}</div>
        </div>
      )}
    </div>
  )
}
