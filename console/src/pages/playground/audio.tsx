import { Circle, Download, Square } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { useI18n } from '@/i18n'
import { bytes, text } from '@/lib/format'
import { SelectField, TextArea, TextField } from '@/ui/field'
import { gatewayKey } from './call'
import { Knob } from './chat'
import type { TabProps } from './index'
import { CallError, Meta, RunButton, useCall } from './parts'
import { useKept } from '@/shell/draft'
import { given, useReplay, keptAs } from './replay'

/** An address for a blob that lives as long as the blob is shown. */
export function useBlobUrl(blob: Blob | null): string | null {
  const [url, setUrl] = useState<string | null>(null)
  useEffect(() => {
    if (blob === null) {
      setUrl(null)
      return
    }
    const next = URL.createObjectURL(blob)
    setUrl(next)
    return () => URL.revokeObjectURL(next)
  }, [blob])
  return url
}

const formats = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm']

/** Speech: text to a sound that plays and can be kept. */
export function Speech({ model, panel }: TabProps) {
  const { t } = useI18n()
  const replay = useReplay('tts')
  const [input, setInput] = useKept(keptAs('speech', replay), given(replay, 'input', 'A patch bay connects what should talk to each other.'))
  const [voice, setVoice] = useState(given(replay, 'voice', 'alloy'))
  const [format, setFormat] = useState(given(replay, 'response_format', 'mp3'))
  const [speed, setSpeed] = useState(given(replay, 'speed', 1))
  const call = useCall((reply) => reply.response.blob())
  const url = useBlobUrl(call.result)
  const json = { model, input, voice, response_format: format, speed }
  const run = () => void call.run({ path: '/v1/audio/speech', json })
  return panel({
    request: { origin: location.origin, path: '/v1/audio/speech', json, key: gatewayKey() !== '' },
    raw: call.result === null ? [] : [{ request: json, response: `${call.result.type} · ${text(bytes(call.result.size))}` }],
    parameters: (
      <>
        <TextField label={t('pg.voice')} value={voice} onChange={setVoice} />
        <SelectField label={t('pg.format')} value={format} options={formats.map((value) => ({ value, label: value }))} onChange={setFormat} />
        <Knob label={t('pg.speed')} value={speed} min={0.25} max={4} step={0.25} onChange={setSpeed} />
      </>
    ),
    children: (
      <div className="sheet">
        <TextArea label={t('pg.input')} rows={4} value={input} onChange={setInput} />
        <RunButton busy={call.busy} disabled={input.trim() === '' || model === ''} label={t('pg.speak')} onRun={run} onStop={call.stop} />
        {call.error !== null && <CallError error={call.error} retry={run} />}
        {call.reply !== null && url !== null && (
          <>
            <Meta service="tts" model={model} reply={call.reply}>
              <span>{text(bytes(call.result?.size))}</span>
            </Meta>
            <div className="row mt-3 flex-wrap">
              <audio controls src={url} className="max-w-full" />
              <a className="btn" href={url} download={`speech.${format}`}>
                <Download className="ic" aria-hidden />
                {t('pg.download')}
              </a>
            </div>
          </>
        )}
      </div>
    ),
  })
}

/** Transcription: a file or the microphone to text. */
export function Transcription({ model, panel }: TabProps) {
  const { t } = useI18n()
  const [file, setFile] = useState<File | null>(null)
  const [language, setLanguage] = useState('')
  const recorder = useRecorder(setFile)
  const call = useCall(async (reply) => {
    const body = await reply.response.text()
    return reply.response.headers.get('content-type')?.includes('json') ? ((JSON.parse(body) as { text?: string }).text ?? body) : body
  })
  const url = useBlobUrl(file)
  const run = () => {
    if (file === null) return
    const form = new FormData()
    form.append('model', model)
    if (language.trim() !== '') form.append('language', language.trim())
    form.append('file', file, file.name)
    void call.run({ path: '/v1/audio/transcriptions', form })
  }
  return panel({
    request: {
      origin: location.origin,
      path: '/v1/audio/transcriptions',
      form: [{ name: 'model', value: model }, ...(language.trim() === '' ? [] : [{ name: 'language', value: language.trim() }]), { name: 'file', file: file?.name ?? 'speech.wav' }],
      key: gatewayKey() !== '',
    },
    raw: call.result === null ? [] : [{ request: { model, file: file?.name }, response: call.result }],
    parameters: <TextField label={t('pg.languageHint')} extra={t('common.optional')} value={language} onChange={setLanguage} />,
    children: (
      <div
        className="sheet"
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault()
          const dropped = event.dataTransfer.files[0]
          if (dropped !== undefined) setFile(dropped)
        }}
      >
        <FileInput label={t('pg.audioFile')} accept="audio/*" file={file} onChange={setFile} />
        <div className="row mb-3 flex-wrap">
          <button type="button" className="btn" onClick={recorder.recording ? recorder.stop : () => void recorder.start()}>
            {recorder.recording ? <Square className="ic text-bad" aria-hidden /> : <Circle className="ic text-bad" aria-hidden />}
            {recorder.recording ? `${t('pg.stopRecord')} · ${recorder.seconds} s` : t('pg.record')}
          </button>
          {url !== null && <audio controls src={url} className="max-w-full" />}
        </div>
        {recorder.error !== '' && <p className="warn mb-3">{t('pg.noMic', { reason: recorder.error })}</p>}
        <RunButton busy={call.busy} disabled={file === null || model === ''} label={t('pg.transcribe')} onRun={run} onStop={call.stop} />
        {call.error !== null && <CallError error={call.error} retry={run} />}
        {call.reply !== null && (
          <>
            <Meta service="stt" model={model} reply={call.reply} />
            <div className="panel mt-3 p-3">
              <div className="txt">{call.result}</div>
            </div>
          </>
        )}
      </div>
    ),
  })
}

export function FileInput({ label, accept, file, onChange }: { label: string; accept: string; file: File | null; onChange(file: File | null): void }) {
  const { t } = useI18n()
  return (
    <div className="f">
      <div className="flab">{label}</div>
      <div className="row flex-wrap">
        <label className="btn cursor-pointer">
          {t('pg.chooseFile')}
          <input type="file" accept={accept} className="sr-only" aria-label={label} onChange={(event) => onChange(event.target.files?.[0] ?? null)} />
        </label>
        <span className="muted trunc">{file === null ? t('pg.noFile') : `${file.name} · ${text(bytes(file.size))}`}</span>
      </div>
    </div>
  )
}

/** Records from the microphone into a file. */
function useRecorder(onFile: (file: File) => void) {
  const [recording, setRecording] = useState(false)
  const [seconds, setSeconds] = useState(0)
  const [error, setError] = useState('')
  const recorder = useRef<MediaRecorder | null>(null)
  useEffect(() => {
    if (!recording) return
    const timer = setInterval(() => setSeconds((value) => value + 1), 1000)
    return () => clearInterval(timer)
  }, [recording])
  useEffect(
    () => () => {
      for (const track of recorder.current?.stream.getTracks() ?? []) track.stop()
    },
    [],
  )
  const start = async () => {
    setError('')
    setSeconds(0)
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true })
      const next = new MediaRecorder(stream)
      const chunks: Blob[] = []
      next.ondataavailable = (event) => chunks.push(event.data)
      next.onstop = () => {
        for (const track of stream.getTracks()) track.stop()
        setRecording(false)
        onFile(new File(chunks, 'recording.webm', { type: next.mimeType }))
      }
      recorder.current = next
      next.start()
      setRecording(true)
    } catch (failure) {
      setError(String((failure as Error).message))
    }
  }
  return { recording, seconds, error, start, stop: () => recorder.current?.stop() }
}
