import { useMutation } from '@tanstack/react-query'
import { Check, TriangleAlert } from 'lucide-react'
import { useEffect, useRef } from 'react'
import { api, data } from '@/api/client'
import type { Instance, InstanceChanges, InstanceInput, ServiceType, TestResult } from '@/api/types'
import { useI18n } from '@/i18n'
import { duration, text } from '@/lib/format'
import { markStep } from '@/shell/steps'
import { ErrorNote } from '@/ui/feedback'

/** A real minimal call to the backend, as it is saved or as it is typed. */
export function Test({ service, stored, part, name }: { service: ServiceType; stored: Instance | null; part: InstanceChanges; name: string }) {
  const { t, said } = useI18n()
  const abort = useRef<AbortController | null>(null)
  useEffect(() => () => abort.current?.abort(), [])
  const run = useMutation({
    mutationFn: (): Promise<TestResult> => {
      abort.current?.abort()
      abort.current = new AbortController()
      const typed = Object.keys(part).length === 0 ? {} : { instance: part as InstanceInput }
      const id = stored?.instanceId
      markStep('test')
      return data(api.POST('/api/config/instance/test/{serviceType}', { params: { path: { serviceType: service } }, body: { ...(id === undefined ? {} : { instanceId: id }), ...typed } as never, signal: abort.current.signal }))
    },
  })
  const result = run.data
  const stopped = abort.current?.signal.aborted === true
  return (
    <>
      <div className="sub">
        <span className="grow">{t('services.test')}</span>
        {run.isPending ? (
          <button type="button" className="btn sm" onClick={() => abort.current?.abort()}>
            {t('services.testStop')}
          </button>
        ) : (
          <button type="button" className="btn sm" onClick={() => run.mutate()}>
            {t('services.sendTest')}
          </button>
        )}
      </div>
      <div aria-live="polite">
        {run.isPending && <div className="note">{t('common.loading')}</div>}
        {run.error !== null && !stopped && <ErrorNote error={run.error} title={t('pg.failed')} retry={() => run.mutate()} />}
        {result !== undefined && result.ok && (
          <div className="note ok">
            <Check className="ic" aria-hidden />
            <div>
              <b>{t('services.testOk', { status: result.httpStatus ?? 200, time: text(duration(result.durationMs)) })}</b>{' '}
              {result.firstTokenMs != null && t('services.testFirst', { time: text(duration(result.firstTokenMs)) })}
              <div className="wrap mt-1">{result.reply}</div>
            </div>
          </div>
        )}
        {result !== undefined && !result.ok && (
          <div className="note bd" role="alert">
            <TriangleAlert className="ic" aria-hidden />
            <div>
              <b>{t('services.testBad', { cause: result.cause ?? result.errorCode ?? String(result.httpStatus ?? ''), time: text(duration(result.durationMs)) })}</b>
              <div className="wrap mt-1">
                {said(result.said, result.upstreamError)} {result.url !== undefined && <code>{result.url}</code>}
              </div>
            </div>
          </div>
        )}
        {!run.isPending && run.error === null && result === undefined && <div className="hint">{t('services.testHint', { model: name })}</div>}
      </div>
    </>
  )
}
