import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api, data } from '@/api/client'
import { useEdit } from '@/api/mutations'
import { residency } from '@/api/queries'
import type { Resident } from '@/api/types'
import { useI18n } from '@/i18n'
import { ago, bytes, duration, host, shorten, stamp, text } from '@/lib/format'
import { useNow } from '@/live/context'
import { useDenied } from '@/shell/guard'
import { useToast } from '@/ui/feedback'
import { Name } from '@/ui/parts'
import { Hands } from './hands'

/** The models that are loaded for requests and put to sleep, with a hand on each. */
export function Models() {
  const { t } = useI18n()
  const query = useQuery(residency)
  const all = query.data ?? []
  if (all.length === 0) return null
  const loaded = all.filter((model) => model.state === 'loaded').length
  return (
    <Hands title={t('models.title')} sum={t('models.sum', { loaded, all: all.length })} heads={[t('common.model'), t('fleet.state'), t('models.used'), { label: t('models.memory') }, { label: t('models.loads'), hint: t('models.loadsHint') }]}>
      {all.map((model) => (
        <Row key={`${model.host} ${model.model}`} model={model} />
      ))}
    </Hands>
  )
}

function Row({ model }: { model: Resident }) {
  const { t, locale, failure, said } = useI18n()
  const now = useNow()
  const toast = useToast()
  const client = useQueryClient()
  const edit = useEdit()
  const denied = useDenied('config:instance:write')
  const refresh = () => client.invalidateQueries({ queryKey: ['residency'] })
  const move = useMutation({
    mutationFn: (what: 'load' | 'sleep') => {
      const { serviceType, instanceId } = model.instances[0]!
      return data(api.POST(`/api/config/instance/${what}/{serviceType}`, { params: { path: { serviceType } }, body: { instanceId } }) as never)
    },
    onError: (error) => toast(failure(error)),
    onSettled: refresh,
  })
  const pin = async () => {
    for (const { serviceType, instanceId } of model.instances) {
      await edit.mutateAsync({ edit: { kind: 'update', service: serviceType, id: instanceId, instance: { pinned: !model.pinned } }, said: t(model.pinned ? 'models.unpinned' : 'models.pinnedSaid', { id: model.model }) })
    }
    await refresh()
  }
  const isOut = model.state !== 'loaded' && model.state !== 'loading'
  const off = denied !== undefined || move.isPending || model.instances.length === 0
  return (
    <tr>
      <td className="cut">
        <span className="where" title={`${model.model} ${model.host}`}>
          <Name className="font-medium">{shorten(model.model, 30)}</Name>
          <Name className="muted">{host(model.host)}</Name>
        </span>
      </td>
      <td className="cut wrap" title={[said(model.said, model.failure), model.lastLine].filter(Boolean).join(': ')}>
        {state(t, model)}
      </td>
      <td className="onlydesk">
        {model.inUse ? t('models.now') : (model.lastUsed ?? null) === null ? <span className="muted">–</span> : <span title={stamp(model.lastUsed!, true)}>{ago(model.lastUsed!, now, locale)}</span>}
      </td>
      <td className="num onlydesk">{model.bytes === undefined ? <span className="muted">–</span> : text(bytes(model.bytes))}</td>
      <td className="num onlydesk">
        {model.loads}
        {model.evictions > 0 && <span className="muted block">{t('models.left', { n: model.evictions })}</span>}
      </td>
      <td className="hand text-right">
        {isOut ? (
          <button type="button" className="btn" title={denied} disabled={off} onClick={() => move.mutate('load')}>
            {t('models.load')}
          </button>
        ) : (
          <button type="button" className="btn" title={denied} disabled={off || model.state === 'loading' || model.inUse || model.pinned} onClick={() => move.mutate('sleep')}>
            {t('models.sleep')}
          </button>
        )}{' '}
        <button type="button" className="btn" title={denied ?? t('models.pinHint')} aria-pressed={model.pinned} disabled={denied !== undefined || edit.isPending || model.instances.length === 0} onClick={() => void pin().catch((error: unknown) => toast(String(error)))}>
          {t(model.pinned ? 'models.unpin' : 'models.pin')}
        </button>
      </td>
    </tr>
  )
}

/** Where a model is, and how long that lasts. */
function state(t: ReturnType<typeof useI18n>['t'], model: Resident): string {
  let words = t(`fleet.state.${model.state}`)
  if (model.state === 'loading' && model.leftMs !== undefined) words = t('models.loadingMore', { time: text(duration(model.leftMs)) })
  if (model.waiting > 0) words += t('models.waiting', { n: model.waiting })
  if (model.pinned) words += t('models.isPinned')
  if (model.failure !== undefined && model.state !== 'loaded' && model.state !== 'failed') words += t('models.failed')
  return words
}
