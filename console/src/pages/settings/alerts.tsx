import { useMutation, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { api, data } from '@/api/client'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { Guard } from '@/shell/guard'
import { ErrorNote } from '@/ui/feedback'
import { SecretField, SelectField, TextField } from '@/ui/field'
import { Toggle } from '@/ui/parts'
import { alertFormats, alertKinds, alertState, drafts, freeName, section, typedDuration, useSection, webhooksOf, type Draft } from './sections'

/** Webhooks that are told when something is wrong. */
export function Alerts() {
  const { t, failure } = useI18n()
  const query = useQuery(section('alerts'))
  const save = useSection('alerts')
  const [list, setList] = useState<Draft[]>([])
  const [quiet, setQuiet] = useState('')
  const [runCost, setRunCost] = useState('')
  const stored = query.data
  useEffect(() => {
    if (stored === undefined) return
    setList(drafts(stored.webhooks))
    setQuiet(typedDuration(stored.quiet))
    setRunCost(String(stored.runCost))
  }, [stored])
  if (query.error !== null) return <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />
  const isSame = stored !== undefined && quiet === typedDuration(stored.quiet) && runCost === String(stored.runCost) && JSON.stringify(list) === JSON.stringify(drafts(stored.webhooks))
  const change = (at: number, next: Partial<Draft>) => setList(list.map((one, n) => (n === at ? { ...one, ...next } : one)))
  return (
    <section id="alerts" aria-label={t('set.alerts')}>
      <div className="h2">
        <h2>{t('set.alerts')}</h2>
      </div>
      <div className="panel p-4">
        <Now />
        <Guard needs="config:settings:manage" say>
          <p className="hint mb-3">{t('set.alertsCost')}</p>
          <form
            onSubmit={(event) => {
              event.preventDefault()
              save.mutate({ webhooks: webhooksOf(list), quiet, runCost: runCost.trim() === '' ? 0 : runCost.trim() })
            }}
          >
            {list.map((one, at) => (
              <Hook key={one.was === '' ? `new ${at}` : one.was} value={one} onChange={(next) => change(at, next)} onRemove={() => setList(list.filter((_, n) => n !== at))} />
            ))}
            <div className="row mb-3">
              <button type="button" className="btn" disabled={stored === undefined} onClick={() => setList([...list, { name: freeName(list), was: '', url: '', format: 'slack', kinds: [] }])}>
                {t('set.addWebhook')}
              </button>
            </div>
            <div className="saverow">
              <TextField label={t('set.quiet')} hint={t('set.quietHint')} mono value={quiet} onChange={setQuiet} />
              <TextField label={t('set.runCost')} hint={t('set.runCostHint')} mono inputMode="decimal" value={runCost} onChange={setRunCost} />
              <button type="submit" className="btn pri" disabled={stored === undefined || isSame || save.isPending}>
                {t('common.save')}
              </button>
            </div>
            {save.error !== null && <div className="msg mt-1">{failure(save.error)}</div>}
          </form>
        </Guard>
      </div>
    </section>
  )
}

/** What is wrong now, and how alerts reach the webhooks. */
function Now() {
  const { t, said } = useI18n()
  const { data: state } = useQuery(alertState)
  if (state === undefined || (state.active.length === 0 && state.webhooks.length === 0)) return null
  return (
    <ul className="mb-3 grid gap-1">
      {state.active.map((one) => (
        <li key={`${one.kind} ${one.subject}`} className={one.severity === 'critical' ? 'bad' : 'warn'}>
          {said(one.said, one.text)}
        </li>
      ))}
      {state.webhooks.map((hook) => (
        <li key={hook.name} className="soft">
          <code>{hook.name}</code> {t('set.deliveries', { sent: hook.sent, failed: hook.failed + hook.dropped, last: hook.lastAt === null ? '–' : stamp(hook.lastAt) })}
        </li>
      ))}
    </ul>
  )
}

function Hook({ value, onChange, onRemove }: { value: Draft; onChange(next: Partial<Draft>): void; onRemove(): void }) {
  const { t, failure, said } = useI18n()
  const all = value.kinds.length === 0
  const test = useMutation({
    mutationFn: async () => data(api.POST('/api/config/alerts/test', { body: { webhook: value.was === '' ? value.name : value.was, url: value.url, format: value.format } })),
  })
  return (
    <fieldset className="mb-4 grid gap-2">
      <legend className="flab">{value.was === '' ? t('set.newWebhook') : value.was}</legend>
      <TextField label={t('set.webhookName')} mono value={value.name} disabled={value.was !== ''} onChange={(name) => onChange({ name })} />
      <SelectField label={t('set.format')} value={value.format} options={alertFormats.map((format) => ({ value: format, label: t(`set.format.${format}`) }))} onChange={(format) => onChange({ format })} />
      <SecretField label={t('set.webhookUrl')} hint={t('set.webhookUrlHint')} value={value.url} onChange={(url) => onChange({ url })} />
      <div className="flab">{t('set.kinds')}</div>
      <div className="row flex-wrap !gap-4">
        {alertKinds.map((kind) => (
          <Toggle
            key={kind}
            checked={all || value.kinds.includes(kind)}
            onChange={(on) => {
              const kinds = alertKinds.filter((other) => (other === kind ? on : all || value.kinds.includes(other)))
              onChange({ kinds: kinds.length === alertKinds.length ? [] : kinds })
            }}
          >
            {t(`set.kind.${kind}`)}
          </Toggle>
        ))}
      </div>
      <div className="row flex-wrap">
        <button type="button" className="btn" disabled={value.url === '' || test.isPending} onClick={() => test.mutate()}>
          {t('set.testWebhook')}
        </button>
        <button type="button" className="btn ghost" onClick={onRemove}>
          {t('common.remove')}
        </button>
        <span role="status" className={test.data?.delivered === true ? 'ok' : 'msg'}>
          {test.error !== null ? failure(test.error) : test.data === undefined ? '' : test.data.delivered ? t('set.testDelivered') : said(test.data.said, test.data.message ?? '')}
        </span>
      </div>
    </fieldset>
  )
}
