import { useMutation } from '@tanstack/react-query'
import { Search as SearchIcon } from 'lucide-react'
import { useState } from 'react'
import { api, data } from '@/api/client'
import { useEdit } from '@/api/mutations'
import type { Discovered, ServiceType } from '@/api/types'
import { useI18n } from '@/i18n'
import { ErrorNote } from '@/ui/feedback'

/** Asks a backend which models it has, and adds those that are chosen. */
export function Discover({ baseUrl, apiKey, adapter, version, onPick, onAll, onAdded }: {
  baseUrl: string
  apiKey: string
  adapter: string
  version: number
  onPick(model: string, adapter: string, upstream: string): void
  /** Serves all that the backend lists, now and later. */
  onAll(adapter: string): void
  onAdded(service: ServiceType, id: string): void
}) {
  const { t } = useI18n()
  const edit = useEdit()
  const [chosen, setChosen] = useState<Set<string>>(new Set())
  const ask = useMutation({
    mutationFn: (): Promise<Discovered> => data(api.POST('/api/config/discover', { body: { baseUrl, ...(apiKey === '' ? {} : { apiKey }), ...(adapter === '' ? {} : { adapter: adapter as never }) } })),
    onSuccess: () => setChosen(new Set()),
  })
  const found = ask.data
  const key = (model: { id: string; serviceType: string }) => `${model.serviceType} ${model.id}`
  const add = () => {
    const wanted = (found?.models ?? []).filter((model) => chosen.has(key(model)))
    const [first] = wanted
    if (first === undefined) return
    const instance = (model: { id: string; name?: string }) => ({ name: model.name ?? model.id, ...(model.name === undefined ? {} : { upstreamModel: model.id }), baseUrl, ...(apiKey === '' ? {} : { apiKey }), ...(found?.adapter ? { adapter: found.adapter as never } : {}) })
    edit.mutate(
      {
        edit: { kind: 'addAll', instances: wanted.map((model) => ({ serviceType: model.serviceType, instance: instance(model) })) },
        version,
        said: t('services.found.added', { n: wanted.length }),
      },
      { onSuccess: () => onAdded(first.serviceType, `${first.name ?? first.id}@${baseUrl.replace(/\/$/, '')}`) },
    )
  }
  return (
    <div className="mb-4">
      <button type="button" className="btn sm" disabled={baseUrl.trim() === '' || ask.isPending} onClick={() => ask.mutate()}>
        <SearchIcon className="ic s14" aria-hidden />
        {ask.isPending ? t('common.loading') : t('services.found.ask')}
      </button>
      <div aria-live="polite">
        {ask.error !== null && <ErrorNote error={ask.error} title={t('services.found.failed')} retry={() => ask.mutate()} />}
        {edit.error !== null && <ErrorNote error={edit.error} />}
        {found !== undefined && found.models.length === 0 && (
          <div className="note wn mt-2">
            <div>
              <b>{t('services.found.none')}</b>
              {found.errors.map((text) => (
                <div key={text} className="wrap">
                  {text}
                </div>
              ))}
            </div>
          </div>
        )}
        {found !== undefined && found.models.length > 0 && (
          <fieldset className="panel found mt-2">
            <legend className="sr-only">{t('services.found.models')}</legend>
            {found.models.map((model) => (
              <div key={key(model)} className="row">
                <label className="row grow">
                  <input
                    type="checkbox"
                    disabled={model.exists}
                    checked={chosen.has(key(model))}
                    onChange={(event) => {
                      const next = new Set(chosen)
                      if (event.target.checked) next.add(key(model))
                      else next.delete(key(model))
                      setChosen(next)
                    }}
                  />
                  <code className="trunc" title={model.id}>{model.name ?? model.id}</code>
                  <span className="muted">{model.serviceType}</span>
                  {model.exists && <span className="tag off">{t('services.found.exists')}</span>}
                </label>
                {!model.exists && (
                  <button type="button" className="btn ghost sm" onClick={() => onPick(model.name ?? model.id, found.adapter, model.name === undefined ? '' : model.id)}>
                    {t('services.found.fill')}
                  </button>
                )}
              </div>
            ))}
            <div className="row flex-wrap mt-2">
            <button type="button" className="btn sm" disabled={chosen.size === 0 || edit.isPending} onClick={add}>
              {t('services.found.add', { n: chosen.size })}
            </button>
              <button type="button" className="btn sm" onClick={() => onAll(found.adapter)}>
                {t('services.found.all')}
              </button>
            </div>
          </fieldset>
        )}
      </div>
    </div>
  )
}
