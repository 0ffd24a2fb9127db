import { useMutation } from '@tanstack/react-query'
import { X } from 'lucide-react'
import { explainRequest } from '@/api/queries'
import type { Explain } from '@/api/types'
import { useI18n, type I18n, type Key } from '@/i18n'
import { duration, percent, splitId, text } from '@/lib/format'
import { useDenied } from '@/shell/guard'
import { ErrorNote } from '@/ui/feedback'
import { gatewayKey } from './call'

/** Who asks, with the role and the rule that gives it. */
function whoAsked({ askedBy: { name, role, rule } }: Explain, t: I18n['t']) {
  return [name, role, rule].filter((part) => part !== undefined && part !== '').join(t('common.comma'))
}

/** Whom the gateway takes the sender for: key, tenant, and what lets them in. */
function whoSends({ caller }: Explain, t: I18n['t']) {
  const status = caller?.status === undefined || caller.status === 'ACTIVE' ? undefined : t(`key.${caller.status}` as Key)
  return [caller?.keyId, caller?.user, caller?.tenant, caller?.rule, status].filter((part) => part !== undefined && part !== '').join(t('common.comma'))
}

/** Asks where a chat would go, without sending it, and shows what is expected of each instance. */
export function useWhere() {
  const { t, said } = useI18n()
  const denied = useDenied('config:instance:write')
  const asked = useMutation({ mutationFn: (request: object) => explainRequest('chat', request, gatewayKey()) })
  const button = (request: object, disabled: boolean) => (
    <button type="button" className="btn ghost onlydesk" title={denied} disabled={disabled || denied !== undefined || asked.isPending} onClick={() => asked.mutate(request)}>
      {t('pg.where')}
    </button>
  )
  const { data } = asked
  // Only least_time expects something of each instance; where nothing can be said of them, the sentence is all.
  const hasFigures = data?.candidates.some(({ estimate }) => estimate !== undefined && estimate !== null) ?? false
  const hasWords = data?.candidates.some(({ reason, slots }) => (reason ?? '') !== '' || slots !== undefined) ?? false
  // Where nobody has to say who they are, there is nobody to name.
  const who = data === undefined ? [] : [...(data.askedBy.name === 'open' ? [] : [t('pg.askedBy', { who: whoAsked(data, t) })]), ...(data.caller === undefined ? [] : [t('pg.caller', { who: whoSends(data, t) })])]
  const result = (
    <>
      {asked.error !== null && <ErrorNote error={asked.error} title={t('error.load')} />}
      {data !== undefined && (
        <div className="panel mb-2">
          <div className="row px-3 py-2">
            <span className="grow">
              {data.pick !== null && <code className="mr-2">{splitId(data.pick).host}</code>}
              {data.refusal != null ? said(data.refusal.said, data.refusal.message) : said(data.said, data.why)}
            </span>
            <button type="button" className="btn ghost icon" aria-label={t('common.close')} onClick={asked.reset}>
              <X className="ic s14" aria-hidden />
            </button>
          </div>
          {who.length > 0 && <p className="hint wrap px-3 pb-2">{who.join(' · ')}</p>}
          {(hasFigures || hasWords) && <table className="tbl">
            <thead>
              <tr>
                <th>{t('common.instance')}</th>
                {hasFigures && [t('common.firstToken'), t('fleet.queue'), t('pg.prefill'), t('fleet.hits')].map((head) => <th key={head} className="num">{head}</th>)}
              </tr>
            </thead>
            <tbody>
              {data.candidates.map(({ instanceId, reason, estimate, slots }) => (
                <tr key={instanceId} className={instanceId === data.pick ? 'font-medium' : ''}>
                  <td>
                    <code>{splitId(instanceId).host}</code> {instanceId === data.pick && <span className="pill ok">{t('pg.picked')}</span>} <span className="muted">{reason}</span>
                    {slots !== undefined && <div className="hint wrap">{slots}</div>}
                  </td>
                  {hasFigures && (
                    <>
                      <td className="num">{text(duration(estimate?.expectedMs))}</td>
                      <td className="num">{text(duration(estimate?.queueMs))}</td>
                      <td className="num">{text(duration(estimate?.prefillMs))}</td>
                      <td className="num">{percent(estimate?.matched, 0)}</td>
                    </>
                  )}
                </tr>
              ))}
            </tbody>
          </table>}
        </div>
      )}
    </>
  )
  return { button, result }
}
