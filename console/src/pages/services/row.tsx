import { useNavigate } from '@tanstack/react-router'
import { Ellipsis } from 'lucide-react'
import { useDeferredValue, useEffect, useRef, useState } from 'react'
import { useEdit } from '@/api/mutations'
import type { Instance, InstanceChanges, ServiceType, Share } from '@/api/types'
import { useI18n } from '@/i18n'
import { duration, host, percent, rate, text } from '@/lib/format'
import type { Stat } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { useDenied } from '@/shell/guard'
import { useToast } from '@/ui/feedback'
import { Menu, Name, Slider, Switch } from '@/ui/parts'
import { StatePill } from '@/ui/status'
import { isExceptional, Why } from '../wrong/why'
import { label } from './form'
import type { Hold } from './hold'

export interface Row {
  service: ServiceType
  id: string
  instance: Instance
  state: InstanceState | undefined
  /** The instances that this one has found at its backend; empty for one with a name. */
  found: InstanceState[]
}

/** A change that takes the last instance of a model out, and what is said when it is done. */
export interface Last {
  row: Row
  change: InstanceChanges
  said: string
}

interface RowProps {
  row: Row
  stat: Stat
  share: Share | undefined
  version: number
  now: number
  selected: boolean
  /** What is wrong with it is said in a line of its own. */
  explains: boolean
  /** Nothing else serves its model. */
  isLast: boolean
  onLast(last: Last): void
  onRemove(row: Row): void
  /** Holds the breaker, or lets go of it. */
  onHold(hold: Hold): void
}

function useOpen({ service, id }: Row): () => void {
  const navigate = useNavigate()
  return () => void navigate({ to: '/services', search: ((old: object) => ({ ...old, edit: `${service}/${id}`, add: undefined, policy: undefined })) as never })
}

/** How many columns every window shows. */
export const shownColumns = 7

/** The cells beside one over shownColumns, which go with the columns that narrow windows hide: a longer span would make columns of nothing. */
export function Beside() {
  return (
    <>
      <td className="lo" />
      <td className="rd" />
      <td className="rd" />
    </>
  )
}

/**
 * A row of the list; its index counts the lines of the table below the head. Of
 * many rows, each has its name at once and the rest, which takes longer to make,
 * when the page has time: rowHeight is its height until then.
 */
export function InstanceRow({ index, rowHeight, ...props }: RowProps & { index: number; rowHeight: number | undefined }) {
  const isWhole = useDeferredValue(true, rowHeight === undefined)
  const { t, said: tell } = useI18n()
  const { row, selected } = props
  const { instance, id } = row
  const open = useOpen(row)
  const cause = props.explains && row.state !== undefined && isExceptional(row.state) ? row.state : undefined
  const line = (
    <tr data-id={`${row.service} ${id}`} className={`${selected ? 'sel' : ''} ${cause === undefined ? '' : 'has-why'}`} aria-selected={selected} aria-rowindex={index + 2} aria-busy={isWhole ? undefined : true} style={isWhole ? undefined : { height: rowHeight }}>
      {isWhole ? <OnOff {...props} /> : <td />}
      <td className="cut nmtd" colSpan={isWhole ? undefined : shownColumns - 1}>
        <button type="button" className="nmad" title={id} onClick={open}>
          <Name className={`font-medium ${instance.enabled === false ? 'off' : ''}`}>{instance.models?.[0] === 'discover' ? t('services.serves.all') : label(instance)}</Name>
          <span className="muted addr">
            <Name>{host(instance.baseUrl)}</Name>
            {row.state?.slots !== undefined && <code title={tell(row.state.slots.said, row.state.slots.why)}>{` · ${t('services.slotsAre', { n: row.state.slots.now })}`}</code>}
            {(instance.tier ?? 0) > 0 && <code>{` · ${t('services.tierIs', { n: instance.tier ?? 0 })}`}</code>}
          </span>
        </button>
      </td>
      {isWhole ? <Cells {...props} /> : <Beside />}
    </tr>
  )
  if (cause === undefined) return line
  return (
    <>
      {line}
      <tr className="cause">
        <td colSpan={shownColumns}>
          <Why instance={cause} now={props.now} />
        </td>
        <Beside />
      </tr>
    </>
  )
}

function useChange({ row, version, isLast, onLast }: RowProps) {
  const { service, id } = row
  const { failure } = useI18n()
  const toast = useToast()
  const edit = useEdit()
  const change = (part: InstanceChanges, said: string, onSettled?: () => void) => {
    if (isLast && (part.enabled === false || part.weight === 0)) {
      onSettled?.()
      onLast({ row, change: part, said })
      return
    }
    edit.mutate({ edit: { kind: 'update', service, id, instance: part }, version, said }, { onError: (error) => toast(failure(error)), onSettled })
  }
  return { change, isPending: edit.isPending }
}

function OnOff(props: RowProps) {
  const { t } = useI18n()
  const denied = useDenied('config:instance:write')
  const { instance, id } = props.row
  const { change, isPending } = useChange(props)
  return (
    <td title={denied}>
      <Switch
        checked={instance.enabled !== false}
        disabled={isPending || denied !== undefined}
        label={t('services.enable', { id })}
        onChange={(next) => change({ enabled: next }, t(next ? 'services.enabled' : 'services.disabled', { model: label(instance), host: host(instance.baseUrl) }))}
      />
    </td>
  )
}

function Cells(props: RowProps) {
  const { t, said: tell } = useI18n()
  const navigate = useNavigate()
  const denied = useDenied('config:instance:write')
  const { row, stat, share, now, onRemove, onHold } = props
  const { instance, service, id } = row
  const [weight, setWeight] = useState<number | null>(null)
  const discovers = (instance.models ?? []).length > 0
  const shown = weight ?? instance.weight ?? 1
  const open = useOpen(row)
  const { change } = useChange(props)
  // Arrow keys move the slider step by step; what is saved is where it comes to rest.
  const rest = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  useEffect(() => () => clearTimeout(rest.current), [])
  const latest = useRef(change)
  useEffect(() => {
    latest.current = change
  })
  const breakerItems = (state: InstanceState | undefined) => {
    if (state === undefined) return []
    const item = (label: string, to: Hold['state'], isSo: boolean) => ({ label, title: denied, disabled: denied !== undefined || isSo, onSelect: () => onHold({ instance: state, state: to }) })
    return [
      'separator' as const,
      item(t('res.holdOpen'), 'OPEN', state.forced && state.breaker === 'OPEN'),
      item(t('res.holdClosed'), 'CLOSED', state.forced && state.breaker === 'CLOSED'),
      ...(state.forced ? [item(t('res.auto'), 'AUTO', false)] : []),
    ]
  }
  const weigh = (next: number) => {
    clearTimeout(rest.current)
    rest.current = setTimeout(() => latest.current({ weight: next }, t('services.weightIs', { n: next }), () => setWeight(null)), 400)
  }
  return (
    <>
      <td className="sttd">{discovers ? (
          <span className="soft" title={row.found.map((one) => one.model).join(', ')}>
            {t('services.foundModels', { n: row.found.length })}
          </span>
        ) : row.state !== undefined ? (
          <StatePill instance={row.state} now={now} />
        ) : (
          <span className="muted">–</span>
        )}</td>
      <td className="lo soft">{row.state?.adapter ?? instance.adapter}</td>
      <td className="wtd" title={denied}>
        <span className="row">
          <span className="w-[24px] text-right">{shown}</span>
          <span className="lo2 w-[84px]">
            <Slider
              label={`${t('common.weight')} ${id}`}
              value={shown}
              min={0}
              max={10}
              step={1}
              disabled={denied !== undefined}
              onChange={setWeight}
              onCommit={weigh}
            />
          </span>
        </span>
      </td>
      <td className="num shtd" title={tell(share?.said, share?.reason)}>
        <b className="font-semibold">{percent(share?.share, 0)}</b>
        <span className="muted lo"> / {percent(share?.expectedShare, 0)}</span>
      </td>
      <td className="num rd">{rate(stat.requests === 0 ? null : stat.rate)}</td>
      <td className="num rd">{text(duration(stat.p95))}</td>
      <td className={`num ertd ${(stat.errorRate ?? 0) > 0 ? 'bad' : 'muted'}`} title={stat.errorRate === null ? undefined : t('wrong.ofTries', { errors: percent(stat.errorRate) })}>{percent(stat.errorRate)}</td>
      <td className="mtd">
        <Menu
          trigger={
            <button type="button" className="btn ghost icon" aria-label={`${t('common.more')}: ${id}`}>
              <Ellipsis className="ic" aria-hidden />
            </button>
          }
          items={[
            { label: t('services.edit'), onSelect: open },
            ...(row.state === undefined ? [] : [{ label: t('services.page'), onSelect: () => void navigate({ to: '/instance', search: { service, id } as never }) }]),
            { label: t('services.try'), onSelect: () => void navigate({ to: '/playground', search: { type: service, model: instance.name } as never }) },
            { label: t('services.calls'), onSelect: () => void navigate({ to: '/calls', search: { service, q: id } as never }) },
            { label: t('services.copy'), disabled: denied !== undefined, title: denied, onSelect: () => void navigate({ to: '/services', search: ((old: object) => ({ ...old, add: service, from: id, edit: undefined })) as never }) },
            ...breakerItems(row.state),
            'separator',
            { label: t('services.remove'), danger: true, disabled: denied !== undefined, title: denied, onSelect: () => onRemove(row) },
          ]}
        />
      </td>
    </>
  )
}
