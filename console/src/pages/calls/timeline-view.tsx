import { Check, X } from 'lucide-react'
import { useMemo } from 'react'
import type { Call } from '@/api/types'
import { useI18n, type Key } from '@/i18n'
import { axis as label, duration, splitId, text } from '@/lib/format'
import { axisOf, timelineOf, type Axis, type BarKind, type Phase, type TimeBar } from './timeline'

const phases: Record<Phase, Key> = {
  read: 'calls.read',
  limiter: 'calls.limiter',
  queue: 'calls.queue',
  load: 'calls.load',
  pick: 'calls.pick',
  firstByte: 'calls.firstByte',
  firstToken: 'common.firstToken',
  stream: 'calls.stream',
  body: 'calls.body',
  errorRead: 'calls.errorRead',
}

/** Milliseconds, below ten of them with two places. */
export function fine(ms: number): string {
  return ms < 10 ? `${ms.toFixed(2)} ms` : text(duration(ms))
}

/** Bars in their places on an axis. */
export function Bars({ of, axis }: { of: readonly TimeBar[]; axis: Axis }) {
  return (
    <span className="tt">
      {of.map((bar) => {
        const from = axis.place(bar.from)
        return bar.present ? <i key={bar.phase} className={bar.kind} style={{ left: `${from * 100}%`, width: `max(2px, ${(axis.place(bar.to) - from) * 100}%)` }} /> : <em key={bar.phase} />
      })}
    </span>
  )
}

function BarRow({ bar, axis }: { bar: TimeBar; axis: Axis }) {
  const { t } = useI18n()
  return (
    <div className="tr">
      <span className="tl">{t(phases[bar.phase])}</span>
      <Bars of={[bar]} axis={axis} />
      <code className="num">{bar.present ? fine(bar.to - bar.from) : '–'}</code>
    </div>
  )
}

/** What the colours of the bars mean. */
export function Legend({ kinds }: { kinds: readonly BarKind[] }) {
  const { t } = useI18n()
  return (
    <div className="tleg">
      {kinds.map((kind) => (
        <span key={kind}>
          <i className={kind} aria-hidden="true" />
          {t(legends[kind])}
        </span>
      ))}
    </div>
  )
}

const legends: Record<BarKind, Key> = { gateway: 'calls.legGateway', waiting: 'calls.legWaiting', streaming: 'calls.legStream', failed: 'calls.legFailed' }

/** Queue, limiter, pick, connect, first byte, first token and end; each try for itself. */
export function TimelineView({ call }: { call: Call }) {
  const { t, said } = useI18n()
  const timeline = useMemo(() => timelineOf(call), [call])
  const axis = useMemo(() => axisOf(timeline), [timeline])
  return (
    <>
      <div className="sub">
        {t('calls.timeline')} {axis.split !== null && <span className="muted font-normal">{t('calls.enlarged', { ms: text(duration(axis.split)) })}</span>}
      </div>
      <div className="tlbox">
        <div className="tax" aria-hidden="true">
          {axis.ticks.map((tick, index) => (
            <span key={index} className={index === 1 ? 'onlydesk' : ''} style={{ left: `${tick.at * 100}%` }}>
              {label(duration(tick.ms))}
            </span>
          ))}
        </div>
        {axis.split !== null && (
          <div className="tgrid" aria-hidden="true">
            <s />
            <u />
          </div>
        )}
        {timeline.gateway.map((bar) => (
          <BarRow key={bar.phase} bar={bar} axis={axis} />
        ))}
        {timeline.tries.map((attempt, index) => (
          <div key={index}>
            <div className="try">
              {attempt.errorCode === '' ? <Check className="ic s14" aria-hidden /> : <X className="ic s14 text-bad" aria-hidden />}
              <b>{t('calls.try', { n: index + 1 })}</b>
              <code className="trunc grow" title={`${attempt.instance} ${attempt.handle}`}>{splitId(attempt.instance).host}</code>
              <code className={attempt.errorCode === '' ? '' : 'bad'}>
                {attempt.httpStatus ?? ''} {attempt.errorCode}
              </code>
            </div>
            {(attempt.cause !== '' || attempt.errorText !== '') && (
              <div className="hint wrap relative bg-raised pb-1">
                {said(attempt.said, attempt.errorText)} {attempt.cause !== '' && <code>{attempt.cause}</code>} {attempt.url !== '' && <code>{attempt.url}</code>}
              </div>
            )}
            {attempt.bars.map((bar) => (
              <BarRow key={bar.phase} bar={bar} axis={axis} />
            ))}
          </div>
        ))}
      </div>
      <Legend kinds={['gateway', 'waiting', 'streaming', 'failed']} />
    </>
  )
}
