import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '@/api/client'
import { process, processes } from '@/api/queries'
import type { Process } from '@/api/types'
import { useI18n } from '@/i18n'
import { ago, duration, stamp, text } from '@/lib/format'
import { useNow } from '@/live/context'
import { useDenied } from '@/shell/guard'
import { useToast } from '@/ui/feedback'
import { Name } from '@/ui/parts'
import { Hands } from './hands'

/** The model servers that the gateway runs on its own host. */
export function Processes() {
  const { t } = useI18n()
  const query = useQuery(processes)
  const [shown, setShown] = useState('')
  const all = query.data ?? []
  if (all.length === 0) return null
  const ready = all.filter((one) => one.state === 'ready').length
  return (
    <Hands title={t('processes.title')} sum={t('processes.sum', { ready, all: all.length })} heads={[t('processes.name'), t('common.state'), t('processes.since'), { label: t('processes.starts'), hint: t('processes.startsHint') }, { label: t('processes.took') }]}>
      {all.map((one) => (
        <Row key={one.name} process={one} isShown={shown === one.name} onShow={() => setShown(shown === one.name ? '' : one.name)} />
      ))}
    </Hands>
  )
}

function Row({ process: one, isShown, onShow }: { process: Process; isShown: boolean; onShow: () => void }) {
  const { t, locale, failure, said } = useI18n()
  const now = useNow()
  const toast = useToast()
  const client = useQueryClient()
  const denied = useDenied('process:manage')
  const change = useMutation({
    mutationFn: (what: 'start' | 'stop') => data(api.POST(`/api/processes/{name}/${what}`, { params: { path: { name: one.name } } }) as never),
    onError: (error) => toast(failure(error)),
    onSettled: () => client.invalidateQueries({ queryKey: ['processes'] }),
  })
  const runs = one.state === 'ready' || one.state === 'starting' || one.state === 'stopping'
  return (
    <>
      <tr>
        <td className="cut">
          <span className="where" title={one.baseUrl}>
            <Name className="font-medium">{one.name}</Name>
            {one.group !== undefined && <Name className="muted">{one.group}</Name>}
          </span>
        </td>
        <td className="cut" title={said(one.said, one.reason)}>
          {t(`processes.state.${one.state as 'ready'}`)}
          {one.waiting > 0 && t('models.waiting', { n: one.waiting })}
        </td>
        <td className="onlydesk" title={stamp(one.since, true)}>
          {ago(one.since, now, locale)}
        </td>
        <td className="num onlydesk">
          {one.starts}
          {one.restarts > 0 && <span className="muted block">{t('processes.again', { n: one.restarts })}</span>}
        </td>
        <td className="num onlydesk">{one.startTook === undefined ? <span className="muted">–</span> : text(duration(one.startTook))}</td>
        <td className="hand text-right">
          <button type="button" className="btn" title={denied} aria-expanded={isShown} disabled={denied !== undefined} onClick={onShow}>
            {t('processes.output')}
          </button>{' '}
          <button type="button" className="btn" title={denied} disabled={denied !== undefined || change.isPending || one.state === 'stopping'} onClick={() => change.mutate(runs ? 'stop' : 'start')}>
            {t(runs ? 'processes.stop' : 'processes.start')}
          </button>
        </td>
      </tr>
      {isShown && <Output name={one.name} reason={one.reason === undefined ? undefined : said(one.said, one.reason)} />}
    </>
  )
}

/** The last lines that a process wrote. */
function Output({ name, reason }: { name: string; reason: string | undefined }) {
  const { t } = useI18n()
  const query = useQuery(process(name))
  const lines = query.data?.output ?? []
  return (
    <tr>
      <td className="wide" colSpan={6}>
        {reason !== undefined && <p className="py-2 whitespace-normal break-words">{reason}</p>}
        <pre className="code fold my-2 max-h-[320px] overflow-auto" tabIndex={0} aria-label={t('processes.outputOf', { name })}>
          {lines.length === 0 ? t('processes.silent') : lines.map((line) => line.text).join('\n')}
        </pre>
      </td>
    </tr>
  )
}
