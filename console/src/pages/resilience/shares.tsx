import { useQueries } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { explain } from '@/api/queries'
import type { ServiceType } from '@/api/types'
import { useI18n } from '@/i18n'
import { percent, shorten } from '@/lib/format'
import { useLive, useStats } from '@/live/context'
import { Bar } from '@/ui/parts'
import { strategyNames } from '../services/strategies'

/** Expected and actual shares of the models that have more than one instance. */
export function Shares() {
  const { t } = useI18n()
  const { snapshot } = useLive()
  const stats = useStats('5m')
  const models = new Map<string, { service: ServiceType; model: string; ids: string[] }>()
  for (const instance of snapshot?.instances ?? []) {
    const key = `${instance.service} ${instance.model}`
    const found = models.get(key) ?? { service: instance.service, model: instance.model, ids: [] }
    found.ids.push(instance.id)
    models.set(key, found)
  }
  const shared = [...models.values()].filter((model) => model.ids.length > 1).slice(0, 20)
  const answers = useQueries({ queries: shared.map((model) => ({ ...explain(model.service, model.model), refetchInterval: 3000 })) })
  if (shared.length === 0) return null
  return (
    <>
      <div className="h2">
        <h2>{t('res.shares')}</h2>
      </div>
      <div className="panel">
        <table className="tbl fx shr">
          <thead>
            <tr>
              <th>{t('common.model')}</th>
              <th>{t('common.instance')}</th>
              <th className="num w-[80px]">{t('common.weight')}</th>
              <th className="num w-[90px]">{t('res.expected')}</th>
              <th className="num w-[170px]">{t('res.actual')}</th>
              <th className="lo w-[120px]">
                <span className="sr-only">{t('common.share')}</span>
              </th>
              <th className="num lo w-[90px]">{t('res.inFlight')}</th>
              <th className="lo w-[150px]">{t('res.strategy')}</th>
            </tr>
          </thead>
          <tbody>
            {shared.flatMap((model, index) => {
              const answer = answers[index]?.data
              const total = model.ids.reduce((sum, id) => sum + (stats.instances.get(`${model.service} ${id}`)?.requests ?? 0), 0)
              return model.ids.map((id, row) => {
                const candidate = answer?.candidates.find((one) => one.instanceId === id)
                const actual = total === 0 ? null : (stats.instances.get(`${model.service} ${id}`)?.requests ?? 0) / total
                const state = snapshot?.instances.find((instance) => instance.id === id && instance.service === model.service)
                return (
                  <tr key={`${model.service} ${id}`}>
                    <td className="cut">
                      {row === 0 && (
                        <code className="font-medium" title={model.model}>
                          {shorten(model.model, 26)}
                        </code>
                      )}
                    </td>
                    <td className="cut">
                      <Link to="/services" search={{ edit: `${model.service}/${id}` } as never}>
                        <code>{state?.host ?? id}</code>
                      </Link>
                    </td>
                    <td className="num">{state?.weight ?? '–'}</td>
                    <td className="num">{percent(candidate?.chance ?? null, 0)}</td>
                    <td className="num font-semibold">{percent(actual, 0)}</td>
                    <td className="lo">
                      <Bar share={actual ?? 0} />
                    </td>
                    <td className="num lo">{state?.inFlight ?? '–'}</td>
                    <td className="lo soft">{row === 0 && t(strategyNames[answer?.strategy ?? ''] ?? 'services.roundRobin')}</td>
                  </tr>
                )
              })
            })}
          </tbody>
        </table>
      </div>
    </>
  )
}
