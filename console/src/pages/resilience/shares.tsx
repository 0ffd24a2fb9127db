import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Fragment, useMemo } from 'react'
import { config, shares } from '@/api/queries'
import type { Share } from '@/api/types'
import { useI18n } from '@/i18n'
import { host, percent, shorten } from '@/lib/format'
import { useLive } from '@/live/context'
import { ErrorNote } from '@/ui/feedback'
import { Bar, Name } from '@/ui/parts'
import { Gap, manyRows, useTableLines } from '@/ui/sight'
import { strategyLabel } from '../services/strategies'

/** Expected and actual shares of the models that have more than one instance. */
export function Shares() {
  const { t, said } = useI18n()
  const { snapshot } = useLive()
  const { data, error } = useQuery(shares)
  const services = useQuery(config).data?.services
  const states = useMemo(() => new Map((snapshot?.instances ?? []).map((instance) => [`${instance.service} ${instance.id}`, instance])), [snapshot])
  const lines = useMemo(() => sharedLines(data ?? []), [data])
  const { drawn, after, props } = useTableLines(lines, lines.length > manyRows)
  if (lines.length === 0) return error === null ? null : <ErrorNote error={error} title={t('error.load')} />
  return (
    <>
      <div className="h2">
        <h2>{t('res.shares')}</h2>
      </div>
      <div className="panel">
        <table className="tbl fx shr" {...props}>
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
            {drawn.map(({ key, kind, share, index, gap }) => {
              const state = states.get(key)
              return (
                <Fragment key={key}>
                  <Gap height={gap} columns={8} />
                  <tr data-id={key} className={kind === 'head' ? 'grouphead' : ''} aria-rowindex={index + 2}>
                    <td className="cut">
                      {kind === 'head' && (
                        <code className="font-medium" title={share.model}>
                          {shorten(share.model, 26)}
                        </code>
                      )}
                    </td>
                    <td className="cut">
                      <Link to="/services" search={{ edit: `${share.service}/${share.instanceId}` } as never}>
                        <Name>{host(share.backend)}</Name>
                      </Link>
                    </td>
                    <td className="num">{state?.weight ?? '–'}</td>
                    <td className="num" title={said(share.said, share.reason)}>
                      {percent(share.expectedShare, 0)}
                    </td>
                    <td className="num font-semibold">{percent(share.share, 0)}</td>
                    <td className="lo">
                      <Bar share={share.share ?? 0} />
                    </td>
                    <td className="num lo" title={said(state?.slots?.said, state?.slots?.why)}>
                      {state?.inFlight ?? '–'}
                      {state?.slots !== undefined && ` / ${state.slots.now}`}
                    </td>
                    <td className="lo soft">{kind === 'head' && strategyLabel(t, services?.[share.service]?.loadBalancer ?? '')}</td>
                  </tr>
                </Fragment>
              )
            })}
            <Gap height={after} columns={8} />
          </tbody>
        </table>
      </div>
    </>
  )
}

/** The instances of the models that have several; the first of a model has its name. */
function sharedLines(shares: readonly Share[]) {
  const models = new Map<string, Share[]>()
  for (const share of shares) {
    const key = `${share.service} ${share.model}`
    models.set(key, [...(models.get(key) ?? []), share])
  }
  return [...models.values()].filter((model) => model.length > 1).flatMap((model) => model.map((share, row) => ({ key: `${share.service} ${share.instanceId}`, kind: row === 0 ? ('head' as const) : ('row' as const), share })))
}
