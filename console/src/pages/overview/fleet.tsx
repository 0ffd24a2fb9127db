import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { fleet } from '@/api/queries'
import type { FleetModel } from '@/api/types'
import { useI18n } from '@/i18n'
import { duration, percent, shorten, splitId, text } from '@/lib/format'
import { sentences } from './fleet-words'

/** Whether the engines are used well that are balanced by the time to the first token. */
export function Fleet() {
  const { t } = useI18n()
  const { data } = useQuery(fleet)
  if (data === undefined || data.models.length === 0) return null
  return (
    <>
      <div className="h2">
        <h2>{t('fleet.title')}</h2>
        <span className="muted">{t('fleet.window', { n: Math.round(data.windowSeconds / 60) })}</span>
      </div>
      <div className="panel">
        {data.models
          .filter((model) => model.instances.length > 1) // there is nothing to choose among one
          .map((model) => (
            <p key={`${model.service} ${model.model}`} className="m-0 px-3 py-2">
              {sentences(t, shorten(model.model, 30), model.use)}
            </p>
          ))}
        <Engines models={data.models} />
      </div>
    </>
  )
}

function Engines({ models }: { models: readonly FleetModel[] }) {
  const { t } = useI18n()
  const rows = models
    .flatMap((model) => model.instances.map((instance) => ({ ...instance, model })))
    .filter(({ model, use, engine }) => model.instances.length > 1 || use.calls + engine.waiting + engine.decoding > 0 || engine.state !== 'unknown')
  return (
    <table className="tbl fx">
      <thead>
        <tr>
          <th>{t('common.instance')}</th>
          <th className="w-[110px] onlydesk">{t('fleet.state')}</th>
          <th className="num w-[90px]" title={t('fleet.queueHint')}>
            {t('fleet.queue')}
          </th>
          <th className="num w-[80px] onlydesk">{t('fleet.waiting')}</th>
          <th className="num w-[80px] onlydesk">{t('fleet.writing')}</th>
          <th className="num w-[100px]">{t('fleet.hits')}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ id, engine, model }) => (
          <tr key={`${model.service} ${id}`}>
            <td className="cut" title={id}>
              <Link to="/services" search={{ edit: `${model.service}/${id}` } as never}>
                <code>{shorten(model.model, 30)}</code>
              </Link>{' '}
              <code className="muted">{splitId(id).host}</code>
            </td>
            <td className="onlydesk">{t(`fleet.state.${engine.state}`)}</td>
            <td className="num">{engine.queueSeconds === 0 ? '0 s' : text(duration(engine.queueSeconds * 1000))}</td>
            <td className="num onlydesk">{engine.waiting + engine.others}</td>
            <td className="num onlydesk">{engine.decoding}</td>
            <td className="num">{percent(engine.hitRate, 0)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
