import { Link, useNavigate } from '@tanstack/react-router'
import { ChevronDown, ChevronRight } from 'lucide-react'
import { useMemo, useRef, useState, type KeyboardEvent } from 'react'
import { useI18n } from '@/i18n'
import { duration, percent, rate, text } from '@/lib/format'
import { useNow } from '@/live/context'
import { Sparkline } from '@/ui/chart'
import { HealthGlyph, BreakerGlyph } from '@/ui/glyphs'
import { Name, Num } from '@/ui/parts'
import { useWidth } from '@/ui/size'
import { BreakerPill } from '@/ui/status'
import { otherHosts, type Bay, type JackRow, type ModelRow } from './bay-layout'
import { Cables } from './cables'

export interface Followed {
  side: 'model' | 'jack'
  key: string
}

/** The live patch bay: models left, instances right, traffic between them. */
export function PatchBay({ bay, traffic, find, unfolded, onFold, onShowIdle }: {
  bay: Bay
  /** The requests of each instance in the last minutes, where rows have room for them. */
  traffic: ReadonlyMap<string, (number | null)[]> | undefined
  find: string
  unfolded: ReadonlySet<string>
  onFold(host: string): void
  onShowIdle(): void
}) {
  const { t } = useI18n()
  const navigate = useNavigate()
  const [pointed, setPointed] = useState<Followed | null>(null)
  const [well, width] = useWidth<HTMLDivElement>()
  const root = useRef<HTMLDivElement>(null)
  const now = useNow()
  const searched = useMemo(() => match(bay, find), [bay, find])
  const followed = pointed ?? searched
  const bright = useMemo(() => related(bay, followed), [bay, followed])

  const focusRow = (key: string | undefined) => {
    if (key !== undefined) root.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(key)}"]`)?.focus()
  }
  const walk = (event: KeyboardEvent, side: 'model' | 'jack', key: string) => {
    const rows = side === 'model' ? bay.models : bay.jacks
    const index = rows.findIndex((row) => row.key === key)
    const cable = bay.cables.find((candidate) => (side === 'model' ? candidate.model : candidate.jack) === key)
    if (event.key === 'ArrowDown') focusRow(rows[index + 1]?.key)
    else if (event.key === 'ArrowUp') focusRow(rows[index - 1]?.key)
    else if (event.key === 'ArrowRight' && side === 'model') focusRow(cable?.jack)
    else if (event.key === 'ArrowLeft' && side === 'jack') focusRow(cable?.model)
    else if (event.key === 'Escape') {
      setPointed(null)
      ;(event.target as HTMLElement).blur()
    } else if (event.key === 'Enter') open(side, key)
    else return
    event.preventDefault()
  }
  const open = (side: 'model' | 'jack', key: string) => {
    if (side === 'model') {
      const row = bay.models.find((candidate) => candidate.key === key)
      if (row !== undefined) void navigate({ to: '/model', search: { service: row.service, id: row.model } as never })
      return
    }
    const row = bay.jacks.find((candidate) => candidate.key === key)
    if (row === undefined) return
    if (row.folded) onFold(row.host)
    else void navigate({ to: '/instance', search: { service: row.instances[0]!.service, id: row.instances[0]!.id } as never })
  }
  const props = (side: 'model' | 'jack', key: string, first: boolean) => ({
    'data-row': key,
    tabIndex: (followed?.key ?? '') === key || (first && followed?.side !== side) ? 0 : -1,
    role: 'link',
    onPointerEnter: () => setPointed({ side, key }),
    onPointerLeave: () => setPointed(null),
    onFocus: () => setPointed({ side, key }),
    onBlur: () => setPointed(null),
    onClick: () => open(side, key),
    onKeyDown: (event: KeyboardEvent) => walk(event, side, key),
  })
  return (
    <div className={`panel bay ${bay.folding ? 'folding' : ''}`} ref={root}>
      <div>
        <div className={`colh jl ${bay.tall ? '!grid-cols-[minmax(0,1fr)]' : ''}`}>
          {!bay.tall && <span>{t('common.service')}</span>}
          <span>{t('common.model')}</span>
          {!bay.tall && <span className="num">{t('common.reqs')}</span>}
          {!bay.tall && <span className="num">{t('common.errors')}</span>}
        </div>
        <div className="rows" style={{ height: bay.height }}>
          {bay.models.map((row, index) => (
            <Model key={row.key} row={row} tall={bay.tall} dim={bright !== null && !bright.has(row.key)} {...{ props: props('model', row.key, index === 0) }} />
          ))}
          {bay.hidden > 0 && (
            <div className="at px-3 pl-[86px] text-[12px]" style={{ top: bay.hiddenY - 11 }}>
              <button type="button" className="link muted" onClick={onShowIdle}>
                {t('overview.moreModels', { n: bay.hidden })}
              </button>
            </div>
          )}
        </div>
      </div>
      <div className="well" ref={well}>
        <div className="colh">{t('overview.thickness')}</div>
        <Cables bay={bay} width={width} bright={bright} />
      </div>
      <div>
        <div className={`colh jr2 ${bay.tall ? '!grid-cols-[minmax(0,1fr)]' : ''}`}>
          <span>{bay.folding ? t('overview.backend') : t('overview.instanceByBackend')}</span>
          {!bay.tall && (
            <>
              <span className="num shc">{t('common.share')}</span>
              <span className="num">{t('common.reqs')}</span>
              <span className="num">{t('common.p95')}</span>
              <span className="pl-2">{t('common.breaker')}</span>
            </>
          )}
        </div>
        <div className="rows" style={{ height: bay.height }}>
          {bay.hosts.map((host) => (
            <div key={host.host} className="at" style={{ top: host.y - 12 }}>
              {bay.folding && unfolded.has(host.host) ? (
                <button type="button" className="host" aria-expanded="true" onClick={() => onFold(host.host)}>
                  <ChevronDown className="ic s14" aria-hidden />
                  {host.host === otherHosts ? t('overview.fewerBackends') : <code>{host.host}</code>}
                </button>
              ) : (
                <div className="host">
                  {host.host === otherHosts ? <code className="trunc">{host.host}</code> : <Link className="plain trunc hover:underline" to="/host" search={{ id: host.host } as never}><code>{host.host}</code></Link>}
                  <span>{host.carrying === host.jacks ? t('overview.jacks', { n: host.jacks }) : t('overview.carry', { n: host.jacks, k: host.carrying })}</span>
                </div>
              )}
            </div>
          ))}
          {bay.jacks.map((row, index) => (
            <Jack key={row.key} row={row} tall={bay.tall} traffic={traffic?.get(row.key)} now={now} dim={bright !== null && !bright.has(row.key)} {...{ props: props('jack', row.key, index === 0) }} />
          ))}
        </div>
      </div>
    </div>
  )
}

type RowProps = Record<string, unknown>

function Errors({ value }: { value: number | null }) {
  return <span className={`val ${(value ?? 0) > 0 ? 'bad' : 'muted'}`}>{percent(value)}</span>
}

function Model({ row, tall, dim, props }: { row: ModelRow; tall: boolean; dim: boolean; props: RowProps }) {
  const { t } = useI18n()
  const idle = row.stat.requests === 0 ? 'idle' : ''
  const height = tall ? 52 : 22
  return (
    <div {...props} className={`at jr jl ${tall ? 'tall' : ''} ${idle} ${dim ? 'dim' : ''}`} style={{ top: row.y - height / 2 }}>
      {tall ? (
        <>
          <span className="two-l">
            <Name className="nm">{row.model}</Name>
            <span className="muted">{t(`pg.${row.service}`)}</span>
          </span>
          <span className="two-l r">
            <span>
              <b className="font-semibold"><Num value={rate(row.stat.requests === 0 ? null : row.stat.rate)} unit={t('common.reqs')} /></b>
            </span>
            <span className={(row.stat.errorRate ?? 0) > 0 ? 'bad' : 'muted'}>{percent(row.stat.errorRate)} {t('common.errors').toLowerCase()}</span>
          </span>
        </>
      ) : (
        <>
          <span className="svc">{row.first ? t(`pg.${row.service}`) : ''}</span>
          <Name className="nm">{row.model}</Name>
          <span className="val">{rate(row.stat.requests === 0 ? null : row.stat.rate)}</span>
          <Errors value={row.stat.errorRate} />
        </>
      )}
    </div>
  )
}

function Jack({ row, tall, traffic, now, dim, props }: { row: JackRow; tall: boolean; traffic: (number | null)[] | undefined; now: number; dim: boolean; props: RowProps }) {
  const { t } = useI18n()
  const instance = row.instances[0]!
  const silent = row.stat.requests === 0
  const height = tall ? 52 : 22
  const style = { top: row.y - height / 2 }
  const state = row.folded ? (
    <span className="pill ok">
      {silent ? <HealthGlyph state="idle" /> : <BreakerGlyph state="CLOSED" />}
      {t('overview.closedCount', { n: row.instances.length })}
    </span>
  ) : (
    <BreakerPill instance={instance} now={now} idle={silent} />
  )
  if (tall) {
    return (
      <div {...props} className={`at jr jr2 tall ${silent ? 'idle' : ''} ${dim ? 'dim' : ''}`} style={style}>
        <span className="two-l">
          <Name className="nm" title={instance.id}>{instance.model}</Name>
          <code className="muted trunc">{instance.host} · {instance.adapter}</code>
        </span>
        <span className="two-l r">
          <b className="font-semibold">{percent(row.share, 0)}</b>
          <span className="muted">{t('common.weight').toLowerCase()} {instance.weight}</span>
        </span>
        <span className="spark">{traffic !== undefined && traffic.some((value) => (value ?? 0) > 0) && <Sparkline values={traffic} width={44} height={20} />}</span>
        <span className="two-l r">
          <b className="font-semibold"><Num value={rate(silent ? null : row.stat.rate)} /></b>
          <span className="muted">{t('common.reqs')}</span>
        </span>
        <span className="two-l r">
          <b className="font-semibold">{text(duration(row.stat.p95))}</b>
          <span className="muted">p95</span>
        </span>
        <span className="pl-2">{state}</span>
      </div>
    )
  }
  return (
    <div {...props} className={`at jr jr2 ${silent ? 'idle' : ''} ${dim ? 'dim' : ''}`} style={style}>
      <span className="row trunc">
        {row.folded ? (
          <>
            <ChevronRight className="ic s14" aria-hidden />
            {row.host === otherHosts ? (
              <span className="trunc">{t('overview.moreBackends', { n: new Set(row.instances.map((one) => one.host)).size })}</span>
            ) : (
              <code className="trunc">{row.host}</code>
            )}
          </>
        ) : (
          <>
            <Name className="nm" title={instance.id}>{instance.model}</Name>
            <span className="muted adp text-[11px]">{instance.adapter}</span>
          </>
        )}
      </span>
      <span className="val shc">{percent(row.share, 0)}</span>
      <span className="val">{rate(silent ? null : row.stat.rate)}</span>
      <span className="val">{text(duration(row.stat.p95))}</span>
      <span className="pl-2">{state}</span>
    </div>
  )
}

/** The keys of the rows that a followed jack is connected with. */
function related(bay: Bay, followed: Followed | null): Set<string> | null {
  if (followed === null) return null
  const keys = new Set([followed.key])
  for (const cable of bay.cables) {
    if (cable.model === followed.key) keys.add(cable.jack)
    if (cable.jack === followed.key) keys.add(cable.model)
  }
  return keys
}

function match(bay: Bay, find: string): Followed | null {
  const needle = find.trim().toLowerCase()
  if (needle === '') return null
  const model = bay.models.find((row) => row.model.toLowerCase().includes(needle))
  if (model !== undefined) return { side: 'model', key: model.key }
  const jack = bay.jacks.find((row) => row.host.toLowerCase().includes(needle) || row.instances.some((instance) => instance.id.toLowerCase().includes(needle)))
  return jack === undefined ? null : { side: 'jack', key: jack.key }
}
