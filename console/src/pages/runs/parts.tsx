import { RefreshCw } from 'lucide-react'
import { useState, type FormEvent } from 'react'
import { T, useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { useNow } from '@/live/context'
import { ErrorNote } from '@/ui/feedback'
import { SelectField, TextField } from '@/ui/field'
import { Confirm } from '@/ui/overlay'
import { Bar, Toggle } from '@/ui/parts'
import { units, useEnd, useRaise, type Run, type Unit } from './api'
import { metersOf, numberOf, raisesOf, ruleWord, unitWord } from './words'

/** The state of a run as a word in its colour. */
export function State({ run }: { run: Run }) {
  const { t } = useI18n()
  const kind = run.state === 'STOPPED' ? 'wn' : run.state === 'RUNNING' ? '' : 'off'
  return <span className={`tag ${kind}`} title={run.reason}>{t(`runs.state.${run.state}`)}</span>
}

/** What a run used of its limits, each as a bar with its numbers. */
export function Meters({ run }: { run: Run }) {
  const { t, locale } = useI18n()
  const now = useNow(1000)
  return (
    <div className="panel">
      {metersOf(run, now).map(({ unit, used, reserved, limit, share }) => (
        <div key={unit} className="pr obj" data-unit={unit}>
          {limit > 0 ? <Bar share={share} kind={share >= 1 ? 'bd' : share >= 0.8 ? 'wn' : ''} /> : <span className="muted">{t('runs.noLimit')}</span>}
          <span className="min-w-0">
            <b>{unitWord(unit, t)}</b>{' '}
            {limit > 0 ? t('runs.ofLimit', { used: numberOf(used, unit, locale), limit: numberOf(limit, unit, locale) }) : numberOf(used, unit, locale)}
            {unit === 'cost' && ` ${run.currency}`}
            {reserved > 0 && <span className="muted">{` · ${t('runs.reserved', { n: numberOf(reserved, unit, locale) })}`}</span>}
          </span>
          <span className="muted nowrap">{(run.raised[unit] ?? 0) > 0 && t('runs.raisedBy', { n: numberOf(run.raised[unit]!, unit, locale) })}</span>
        </div>
      ))}
    </div>
  )
}

/** The rule for loops that a run breaks, and the turns that did. */
export function LoopNote({ run }: { run: Run }) {
  const { t } = useI18n()
  const { loop } = run
  if (loop === undefined) return null
  return (
    <div className={`note mb-3 ${loop.action === 'stop' ? 'bd' : 'wn'}`} data-part="loop">
      <RefreshCw className="ic s14" aria-hidden />
      <div>
        <b>{ruleWord(loop.rule, t)}</b> {t(`runs.action.${loop.action}`)}{' '}
        {(loop.turns?.length ?? 0) > 0 && t('runs.turns', { list: loop.turns!.join(', ') })} <span className="muted">{stamp(loop.at)}</span>
      </div>
    </div>
  )
}

/** Buttons that give a run more: amounts of money at once, anything else by a form. */
function RaiseButtons({ run }: { run: Run }) {
  const { t, locale } = useI18n()
  const raise = useRaise(run)
  const [open, setOpen] = useState(false)
  const [unit, setUnit] = useState<Unit>('tokens')
  const [by, setBy] = useState('')
  const amount = Number(by)
  const isGood = by.trim() !== '' && Number.isFinite(amount) && amount > 0 && (unit === 'cost' || Number.isInteger(amount))
  const submit = (event: FormEvent) => {
    event.preventDefault()
    raise.mutate({ [unit]: unit === 'time' ? amount * 60_000 : amount }, { onSuccess: () => setOpen(false) })
  }
  return (
    <>
      <div className="row flex-wrap" role="group" aria-label={t('runs.raise')}>
        <span className="muted">{t('runs.raise')}</span>
        {raisesOf(run).map((value) => (
          <button key={value} type="button" className="btn" disabled={raise.isPending} onClick={() => raise.mutate({ cost: value })}>
            {`+${numberOf(value, 'cost', locale)} ${run.currency}`}
          </button>
        ))}
        <button type="button" className="btn ghost" aria-expanded={open} onClick={() => setOpen(!open)}>
          {t('runs.other')}
        </button>
        {run.loop?.action === 'stop' && (
          <button type="button" className="btn" disabled={raise.isPending} onClick={() => raise.mutate({})}>
            {t('runs.lift')}
          </button>
        )}
      </div>
      {open && (
        <form className="bar" onSubmit={submit}>
          <SelectField label={t('runs.unit')} value={unit} options={units.filter((one) => one !== 'concurrency').map((one) => ({ value: one, label: unitWord(one, t) }))} onChange={(value) => setUnit(value as Unit)} />
          <TextField label={t('runs.by')} hint={unit === 'time' ? t('runs.minutes') : unit === 'cost' ? run.currency : undefined} inputMode="decimal" value={by} onChange={setBy} />
          <button type="submit" className="btn pri" disabled={!isGood || raise.isPending}>
            {t('runs.raiseAction')}
          </button>
        </form>
      )}
      {raise.error !== null && <ErrorNote error={raise.error} />}
    </>
  )
}

/** What can be done with a run. */
export function Actions({ run, isEnding, setEnding }: { run: Run; isEnding: boolean; setEnding(is: boolean): void }) {
  const { t } = useI18n()
  return (
    <div className="runacts">
      <RaiseButtons run={run} />
      {run.state !== 'ENDED' && (
        <button type="button" className="btn danger" onClick={() => setEnding(true)}>
          {t('runs.end')}
        </button>
      )}
      {isEnding && run.state !== 'ENDED' && <EndConfirm run={run} onClose={() => setEnding(false)} />}
    </div>
  )
}

/** Asks before a run is ended; its calls in progress go on, unless they are to be cut. */
function EndConfirm({ run, onClose }: { run: Run; onClose(): void }) {
  const { t } = useI18n()
  const end = useEnd(run)
  const [now, setNow] = useState(false)
  return (
    <Confirm title={t('runs.endTitle')} action={t(now ? 'runs.endNow' : 'runs.end')} onClose={onClose} onConfirm={() => end.mutateAsync(now)}>
      <p className="mb-3">
        <T k="runs.endText" v={{ name: <code>{run.name}</code> }} />
      </p>
      <Toggle checked={now} onChange={setNow}>
        {t('runs.cut', { n: run.underWay })}
      </Toggle>
    </Confirm>
  )
}
