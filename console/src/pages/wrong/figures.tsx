import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { figures } from '@/api/queries'
import type { Figure } from '@/api/types'
import { useI18n } from '@/i18n'
import { digits, duration, missing, splitId, text } from '@/lib/format'
import { few, share, shown, timed, type Timed } from '@/live/figures'
import type { Range } from '@/live/series'
import { Name } from '@/ui/parts'
import type { HistoryOf } from './charts'

/** How fast an object is, beside what it consists of: a model its instances, a host its instances, an instance its peers. */
export function Figures({ of, range }: { of: HistoryOf; range: Range }) {
  const { t, said } = useI18n()
  const isKnown = of.by !== 'tenant'
  const narrow: Record<string, string> = of.by === 'host' ? { host: of.host } : of.by === 'model' ? { service: of.service, model: of.model } : of.by === 'instance' ? { service: of.service, model: splitId(of.instanceId).model } : {}
  // An instance has no more than its peers: the second question is the same as the first.
  const { data: whole } = useQuery({ ...figures({ by: of.by, range, ...narrow }), enabled: isKnown })
  const { data } = useQuery({ ...figures({ by: 'instance', range, ...narrow }), enabled: isKnown })
  const rows = [...(of.by === 'instance' ? [] : (whole?.figures ?? [])), ...(data?.figures ?? [])].filter((one) => one.latency != null)
  const isOwn = (one: Figure) => of.by !== 'instance' || one.instanceId === of.instanceId
  const slow = (data?.slow ?? []).filter((one) => (of.by === 'host' ? one.host === of.host : of.by === 'model' ? one.model === of.model && one.service === of.service : of.by === 'instance' && one.instanceId === of.instanceId && one.service === of.service))
  if (rows.length === 0) return null
  const hasEngine = rows.some((one) => one.engine != null)
  return (
    <section aria-label={t('figures.title')}>
      <div className="h2">
        <h2>{t('figures.title')}</h2>
        <span className="muted trunc" title={t('figures.about')}>{t('figures.about')}</span>
      </div>
      {slow.map((one) => (
        <p key={`${one.service} ${one.instanceId}`} className="warn">
          {said(one.said, one.text)}
        </p>
      ))}
      <div className="panel tw" tabIndex={0} role="group" aria-label={t('figures.title')}>
        <table className="tbl fig">
          <thead>
            <tr>
              <th>{t(of.by === 'host' ? 'common.model' : 'figures.who')}</th>
              {timed.map((name) => <th key={name} className="num">{t(`figures.${name}`)}</th>)}
              <th className="num">{t('figures.prompt')}</th>
              <th className="num">{t('figures.cached')}</th>
              {hasEngine && <th className="num">{t('figures.queue')}</th>}
              {hasEngine && <th className="num">{t('figures.saved')}</th>}
            </tr>
          </thead>
          <tbody>
            {rows.map((one) => (
              <tr key={`${one.service} ${one.instanceId ?? ''} ${one.model ?? ''} ${one.host ?? ''}`} className={of.by === 'instance' && isOwn(one) ? 'sel' : ''}>
                <td>
                  {one.instanceId === undefined ? (
                    <b>{of.by === 'host' ? `${t('figures.all')} · ${t(`pg.${one.service}`)}` : t('figures.all')}</b>
                  ) : (
                    <Link title={one.instanceId} to="/instance" search={{ service: one.service, id: one.instanceId } as never}><Name>{(of.by === 'host' ? one.model : one.host) ?? one.instanceId}</Name></Link>
                  )}
                </td>
                {timed.map((name) => <Cell key={name} of={one} name={name} />)}
                <td className="num" data-of={t('figures.prompt')}>{one.promptTokens === null ? missing : digits(one.promptTokens)}</td>
                <td className="num" data-of={t('figures.cached')}>{share(one.cachedShare)}</td>
                {hasEngine && <td className="num" data-of={t('figures.queue')}>{one.engine == null ? missing : text(duration(one.engine.queueSeconds * 1000))}</td>}
                {hasEngine && <td className="num" data-of={t('figures.saved')}>{share(one.engine?.prefillSavedShare)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}

function Cell({ of, name }: { of: Figure; name: Timed }) {
  const { t } = useI18n()
  const figure = shown(of, name)
  const label = t(`figures.${name}`)
  if (figure === null) return <td className="num muted" data-of={label}>{missing}</td>
  return (
    <td className="num" data-of={label} title={t('figures.measured', { n: figure.n })}>
      <span>
        {figure.p50} · {figure.p95} · {figure.p99} <span className={figure.n < few ? 'warn' : 'muted'}>{t('figures.n', { n: figure.n })}</span>
      </span>
    </td>
  )
}
