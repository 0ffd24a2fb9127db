import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { api, body } from '@/api/client'
import { captures, monitoringConfig, type MonitoringConfig } from '@/api/queries'
import { useI18n } from '@/i18n'
import { percent } from '@/lib/format'
import { Guard } from '@/shell/guard'
import { ErrorNote, useToast } from '@/ui/feedback'
import { TextArea, TextField } from '@/ui/field'
import { FileText, FormViews, type FormView } from '@/ui/file-text'
import { Segments, Toggle } from '@/ui/parts'

const categories = ['request', 'system', 'custom'] as const

const printTags = (tags: Record<string, string>) =>
  Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join('\n')

export function parseTags(text: string): Record<string, string> {
  const tags: Record<string, string> = {}
  for (const line of text.split('\n')) {
    const at = line.indexOf('=')
    if (at > 0) tags[line.slice(0, at).trim()] = line.slice(at + 1).trim()
  }
  return tags
}

/** The settings as the configuration file has them; the names of labels are people's own. */
function inFile(config: MonitoringConfig): object {
  return {
    monitoring: {
      enabled: config.enabled, prefix: config.prefix, 'collection-interval': config.collectionInterval, 'enabled-categories': config.enabledCategories,
      'custom-tags': config.customTags, sampling: config.sampling, capture: config.capture,
    },
  }
}

/** What is recorded of the traffic; each part is saved for itself. */
export function Monitoring() {
  const { t, failure } = useI18n()
  const toast = useToast()
  const client = useQueryClient()
  const [view, setView] = useState<FormView>('form')
  const query = useQuery(monitoringConfig)
  const stored = query.data
  const [prefix, setPrefix] = useState('')
  const [interval, setIntervalText] = useState('')
  const [tags, setTags] = useState('')
  useEffect(() => {
    if (stored === undefined) return
    setPrefix(stored.prefix)
    setIntervalText(stored.collectionInterval)
    setTags(printTags(stored.customTags))
  }, [stored])
  const change = useMutation({
    mutationFn: ({ run }: { run: () => Promise<unknown>; what: string; field: string }) => run(),
    onSuccess: async (_, { what }) => {
      await client.invalidateQueries({ queryKey: ['monitoring', 'config'] })
      toast(t('set.saved', { what }))
    },
  })
  const failed = (field: string) => (change.error !== null && change.variables?.field === field ? failure(change.error) : undefined)
  if (query.error !== null) return <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />
  const save = (field: string, what: string, run: () => Promise<unknown>) => change.mutate({ field, what, run })
  return (
    <>
      <div className="h2" id="monitoring">
        <h2>{t('set.monitoring')}</h2>
        <span className="grow" />
        <FormViews label={t('common.form')} value={view} onChange={setView} />
      </div>
      {view === 'yaml' && stored !== undefined && (
        <div className="panel p-4">
          <FileText hint={t('common.yamlKeep')} verbatim value={inFile(stored)} />
        </div>
      )}
      <div className="panel p-4" hidden={view === 'yaml'}>
        <Guard needs="monitoring:config:write" say>
          <div className="mb-4">
            <Toggle checked={stored?.enabled ?? false} onChange={(enabled) => save('enabled', t('set.monitoring'), () => body(api.PUT('/api/monitoring/config/enabled', { body: { enabled } }) as never))}>
              {t('set.enabled')}
            </Toggle>
          </div>
          <form
            className="saverow"
            onSubmit={(event) => {
              event.preventDefault()
              save('prefix', t('set.prefix'), () => body(api.PUT('/api/monitoring/config/prefix', { body: { prefix } }) as never))
            }}
          >
            <TextField label={t('set.prefix')} mono value={prefix} error={failed('prefix')} onChange={setPrefix} />
            <button type="submit" className="btn" disabled={prefix === stored?.prefix || change.isPending}>
              {t('common.save')}
            </button>
          </form>
          <form
            className="saverow"
            onSubmit={(event) => {
              event.preventDefault()
              save('interval', t('set.interval'), () => body(api.PUT('/api/monitoring/config/collection-interval', { body: { interval } }) as never))
            }}
          >
            <TextField label={t('set.interval')} mono value={interval} hint={t('set.intervalHint')} error={failed('interval')} onChange={setIntervalText} />
            <button type="submit" className="btn" disabled={interval === stored?.collectionInterval || change.isPending}>
              {t('common.save')}
            </button>
          </form>
          <form
            className="saverow"
            onSubmit={(event) => {
              event.preventDefault()
              save('tags', t('set.tags'), () => body(api.PUT('/api/monitoring/config/custom-tags', { body: { customTags: parseTags(tags) } }) as never))
            }}
          >
            <TextArea label={t('set.tags')} mono rows={2} value={tags} hint={t('set.tagsHint')} error={failed('tags')} onChange={setTags} />
            <button type="submit" className="btn" disabled={stored === undefined || tags === printTags(stored.customTags) || change.isPending}>
              {t('common.save')}
            </button>
          </form>
          <div className="flab mb-1">{t('set.categories')}</div>
          <div className="row flex-wrap !gap-4">
            {categories.map((category) => (
              <Toggle
                key={category}
                checked={stored?.enabledCategories.includes(category) ?? false}
                onChange={(on) =>
                  save('categories', t('set.categories'), () =>
                    body(api.PUT('/api/monitoring/config/categories', { body: { categories: categories.filter((other) => (other === category ? on : (stored?.enabledCategories.includes(other) ?? false))) } }) as never),
                  )
                }
              >
                <code>{category}</code>
              </Toggle>
            ))}
          </div>
          {failed('categories') !== undefined && <div className="msg mt-1">{failed('categories')}</div>}
          <dl className="dl mt-3">
            <dt>{t('set.sampling')}</dt>
            <dd>{stored?.sampling.enabled ? percent(stored.sampling.rate, 0) : t('common.off')}</dd>
          </dl>
        </Guard>
        <div className="flab mt-4 mb-1">{t('set.capture')}</div>
        <Guard needs="monitoring:content:manage" say>
          <Segments
            label={t('set.capture')}
            value={stored?.capture ?? 'none'}
            options={captures.map((value) => ({ value, label: t(`set.capture.${value}`) }))}
            onChange={(capture) => save('capture', t('set.capture'), () => body(api.PUT('/api/monitoring/config/capture', { body: { capture } }) as never))}
          />
        </Guard>
        <p className="hint mt-1">{t('set.captureHint')}</p>
        {failed('capture') !== undefined && <div className="msg mt-1">{failed('capture')}</div>}
      </div>
    </>
  )
}
