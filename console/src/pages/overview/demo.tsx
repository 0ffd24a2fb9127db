import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { toError } from '@/api/client'
import { info } from '@/api/queries'
import type { DemoState } from '@/api/types'
import { useI18n } from '@/i18n'
import { useLive, useNow } from '@/live/context'
import { Guard } from '@/shell/guard'
import { ErrorNote } from '@/ui/feedback'
import { Select } from '@/ui/field'
import { Toggle } from '@/ui/parts'

/** In the demo: traffic of its own, and a button that breaks an instance. */
export function DemoBar() {
  const { data: about } = useQuery(info)
  return about?.demo === true ? <Bar /> : null
}

async function ask(path: string, body?: object, signal?: AbortSignal): Promise<DemoState> {
  const reply = await fetch(path, body === undefined ? { signal } : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal })
  const value = (await reply.json()) as { data: DemoState }
  if (!reply.ok) throw toError(reply.status, value, reply.headers.get('x-request-id') ?? '')
  return value.data
}

function Bar() {
  const { t } = useI18n()
  const client = useQueryClient()
  const { snapshot } = useLive()
  const now = useNow()
  const state = useQuery({ queryKey: ['demo'], refetchInterval: 5000, queryFn: ({ signal }): Promise<DemoState> => ask('/api/demo', undefined, signal) })
  const change = useMutation({
    mutationFn: (run: () => Promise<DemoState>) => run(),
    onSuccess: (next) => client.setQueryData(['demo'], next),
  })
  const ids = (snapshot?.instances ?? []).filter((instance) => instance.service === 'chat' && instance.enabled).map((instance) => instance.id)
  const [picked, setPicked] = useState('')
  const id = ids.includes(picked) ? picked : (ids[0] ?? '')
  const fault = state.data?.faults.find((one) => one.instanceId === id)
  const left = fault?.until ? Math.max(0, Math.ceil((Date.parse(fault.until) - now) / 1000)) : 0
  const set = (kind: 'down' | 'none') => change.mutate(() => ask('/api/demo/fault', { instanceId: id, fault: kind }))
  return (
    <div className="panel demobar">
      <Guard needs="config:instance:write">
        <b>{t('demo.title')}</b>
        <Toggle checked={state.data?.traffic ?? false} onChange={(enabled) => change.mutate(() => ask('/api/demo/traffic', { enabled }))}>
          {t('demo.traffic')}
        </Toggle>
        <span className="grow" />
        <Select label={t('demo.instance')} value={id} options={ids.map((value) => ({ value, label: value.replace(/@https?:\/\//, ' · ') }))} onChange={setPicked} />
        {fault === undefined ? (
          <button type="button" className="btn danger" disabled={id === '' || change.isPending} onClick={() => set('down')}>
            {t('demo.break')}
          </button>
        ) : (
          <button type="button" className="btn" disabled={change.isPending} onClick={() => set('none')}>
            {t('demo.mend', { n: left })}
          </button>
        )}
      </Guard>
      {change.error !== null && <ErrorNote error={change.error} />}
    </div>
  )
}
