import { useMemo } from 'react'
import type { Call } from '@/api/types'
import { useI18n } from '@/i18n'
import { clock, duration, shorten, span, text } from '@/lib/format'
import { outcome } from '@/live/series'
import { CallCost } from '@/ui/cost'
import { Bars, Legend, TimelineView } from '../calls/timeline-view'
import { lineOf } from './line'

/** The calls of a run on one axis, the newest first; one of them is opened with its own timeline. */
export function RunTimeline({ calls, total, turns, selected, onSelect }: {
  /** The newest first. */
  calls: readonly Call[]
  total: number
  /** The turns that made a loop. */
  turns: readonly number[]
  selected: string
  onSelect(id: string): void
}) {
  const { t, locale } = useI18n()
  const line = useMemo(() => lineOf(calls, total), [calls, total])
  const begin = line.turns[0]
  if (begin === undefined) return <div className="panel muted px-3 py-3">{t('wrong.noCalls')}</div>
  const end = Math.max(...line.turns.map(({ call }) => Date.parse(call.time) + call.durationMs))
  return (
    <div className="panel p-3 runline">
      <div className="tlbox">
        <div className="tax" aria-hidden="true">
          <span style={{ left: '0%' }}>{clock(begin.call.time)}</span>
          <span style={{ left: '100%' }}>{clock(end)}</span>
        </div>
        <div className="tpause" aria-hidden="true">
          {line.pauses.map((pause) => (
            <s key={pause.at} style={{ left: `${pause.at * 100}%` }} title={t('runs.pause', { time: span(pause.ms, locale) })} />
          ))}
        </div>
        {line.turns.toReversed().map(({ call, number, bars }) => {
          const isOpen = call.requestId === selected
          const isBad = outcome(call) !== 'answered'
          return (
            <div key={`${call.requestId} ${call.number ?? ''}`}>
              <button type="button" className="tr v plain" aria-expanded={isOpen} onClick={() => onSelect(isOpen ? '' : call.requestId)}>
                <span className="tl" title={`${clock(call.time, true)} ${call.model}`}>
                  <b className={isBad ? 'bad' : turns.includes(number) ? 'warn' : ''}>{number}</b> {shorten(call.model === '' ? (call.asked ?? '–') : call.model, 14)}
                </span>
                <Bars of={bars} axis={line.axis} />
                <code className="num">{text(duration(call.durationMs))}</code>
              </button>
              {isOpen && <OneCall call={call} />}
            </div>
          )
        })}
      </div>
      <Legend kinds={['waiting', 'streaming', 'failed']} />
    </div>
  )
}

function OneCall({ call }: { call: Call }) {
  const { t, said } = useI18n()
  return (
    <div className="runcall">
      <p className="row flex-wrap">
        <code>{call.httpStatus}</code>
        <span>{call.usage === undefined ? '–' : t('batch.tokensText', { prompt: call.usage.promptTokens, answer: call.usage.completionTokens })}</span>
        <CallCost call={call} />
        <a href={`/calls?call=${encodeURIComponent(call.requestId)}`}>{t('runs.openCall')}</a>
      </p>
      {call.errorMessage !== undefined && <p className="bad">{said(call.said, call.errorMessage)}</p>}
      <TimelineView call={call} />
    </div>
  )
}
