import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useDeferredValue, useMemo, useState } from 'react'
import { api, data, errorsAt, fieldErrors } from '@/api/client'
import { useEdit, useNextVersion } from '@/api/mutations'
import type { Instance, InstanceChanges, InstanceInput, Service, ServiceType, ShareChange } from '@/api/types'
import { useI18n } from '@/i18n'
import { addressOf } from '@/lib/address'
import { ago, host, percent, splitId } from '@/lib/format'
import { useNow } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { useDraft } from '@/shell/draft'
import { Guard, useDenied } from '@/shell/guard'
import { useLeaveGuard } from '@/shell/leave'
import { NotSaved } from '@/ui/conflict'
import { SecretField, TextField } from '@/ui/field'
import { FileText, FormViews, type FormView } from '@/ui/file-text'
import { Confirm, Drawer } from '@/ui/overlay'
import { Segments, Slider } from '@/ui/parts'
import { Details } from './details'
import { changes, inFile, label, secretFields, toForm, validate, type InstanceForm } from './form'
import { LeftWithout } from './last'
import { Provider } from './provider'
import { modelsWithout, servingRows, takenOut, useRows } from './rows'
import { Test } from './test'

/** Adds an instance, or edits the one that is given. */
export function InstanceDrawer({ service, value, stored, copied, version, onClose, onSaved }: {
  service: ServiceType
  value: Service | undefined
  /** The instance that is edited; null when one is added. */
  stored: Instance | null
  /** The instance whose values a new one begins with. */
  copied: Instance | null
  version: number
  onClose(): void
  onSaved(id: string): void
}) {
  const { t, said } = useI18n()
  const edit = useEdit()
  const [base, setBase] = useState({ version, stored })
  const { value: form, set: setForm, ...draft } = useDraft<InstanceForm>(stored === null ? `add ${service}` : `edit ${service}/${stored.instanceId}`, () => toForm(stored ?? copied), secretFields)
  const [touched, setTouched] = useState<Set<keyof InstanceForm>>(() => new Set(draft.isKept ? ['baseUrl'] : []))
  const [view, setView] = useState<FormView>('form')
  const next = useNextVersion(version)
  const part = useMemo(() => changes(form, base.stored), [form, base.stored])
  const dirty = Object.keys(part).length > 0 && (stored !== null || touched.size > 0)
  const local = validate(form)
  const remote = fieldErrors(edit.error, said)
  const shown = new Set<string>([...Object.keys(form), 'models'])
  const leave = useLeaveGuard(dirty, draft.drop)
  // What was saved, or changed elsewhere while nothing is typed, is what the form begins with.
  const [saved, setSaved] = useState<{ version: number; form: InstanceForm } | null>(null)
  if (stored !== null && base.version !== version && (saved === null ? !dirty && !edit.isPending && edit.error === null : version >= saved.version)) {
    setBase({ version, stored })
    // What was typed since then stays.
    if (saved === null || saved.form === form) {
      draft.reset(toForm(stored))
      setTouched(new Set())
    }
    setSaved(null)
  }

  const shownPart = part.apiKey === undefined ? part : { ...part, apiKey: '****' }
  usePageCalls(
    stored === null
      ? [{ method: 'POST', path: `/api/config/instance/add/${service}`, body: shownPart, version: base.version }]
      : [
          { method: 'PUT', path: `/api/config/instance/update/${service}`, body: { instanceId: stored.instanceId, instance: shownPart }, version: base.version },
          { method: 'POST', path: `/api/config/instance/test/${service}`, body: { instanceId: stored.instanceId } },
        ],
  )

  const set = <K extends keyof InstanceForm>(field: K, next: InstanceForm[K]) => {
    setForm((old) => ({ ...old, [field]: next }))
    setTouched((old) => new Set(old).add(field))
  }
  const error = (field: keyof InstanceForm) => {
    if (touched.has(field) && local[field] !== undefined) return t(local[field])
    return errorsAt(remote, field === 'patterns' ? 'models' : field === 'group' ? 'residency.group' : field)
  }
  const { rows, services } = useRows()
  const serving = servingRows(rows)
  const own = rows.find((row) => row.service === service && row.id === stored?.instanceId)
  const out = own === undefined ? [] : takenOut(own, part)
  const isLast = modelsWithout(serving, out, services).length > 0
  const [asks, setAsks] = useState(false)
  const save = (onVersion: number) => {
    const id = stored?.instanceId ?? form.name
    const called = form.serves === 'one' ? form.name : host(part.baseUrl ?? form.baseUrl)
    const done = edit.mutateAsync(
      stored === null
        ? {
            edit: value === undefined ? { kind: 'create', service, value: { instances: [part as InstanceInput] } } : { kind: 'add', service, instance: part as InstanceInput },
            version: onVersion,
            said: t('services.isAdded', { id: called }),
          }
        : { edit: { kind: 'update', service, id, instance: part }, version: onVersion, said: t('services.isSaved', { id: called }) },
    )
    // An instance with another name is another row, and this drawer may be gone by then: what
    // mutate calls back would be lost. What failed is shown as the error of the edit.
    void done.then(
      (change) => {
        leave.saved()
        setSaved({ version: change.version, form })
        onSaved(change.instanceId ?? id)
      },
      () => undefined,
    )
  }
  const title = stored === null ? t('services.wizardTitle') : form.serves === 'one' ? form.name : form.serves === 'all' ? t('services.allModels') : label(stored)
  return (
    <Drawer
      label={title}
      title={<code className="text-[13px]">{title}</code>}
      sub={
        <div className="muted mono text-[11px]">{stored === null ? service : `${service} · ${host(stored.baseUrl)}`}</div>
      }
      tools={<FormViews label={t('common.form')} value={view} onChange={setView} />}
      onClose={onClose}
      footer={
        <>
          <span className="muted grow text-[12px]">{dirty ? t('services.unsaved') : t('services.based', { n: base.version })}</span>
          <button type="button" className="btn" onClick={onClose}>
            {t('common.discard')}
          </button>
          <Guard needs="config:instance:write">
            <button type="button" className="btn pri" disabled={!dirty || edit.isPending || Object.keys(local).length > 0} onClick={() => (isLast ? setAsks(true) : save(base.version))}>
              {t(stored === null ? 'services.addAs' : 'services.saveAs', { n: next })}
            </button>
          </Guard>
        </>
      }
    >
      {leave.note}
      {asks && (
        <Confirm title={t('services.lastTitle', { model: stored === null ? title : label(stored) })} action={t('services.saveAs', { n: next })} onClose={() => setAsks(false)} onConfirm={() => Promise.resolve(save(base.version))}>
          <LeftWithout serving={serving} out={out} />
        </Confirm>
      )}
      {stored === null && <p className="soft mb-3">{t('services.wizardText')}</p>}
      <NotSaved
        error={edit.error}
        isAtField={Object.keys(remote).some((field) => shown.has(field.replace(/[.[].*$/, '')))}
        base={base.stored}
        theirs={stored}
        mine={part}
        from={base.version}
        to={version}
        onBase={() => setBase({ version, stored })}
        onKeep={() => save(version)}
        onTake={() => {
          draft.reset(toForm(stored))
          edit.reset()
        }}
      />
      {view === 'yaml' ? (
        <FileText value={{ services: { [service]: { instances: [inFile({ ...(stored ?? {}), ...part })] } } }} />
      ) : (
        <Guard needs="config:instance:write" say>
          {stored === null && <Provider form={form} onPick={(next) => (['baseUrl', 'adapter', 'path'] as const).forEach((field) => set(field, next[field]))} />}
          <TextField label={t('services.address')} name="baseUrl" mono inputMode="url" hint={t('services.addressHint')} value={form.baseUrl} error={error('baseUrl')} onChange={(next) => set('baseUrl', next)} onBlur={() => stored === null && setForm((old) => ({ ...old, baseUrl: addressOf(old.baseUrl) ?? old.baseUrl }))} placeholder="http://127.0.0.1:11434" autoFocus={stored === null} />
          <div className="f">
            <div className="flab">{t('services.serves')}</div>
            <Segments
              label={t('services.serves')}
              value={form.serves}
              options={(['one', 'all', 'some'] as const).map((value) => ({ value, label: t(`services.serves.${value}`) }))}
              onChange={(next) => set('serves', next)}
            />
            {form.serves === 'all' && <div className="hint">{t('services.allHint')}</div>}
          </div>
          {form.serves === 'one' && (
            <div className="two">
              <TextField label={t('services.modelName')} name="name" mono value={form.name} error={error('name')} onChange={(next) => set('name', next)} />
              <TextField label={t('services.upstream')} name="upstreamModel" mono value={form.upstreamModel} error={error('upstreamModel')} placeholder={t('services.same')} onChange={(next) => set('upstreamModel', next)} />
            </div>
          )}
          {form.serves === 'some' && <TextField label={t('services.patterns')} name="models" mono value={form.patterns} error={error('patterns')} hint={t('services.patternsHint')} placeholder="qwen*, llama3*" onChange={(next) => set('patterns', next)} />}
          {form.serves === 'all' && error('patterns') !== undefined && <div className="msg mb-3">{error('patterns')}</div>}
          {stored !== null && (stored.models ?? []).length > 0 && <Found service={service} name={stored.name || '*'} baseUrl={stored.baseUrl} />}
          <SecretField
            label={t('services.key')}
            name="apiKey"
            value={form.apiKey}
            error={error('apiKey')}
            placeholder={stored?.apiKey ? `••••••••${stored.apiKey.slice(-4)}` : ''}
            hint={stored?.apiKey ? t('services.keyKeep') : t('services.keyNone')}
            onChange={(next) => set('apiKey', next)}
          />
          <Weight {...{ service, form, stored, value, part }} valid={Object.keys(local).length === 0} error={error('weight')} onChange={(next) => set('weight', next)} />
          <Details form={form} set={set} error={error} inherited={value?.adapter ?? 'openai'} />
          {form.serves === 'one' && form.name.trim() !== '' && addressOf(form.baseUrl) !== null && <Test service={service} stored={stored} part={part} name={form.name.trim()} />}
        </Guard>
      )}
    </Drawer>
  )
}

/** The models that an instance has found at its backend, and when. */
function Found({ service, name, baseUrl }: { service: ServiceType; name: string; baseUrl: string }) {
  const { t, locale, said } = useI18n()
  const now = useNow(5000)
  const { data: info } = useQuery({
    queryKey: ['config', 'found', service, name, baseUrl],
    refetchInterval: 5000,
    queryFn: ({ signal }) => data(api.GET('/api/config/instance/info/{serviceType}', { params: { path: { serviceType: service }, query: { modelName: name, baseUrl } }, signal })),
  })
  const found = info?.found
  if (found == null) return null
  return (
    <div className="f">
      <div className="flab">
        {t('services.foundModels', { n: found.models.length })}
        {found.readAt !== null && <span className="opt">{t('services.foundAt', { ago: ago(found.readAt, now, locale) })}</span>}
      </div>
      {found.models.length > 0 && (
        <div className="row flex-wrap">
          {found.models.map((model) => (
            <code key={model} className="tag off">
              {model}
            </code>
          ))}
        </div>
      )}
      {found.error !== undefined && <div className="msg wrap">{said(found.said, found.error)}</div>}
    </div>
  )
}

/** The weight, and what it means: the shares that the gateway foretells in a dry run. */
function Weight({ service, form, stored, value, part, valid, error, onChange }: {
  service: ServiceType
  form: InstanceForm
  stored: Instance | null
  value: Service | undefined
  part: InstanceChanges
  /** Whether the gateway would take the form as far as it is known here. */
  valid: boolean
  error: string | undefined
  onChange(value: string): void
}) {
  const { t } = useI18n()
  const weight = Number(form.weight)
  const called = form.serves === 'one' ? form.name : host(form.baseUrl)
  const denied = useDenied('config:instance:write')
  const follows = value?.loadBalancer === 'least_connections'
  const own = stored?.instanceId
  const asked = useDeferredValue(own === undefined ? part : { weight })
  const query = { dryRun: true }
  const { data: change } = useQuery({
    queryKey: ['shares', 'foretold', service, own, asked],
    enabled: valid && !follows && form.serves === 'one' && value !== undefined && denied === undefined,
    placeholderData: keepPreviousData,
    retry: false,
    queryFn: ({ signal }) =>
      own === undefined
        ? data(api.POST('/api/config/instance/add/{serviceType}', { params: { path: { serviceType: service }, query }, body: asked as InstanceInput, signal }))
        : data(api.PUT('/api/config/instance/update/{serviceType}', { params: { path: { serviceType: service }, query }, body: { instanceId: own, instance: asked }, signal })),
  })
  const after = valid ? (change?.shares ?? []) : []
  const isOwn = (share: ShareChange) => share.instanceId === (own ?? change?.instanceId)
  const mine = after.find(isOwn)
  const none = after.filter((share) => share.after === 0 && !isOwn(share))
  return (
    <div className="f">
      <div className="flab">
        {t('common.weight')} <span className="opt">{t('services.weightHint')}</span>
      </div>
      <div className="row">
        <Slider label={t('common.weight')} disabled={denied !== undefined} value={Number.isFinite(weight) ? weight : 0} min={0} max={10} step={1} onChange={(next) => onChange(String(next))} />
        <div className={`inp w-[76px] flex-none ${error !== undefined ? 'err' : ''}`}>
          <input className="text-right" inputMode="decimal" aria-label={t('common.weight')} value={form.weight} onChange={(event) => onChange(event.target.value)} />
        </div>
      </div>
      {error !== undefined && <div className="msg">{error}</div>}
      {follows && <div className="hint">{t('services.sharesUnknown')}</div>}
      {after.length > 0 && (
        <>
          <div className="stack" aria-hidden="true">
            {after.map((share) =>
              share.after === 0 ? null : (
                <span key={share.instanceId} className={isOwn(share) ? 'me' : ''} style={{ width: `${share.after * 100}%` }}>
                  {isOwn(share) ? t('services.thisOne', { share: percent(share.after, 0) }) : percent(share.after, 0)}
                </span>
              ),
            )}
          </div>
          <div className="hint">
            {own !== undefined && mine !== undefined && mine.before !== mine.after
              ? t('services.shareAfter', { model: called, now: percent(mine.before, 0) })
              : t('services.shareNow', { model: called })}{' '}
            {none.length > 0 && t('services.getsNone', { hosts: none.map((share) => splitId(share.instanceId).host).join(', ') })}
          </div>
        </>
      )}
    </div>
  )
}
