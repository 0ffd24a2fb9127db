import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Zap } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { toError } from '@/api/client'
import { info } from '@/api/queries'
import type { DemoState } from '@/api/types'
import { useI18n } from '@/i18n'
import { splitId } from '@/lib/format'
import { useLive, useNow } from '@/live/context'
import { Guard, useDenied } from '@/shell/guard'
import { markStep } from '@/shell/steps'
import { ErrorNote } from '@/ui/feedback'
import { Select } from '@/ui/field'
import { Toggle } from '@/ui/parts'
import { FirstSteps } from './steps'

/** In the demo: traffic of its own, and a button that breaks an instance. */
export function DemoBar() {
  const { data: about } = useQuery(info)
  if (about === undefined) return null
  return about.demo ? <Bar /> : <FirstSteps demo={false} />
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
  const denied = useDenied('config:instance:write')
  const state = useQuery({ queryKey: ['demo'], refetchInterval: 5000, queryFn: ({ signal }): Promise<DemoState> => ask('/api/demo', undefined, signal) })
  const change = useMutation({
    mutationFn: (run: () => Promise<DemoState>) => run(),
    onSuccess: (next) => client.setQueryData(['demo'], next),
  })
  const ids = (snapshot?.instances ?? []).filter((instance) => instance.service === 'chat' && instance.enabled).map((instance) => instance.id)
  const [picked, setPicked] = useState('')
  const id = ids.includes(picked) ? picked : (ids[0] ?? '')
  // The state is asked for every few seconds; an end that has passed is known before.
  const fault = state.data?.faults.find((one) => one.instanceId === id && (!one.until || Date.parse(one.until) > now))
  const left = fault?.until ? Math.max(0, Math.ceil((Date.parse(fault.until) - now) / 1000)) : 0
  const set = (kind: 'down' | 'none') => change.mutate(() => ask('/api/demo/fault', { instanceId: id, fault: kind }), { onSuccess: () => markStep('break') })
  const button = useRef<HTMLButtonElement>(null)
  const [pointed, setPointed] = useState(false)
  useEffect(() => {
    if (!pointed) return
    const timer = setTimeout(() => setPointed(false), 2000)
    return () => clearTimeout(timer)
  }, [pointed])
  const pointAtButton = () => {
    button.current?.scrollIntoView({ block: 'nearest' })
    button.current?.focus({ preventScroll: true })
    setPointed(true)
  }
  const broken = (snapshot?.instances ?? []).find((instance) => instance.service === 'chat' && instance.id === id)
  // From the button to the moment at which the breaker is closed again, what is seen below is said here.
  const said = broken === undefined ? null : broken.breaker === 'OPEN' && !broken.forced ? (fault === undefined ? 'demo.isWell' : 'demo.isOpen') : broken.breaker === 'HALF_OPEN' ? 'demo.isHalf' : fault !== undefined ? 'demo.fails' : null
  const others = (snapshot?.instances ?? []).filter((instance) => instance.service === 'chat' && instance.model === broken?.model).length - 1
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
          <button ref={button} type="button" className={`btn breaks ${pointed ? 'pointed' : ''}`} title={denied ?? t('demo.breakHint')} disabled={id === '' || change.isPending} onClick={() => set('down')}>
            <Zap className="ic s14" aria-hidden />
            {t('demo.break')}
          </button>
        ) : (
          <button type="button" className="btn" disabled={change.isPending} onClick={() => set('none')}>
            {t('demo.mend', { n: left })}
          </button>
        )}
      </Guard>
      {/* The line is there before there is anything to say, so that nothing below it moves. */}
      <p className="said" role="status">
        {said === null || broken === undefined ? (
          <span className="muted">{t('demo.breakHint')}</span>
        ) : (
          <>
          {t(said, { id: splitId(id).host, n: broken.failureThreshold, failures: broken.failures, k: broken.successThreshold, successes: broken.successes })} {t(others > 0 ? 'demo.others' : 'demo.alone', { model: broken.model })}
          </>
        )}
      </p>
      <FirstSteps demo onBreak={pointAtButton} />
      {change.error !== null && <ErrorNote error={change.error} />}
    </div>
  )
}
