import { priorities } from '@/api/types'
import { useI18n } from '@/i18n'
import { duration, shorten, text } from '@/lib/format'
import { useLive } from '@/live/context'

/** The models for which requests wait: how many of each priority, and how long a new one would. */
export function Queues() {
  const { t } = useI18n()
  const { snapshot } = useLive()
  const queues = snapshot?.queues?.slice(0, 20) ?? []
  if (queues.length === 0) return null
  return (
    <>
      <div className="h2">
        <h2>{t('res.queues')}</h2>
      </div>
      <div className="panel">
        <table className="tbl">
          <thead>
            <tr>
              <th>{t('common.model')}</th>
              {priorities.map((name) => (
                <th key={name} className="num" title={t('res.queuesHint')}>
                  {t(`common.${name}`)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {queues.map((queue) => (
              <tr key={`${queue.service} ${queue.model}`}>
                <td>
                  <code className="font-medium" title={queue.model}>
                    {shorten(queue.model, 26)}
                  </code>
                </td>
                {priorities.map((name) => (
                  <td key={name} className="num">
                    {queue.waiting[name]}
                    {queue.expected[name] > 0 && <span className="muted"> · {text(duration(queue.expected[name]))}</span>}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
