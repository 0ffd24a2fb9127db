import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Paperclip, Pencil, X } from 'lucide-react'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { useI18n } from '@/i18n'
import { digits, duration, text } from '@/lib/format'
import { useNow } from '@/live/context'
import type { SnippetRequest } from '@/lib/snippets'
import { useDraft } from '@/shell/draft'
import { TextArea, TextField } from '@/ui/field'
import { Slider, Toggle, Value } from '@/ui/parts'
import { gatewayKey } from './call'
import { chatRequest, speedOf, useChat, type Answer, type ChatParameters, type Turn } from './chat-state'
import { keptAs, replayedChat, useReplay } from './replay'
import { Markdown } from './markdown'
import { AnsweredBy, CallError, callOf, Cost, RunButton } from './parts'
import { useWhere } from './where'
import type { TabProps } from './index'

const defaults = { system: '', temperature: 0.7, topP: 1, maxTokens: 256, stream: true }

/** Reads a file as a data URL, which is how chat takes images. */
function readImage(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(new Error(file.name))
    reader.readAsDataURL(file)
  })
}

export function Chat({ model, second, panel }: TabProps) {
  const { t } = useI18n()
  const replay = useReplay('chat')
  const [replayed] = useState(() => (replay === null ? null : replayedChat(replay, defaults)))
  const chat = useChat(replayed?.turns ?? null)
  const { value: form, set: setForm } = useDraft(keptAs('parameters', replay), () => replayed?.form ?? defaults)
  const { value: draft, set: setDraft, reset: resetDraft } = useDraft(keptAs('question', replay), () => replayed?.draft ?? '')
  const [image, setImage] = useState<string | null>(replayed?.image ?? null)
  const end = useRef<HTMLDivElement>(null)
  const area = useRef<HTMLTextAreaElement>(null)
  const models = useMemo(() => (second === '' ? [model] : [model, second]), [model, second])
  const parameters: ChatParameters = { ...form, models }
  const set = <K extends keyof typeof defaults>(field: K, value: (typeof defaults)[K]) => setForm((old) => ({ ...old, [field]: value }))

  const follows = useRef(true)
  const submit = () => {
    if (draft.trim() === '' || model === '') return
    follows.current = true
    chat.ask(draft, image, parameters)
    resetDraft('')
    setImage(null)
  }
  const where = useWhere()
  const last = chat.turns.at(-1)
  useLayoutEffect(() => {
    const box = end.current?.parentElement
    // Who has scrolled up reads; all others follow the answer.
    if (follows.current && box !== null && box !== undefined) box.scrollTop = box.scrollHeight
  })
  const { busy, stop } = chat
  useEffect(() => {
    const escape = (event: KeyboardEvent) => event.key === 'Escape' && busy && stop()
    document.addEventListener('keydown', escape)
    return () => document.removeEventListener('keydown', escape)
  }, [busy, stop])

  const preview: Turn = { id: 0, content: draft === '' ? (last?.content ?? t('pg.ask1')) : draft, image: null, answers: [] }
  const request: SnippetRequest = {
    origin: location.origin,
    path: '/v1/chat/completions',
    json: chatRequest(draft === '' && last !== undefined ? chat.turns : [...chat.turns, preview], 0, parameters),
    key: gatewayKey() !== '',
  }
  return panel({
    request,
    raw: chat.raw,
    parameters: (
      <>
        <TextArea label={t('pg.system')} extra={t('common.optional')} rows={2} value={form.system} placeholder={t('pg.systemHint')} onChange={(value) => set('system', value)} />
        <Knob label={t('pg.temperature')} value={form.temperature} min={0} max={2} step={0.1} onChange={(value) => set('temperature', value)} />
        <Knob label={t('pg.topP')} value={form.topP} min={0} max={1} step={0.05} onChange={(value) => set('topP', value)} />
        <TextField label={t('pg.maxTokens')} inputMode="numeric" value={String(form.maxTokens)} onChange={(value) => set('maxTokens', Math.max(1, Number(value.replace(/\D/g, '')) || 1))} />
        <div className="mb-3">
          <Toggle checked={form.stream} onChange={(value) => set('stream', value)}>
            {t('pg.stream')}
          </Toggle>
        </div>
      </>
    ),
    children: (
      <>
        <div
          className="conv"
          tabIndex={0}
          aria-label={t('pg.chat')}
          onScroll={({ currentTarget: box }) => {
            follows.current = box.scrollHeight - box.scrollTop - box.clientHeight < 48
          }}
        >
          {replay !== null && (
            <div className="note mb-3">
              {t('pg.replayed')} <code className="wrap">{replay.requestId}</code>
            </div>
          )}
          {chat.turns.length === 0 && replay === null && (
            <div className="py-4">
              <p className="muted max-w-[60ch]">{t('pg.empty')}</p>
              <div className="row mt-3 flex-wrap">
                {(['pg.ask1', 'pg.ask2', 'pg.ask3'] as const).map((key) => (
                  <button key={key} type="button" className="btn" disabled={model === ''} onClick={() => chat.ask(t(key), null, parameters)}>
                    {t(key)}
                  </button>
                ))}
              </div>
            </div>
          )}
          {chat.turns.map((turn) => (
            <div key={turn.id}>
              <div className="m">
                <div className="who">
                  {t('pg.you')}
                  <button
                    type="button"
                    className="btn ghost icon"
                    aria-label={t('pg.editResend')}
                    title={t('pg.editResend')}
                    onClick={() => {
                      chat.stop()
                      chat.rewind(turn.id)
                      setDraft(turn.content)
                      setImage(turn.image)
                      area.current?.focus()
                    }}
                  >
                    <Pencil className="ic s14" aria-hidden />
                  </button>
                </div>
                {turn.image !== null && <img className="mb-1 max-h-[120px] rounded" src={turn.image} alt="" />}
                <div className="txt">{turn.content}</div>
              </div>
              <div className={turn.answers.length > 1 ? 'lanes' : ''}>
                {turn.answers.map((answer, lane) => (
                  <AnswerView key={lane} answer={answer} />
                ))}
              </div>
            </div>
          ))}
          <div ref={end} />
        </div>
        <div className="sr-only" aria-live="polite">
          {last !== undefined && !chat.busy ? t('pg.finished') : ''}
        </div>
        {where.result}
        <form
          className="composer"
          onSubmit={(event) => {
            event.preventDefault()
            submit()
          }}
        >
          {image !== null && (
            <div className="row mb-2">
              <img className="max-h-[48px] rounded" src={image} alt="" />
              <button type="button" className="btn ghost icon" aria-label={t('common.delete')} onClick={() => setImage(null)}>
                <X className="ic s14" aria-hidden />
              </button>
            </div>
          )}
          <textarea
            ref={area}
            className="ta"
            rows={2}
            aria-label={t('pg.write')}
            placeholder={t('pg.write')}
            value={draft}
            onChange={(event) => setDraft(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) {
                event.preventDefault()
                submit()
              }
            }}
          />
          <div className="row">
            <label className="btn ghost icon cursor-pointer" title={t('pg.attach')}>
              <Paperclip className="ic" aria-hidden />
              <input
                type="file"
                accept="image/*"
                className="sr-only"
                aria-label={t('pg.attach')}
                onChange={(event) => {
                  const file = event.target.files?.[0]
                  if (file !== undefined) void readImage(file).then(setImage)
                  event.target.value = ''
                }}
              />
            </label>
            <span className="muted onlydesk text-[12px]">{t('pg.hint')}</span>
            <span className="grow" />
            {chat.turns.length > 0 && (
              <button type="button" className="btn ghost" title={t('pg.clearHint')} onClick={chat.clear}>
                {t('pg.clear')}
              </button>
            )}
            {where.button(request.json ?? {}, draft.trim() === '' || model === '')}
            <RunButton busy={chat.busy} disabled={draft.trim() === '' || model === ''} label={t('pg.send')} onRun={submit} onStop={chat.stop} />
          </div>
        </form>
      </>
    ),
  })
}

export function Knob({ label, value, min, max, step, onChange }: { label: string; value: number; min: number; max: number; step: number; onChange(value: number): void }) {
  return (
    <div className="f">
      <div className="flab">
        <span className="grow">{label}</span>
        <span>{value}</span>
      </div>
      <Slider label={label} {...{ value, min, max, step }} onChange={(next) => onChange(Math.round(next * 100) / 100)} />
    </div>
  )
}

/** One answer: its text, the tape of its events, and what it took. */
function AnswerView({ answer }: { answer: Answer }) {
  const { t } = useI18n()
  const running = answer.state === 'waiting' || answer.state === 'streaming'
  useNow(running ? 100 : 60_000)
  const elapsed = answer.endMs ?? performance.now() - answer.began
  const { data: call } = useQuery({ ...callOf(answer.requestId), enabled: !running && answer.requestId !== '' })
  const speed = running ? null : speedOf(answer, elapsed, call?.usage?.completionTokens)
  return (
    <div className="m">
      <div className="who">
        <code>{answer.model}</code>
        {answer.served !== undefined && <span className="tag wn">{t('pg.byFallback', { model: answer.served })}</span>}
        {answer.state === 'stopped' && <span className="tag off">{t('pg.stopped')}</span>}
      </div>
      <div className="txt md">
        <Markdown text={answer.text} />
        {answer.state === 'streaming' && <span className="caret" aria-hidden="true" />}
        {answer.state === 'waiting' && <span className="muted">…</span>}
      </div>
      {answer.error !== null && (
        <div className="mt-2">
          <CallError error={answer.error} />
        </div>
      )}
      {answer.ticks.length > 1 && <Tape ticks={answer.ticks} />}
      <div className="meta">
        {answer.firstTokenMs !== null && (
          <span>
            {t('pg.firstToken')}{' '}
            <b>
              <Value reading={duration(answer.firstTokenMs)} />
            </b>
          </span>
        )}
        {speed !== null && (
          <span title={speed.isTold ? undefined : t('pg.speedHint')}>
            <b>{`${speed.isTold ? '' : '≈ '}${digits(speed.perSecond)}`}</b> {t('pg.tokensPerSecond')}
          </span>
        )}
        {answer.usage !== null ? (
          <span>{t('pg.usage', { in: answer.usage.prompt_tokens, out: answer.usage.completion_tokens })}</span>
        ) : (
          running && answer.events > 0 && <span>{t('pg.outSoFar', { n: answer.events })}</span>
        )}
        <b>{text(duration(elapsed))}</b>
        {!running && <Cost requestId={answer.requestId} />}
        <AnsweredBy service="chat" model={answer.model} served={answer.served} handle={answer.handle} />
        {answer.overheadMs !== null && <span title={t('pg.gatewayHint')}>{t('pg.gateway', { time: text(duration(answer.overheadMs)) })}</span>}
        {answer.attempts > 1 && <span className="warn">{t('pg.tries', { n: answer.attempts })}</span>}
        {!running && answer.requestId !== '' && (
          <Link to="/calls" search={{ call: answer.requestId } as never}>
            {t('pg.timeline')}
          </Link>
        )}
      </div>
    </div>
  )
}

/** A tick for each event of the stream: stalls are gaps. */
function Tape({ ticks }: { ticks: number[] }) {
  const from = ticks[0]!
  const span = Math.max(1, ticks[ticks.length - 1]! - from)
  const width = 240
  const d = ticks.map((tick) => `M${(((tick - from) / span) * (width - 1) + 0.5).toFixed(1)} 1v8`).join('')
  return (
    <svg className="tick" width={width} height="10" viewBox={`0 0 ${width} 10`} aria-hidden="true">
      <path className="bl2" d={`M0 9.5H${width}`} />
      <path d={d} />
    </svg>
  )
}
