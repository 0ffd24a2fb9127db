import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Upload } from 'lucide-react'
import { useRef, useState } from 'react'
import { api, data, toError } from '@/api/client'
import { batches } from '@/api/queries'
import type { Key } from '@/api/types'
import { useI18n } from '@/i18n'
import { percent } from '@/lib/format'
import { gatewayKey, setGatewayKey } from '@/pages/playground/call'
import { useMe } from '@/shell/session'
import { ErrorNote, useToast } from '@/ui/feedback'
import { SecretField } from '@/ui/field'
import { checkLines, lookedAt, type Checked } from './check'

interface Chosen {
  file: File
  checked: Checked
}

/** Sends a file, and tells how much of it has arrived. */
function upload(file: File, key: string, onProgress: (share: number) => void): Promise<{ id: string }> {
  return new Promise((resolve, reject) => {
    const form = new FormData()
    form.set('purpose', 'batch')
    form.set('file', file)
    const request = new XMLHttpRequest()
    request.open('POST', '/v1/files')
    if (key !== '') request.setRequestHeader('authorization', `Bearer ${key}`)
    request.responseType = 'json'
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total)
    request.onerror = () => reject(new TypeError('the upload broke off'))
    request.onload = () => {
      if (request.status === 200) resolve(request.response as { id: string })
      else reject(toError(request.status, request.response, request.getResponseHeader('x-request-id') ?? ''))
    }
    request.send(form)
  })
}

/** How long a key is good that is made for batches: longer than any of them may take. */
const keyLife = 7 * 86_400_000

/** Starts a batch with a file that is dropped or chosen. */
export function StartBatch({ onStarted }: { onStarted(id: string): void }) {
  const { t } = useI18n()
  const me = useMe()
  const toast = useToast()
  const client = useQueryClient()
  const input = useRef<HTMLInputElement>(null)
  const [chosen, setChosen] = useState<Chosen | null>(null)
  const [share, setShare] = useState<number | null>(null)
  const [isOver, setIsOver] = useState(false)
  const [key, setKey] = useState(gatewayKey)
  const needsKey = me?.securityEnabled === true && key === ''
  const makesKey = needsKey && me.permissions.includes('auth:key:manage')
  const choose = async (file: File | undefined) => {
    if (file === undefined) return
    start.reset()
    setChosen({ file, checked: checkLines(await file.slice(0, lookedAt).text(), file.size > lookedAt) })
  }
  const start = useMutation({
    mutationFn: async ({ file, checked }: Chosen): Promise<string> => {
      let used = key
      if (makesKey) {
        const made = (await data(api.POST('/api/auth/keys', { body: { id: `batches-${Date.now().toString(36)}`, expiresAt: new Date(Date.now() + keyLife).toISOString() } }))) as Key
        used = made.key ?? ''
        setKey(used)
        setGatewayKey(used)
      }
      setShare(0)
      const { id } = await upload(file, used, setShare)
      const reply = await fetch('/v1/batches', { method: 'POST', headers: { 'content-type': 'application/json', ...(used === '' ? {} : { authorization: `Bearer ${used}` }) }, body: JSON.stringify({ input_file_id: id, endpoint: checked.endpoint, completion_window: '24h' }) })
      const body = (await reply.json()) as { id: string }
      if (!reply.ok) throw toError(reply.status, body, reply.headers.get('x-request-id') ?? '')
      return body.id
    },
    onSuccess: async (id) => {
      setChosen(null)
      toast(t('batch.started', { id }))
      await client.invalidateQueries({ queryKey: batches.queryKey })
      onStarted(id)
    },
    onSettled: () => setShare(null),
  })
  const isReady = chosen !== null && chosen.checked.faults.length === 0 && chosen.checked.endpoint !== null && (!needsKey || makesKey)
  return (
    <div
      className={`panel drop mb-4 ${isOver ? 'over' : ''}`}
      onDragOver={(event) => {
        event.preventDefault()
        setIsOver(true)
      }}
      onDragLeave={() => setIsOver(false)}
      onDrop={(event) => {
        event.preventDefault()
        setIsOver(false)
        void choose(event.dataTransfer.files[0])
      }}
    >
      <div className="row flex-wrap">
        <Upload className="ic" aria-hidden />
        <span className="grow">{chosen === null ? t('batch.drop') : <code className="wrap">{chosen.file.name}</code>}</span>
        <input ref={input} type="file" accept=".jsonl,.ndjson,.txt,application/jsonl" className="sr-only" tabIndex={-1} aria-label={t('batch.choose')} onChange={(event) => void choose(event.target.files?.[0]).then(() => (event.target.value = ''))} />
        <button type="button" className={`btn ${chosen === null ? 'pri' : ''}`} disabled={start.isPending} onClick={() => input.current?.click()}>
          {t('batch.choose')}
        </button>
        {chosen !== null && (
          <button type="button" className="btn pri" disabled={!isReady || start.isPending} onClick={() => start.mutate(chosen)}>
            {share === null ? t('batch.start') : t('batch.uploading', { share: percent(share, 0) })}
          </button>
        )}
      </div>
      {chosen !== null && chosen.checked.faults.length === 0 && <p className="hint mt-1">{chosen.checked.lines === 0 ? t('batch.emptyFile') : t('batch.looksGood', { n: chosen.checked.lines, endpoint: chosen.checked.endpoint ?? '', models: chosen.checked.models.slice(0, 5).join(', ') })}</p>}
      {chosen !== null && chosen.checked.faults.length > 0 && (
        <div className="note bd mt-2" role="alert">
          <div>
            <b>{t('batch.faulty')}</b>
            {chosen.checked.faults.map(({ line, fault }) => (
              <div key={line}>{t('batch.faultAt', { line, fault: t(`batch.fault.${fault}`) })}</div>
            ))}
          </div>
        </div>
      )}
      {chosen !== null && makesKey && <p className="hint mt-1">{t('batch.makesKey')}</p>}
      {chosen !== null && needsKey && !makesKey && <SecretField label={t('pg.key')} hint={t('batch.wantsKey')} value={key} onChange={(value) => (setKey(value), setGatewayKey(value))} />}
      {start.error !== null && (
        <div className="mt-2">
          <ErrorNote error={start.error} />
        </div>
      )}
    </div>
  )
}
