import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { errorsAt, fieldErrors } from '@/api/client'
import { useEdit, useNextVersion } from '@/api/mutations'
import { providers } from '@/api/queries'
import type { ServiceType } from '@/api/types'
import { useI18n } from '@/i18n'
import { addressesOf } from '@/lib/address'
import { host } from '@/lib/format'
import { usePageCalls } from '@/shell/api-calls'
import { useDraft } from '@/shell/draft'
import { Guard } from '@/shell/guard'
import { useLeaveGuard } from '@/shell/leave'
import { ErrorNote } from '@/ui/feedback'
import { SecretField, TextField } from '@/ui/field'
import { Drawer } from '@/ui/overlay'
import { Toggle } from '@/ui/parts'
import { addable, ask, instancesOf, isOfAddress, keyOf, nameOf, typesOf, type Backend } from './backend'
import { Details } from './details'
import { providerOf, secretFields, toForm, validate, type InstanceForm } from './form'
import { Provider } from './provider'

/** What is chosen of a backend that has told what it has. */
interface Choice {
  backend: Backend
  chosen: ReadonlySet<string>
  /** Whether what it lists later is served as well. */
  isLater: boolean
  /** Whether its models are loaded for requests and put to sleep. */
  residency: boolean
}

/** Adds a backend by its address: one button finds out what it is and has, and adds all of it. */
export function AddBackend({ version, onClose, onHand }: { version: number; onClose(): void; /** Goes to the form in which one model is written down. */ onHand(): void }) {
  const { t, said } = useI18n()
  const edit = useEdit()
  const next = useNextVersion(version)
  const { value: form, set: setForm, ...draft } = useDraft<InstanceForm>('backend', () => toForm(null), secretFields)
  const [choice, setChoice] = useState<Choice | null>(null)
  const [added, setAdded] = useState<{ service: ServiceType; model: string; n: number; version: number } | null>(null)
  const abort = useRef<AbortController | null>(null)
  useEffect(() => () => abort.current?.abort(), [])
  const { data: known = [] } = useQuery(providers)
  const provider = providerOf(known, form)
  const addresses = provider === undefined ? addressesOf(form.baseUrl) : [provider.baseUrl]
  const dirty = added === null && form.baseUrl.trim() !== ''
  const leave = useLeaveGuard(dirty, draft.drop)
  const find = useMutation({
    mutationFn: () => {
      abort.current?.abort()
      abort.current = new AbortController()
      return ask(addresses, form, abort.current.signal)
    },
    onSuccess: (backend) => {
      abort.current?.abort() // the other addresses
      setChoice(backend.models.length === 0 ? null : { backend, chosen: new Set(addable(backend).map(keyOf)), isLater: false, residency: backend.loads })
    },
  })
  const set = <K extends keyof InstanceForm>(field: K, value: InstanceForm[K]) => {
    setForm((old) => ({ ...old, [field]: value }))
    if (field === 'baseUrl' || field === 'apiKey' || field === 'adapter') {
      setChoice(null)
      find.reset()
    }
    edit.reset()
  }
  // The model has no name here; every other fault of the form is shown at its field.
  const local = { ...validate(form), name: undefined, baseUrl: undefined }
  const isFaulty = Object.values(local).some((fault) => fault !== undefined)
  const remote = { ...fieldErrors(find.error, said), ...fieldErrors(edit.error, said) }
  const error = (field: keyof InstanceForm) => (local[field] === undefined ? errorsAt(remote, field === 'group' ? 'residency.group' : field) : t(local[field]))
  const instances = choice === null ? [] : instancesOf(choice.backend, form, choice.chosen, choice.isLater)
  usePageCalls(choice === null ? [{ method: 'POST', path: '/api/config/discover', body: { baseUrl: addresses[0] ?? '' } }] : [{ method: 'POST', path: '/api/config/instance/add', body: { instances: instances.map(({ instance, ...rest }) => ({ ...rest, instance: { ...instance, ...(instance.apiKey === undefined ? {} : { apiKey: '****' }) } })), residency: choice.residency }, version }])
  const add = ({ backend, residency }: Choice) =>
    edit.mutate(
      { edit: { kind: 'addAll', instances, residency }, version, said: t('services.isAdded', { id: host(backend.baseUrl) }) },
      {
        onSuccess: (change) => {
          leave.saved()
          const [first] = instances
          const model = backend.models.find((one) => one.serviceType === first?.serviceType && (first.instance.name === undefined || first.instance.name === nameOf(one)))
          setAdded({ service: first?.serviceType ?? 'chat', model: model === undefined ? '' : nameOf(model), n: instances.length, version: change.version })
          draft.reset(toForm(null))
        },
      },
    )
  const isReady = choice === null ? addresses.length > 0 : instances.length > 0
  const submit = () => {
    if (!isReady || find.isPending || edit.isPending || isFaulty) return
    if (choice === null) find.mutate()
    else add(choice)
  }
  const found = find.data
  const title = t('services.wizardTitle')
  if (added !== null) {
    return (
      <Drawer label={title} title={title} onClose={onClose} footer={<><span className="grow" /><button type="button" className="btn" onClick={onClose}>{t('common.close')}</button></>}>
        <div className="note ok" role="status">
          <Check className="ic" aria-hidden />
          <div>
            <b>{t('services.added.title', { n: added.version })}</b>
            <div className="mb-2">{t('services.added.text')}</div>
            <div className="acts">
              <Link className="btn pri" to="/playground" search={{ type: added.service === 'chat' ? undefined : added.service, model: added.model } as never} ref={(node: HTMLAnchorElement | null) => node?.focus()}>
                {t('services.added.try', { model: added.model })}
              </Link>
            </div>
          </div>
        </div>
      </Drawer>
    )
  }
  return (
    <Drawer
      label={title}
      title={title}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <button type="button" className="btn" onClick={onClose}>
            {t(dirty ? 'common.discard' : 'common.close')}
          </button>
          <Guard needs="config:instance:write">
            <button type="submit" form="backend-form" className="btn pri" disabled={!isReady || find.isPending || edit.isPending || isFaulty}>
              {find.isPending ? t('common.loading') : choice === null ? t('services.found.ask') : choice.isLater ? t('services.addAs', { n: next }) : t('services.found.addAs', { n: instances.length, version: next })}
            </button>
          </Guard>
        </>
      }
    >
      {leave.note}
      <Guard needs="config:instance:write" say>
        <form
          id="backend-form"
          onSubmit={(event) => {
            event.preventDefault()
            submit()
          }}
        >
          <TextField
            label={t('services.address')}
            mono
            autoFocus
            inputMode="url"
            hint={t('services.anyAddress')}
            value={form.baseUrl}
            error={form.baseUrl.trim() !== '' && addresses.length === 0 && find.isIdle ? t('services.invalidAddress') : isOfAddress(find.error) ? errorsAt(remote, 'baseUrl') : undefined}
            onChange={(value) => set('baseUrl', value)}
            placeholder="127.0.0.1:11434"
          />
          <Provider form={form} onPick={(next) => (['baseUrl', 'adapter', 'path'] as const).forEach((field) => set(field, next[field]))} />
          <SecretField label={t('services.key')} name="apiKey" value={form.apiKey} error={error('apiKey')} hint={t('services.keyHosted')} onChange={(value) => set('apiKey', value)} />
          <div aria-live="polite">
            {find.error !== null && !isOfAddress(find.error) && <ErrorNote error={find.error} title={t('services.found.failed')} retry={() => find.mutate()} />}
            {edit.error !== null && <ErrorNote error={edit.error} />}
            {found !== undefined && found.models.length === 0 && (
              <div className="note wn mb-3">
                <div>
                  <b>{t('services.found.none')}</b>
                  <div className="wrap">{said(found.said, found.errors.join('; '))}</div>
                </div>
              </div>
            )}
            {choice !== null && <Chosen choice={choice} onChange={setChoice} />}
          </div>
          <details className="more mb-4">
            <summary>{t('services.detailsFold')}</summary>
            <TextField label={t('common.weight')} name="weight" inputMode="decimal" hint={t('services.weightHint')} value={form.weight} error={error('weight')} onChange={(value) => set('weight', value)} />
            <Details form={form} set={set} error={error} inherited={choice?.backend.adapter ?? t('services.foundOut')} />
          </details>
          <button type="button" className="btn ghost sm" onClick={onHand}>
            {t('services.byHand')}
          </button>
          <button type="submit" className="sr-only" tabIndex={-1} aria-hidden="true" disabled={!isReady} />
        </form>
      </Guard>
    </Drawer>
  )
}

/** What the backend is and has, all of it chosen. */
function Chosen({ choice, onChange }: { choice: Choice; onChange(choice: Choice): void }) {
  const { t } = useI18n()
  const { backend, chosen, isLater } = choice
  const types = typesOf(backend.models)
  return (
    <>
      <div className="note ok mb-3">
        <Check className="ic" aria-hidden />
        <div className="wrap">
          <b>{t('services.found.is', { adapter: backend.adapter })}</b> <code>{backend.baseUrl}</code>
          <div>{types.map((type) => t('services.found.of', { n: backend.models.filter((model) => model.serviceType === type).length, type: t(`pg.${type}`) })).join(t('common.comma'))}</div>
        </div>
      </div>
      <fieldset className="panel found mb-3">
        <legend className="sr-only">{t('services.found.models')}</legend>
        {backend.models.map((model) => (
          <label key={keyOf(model)} className="row">
            <input
              type="checkbox"
              disabled={isLater || model.exists}
              checked={isLater || chosen.has(keyOf(model))}
              onChange={(event) => {
                const next = new Set(chosen)
                if (event.target.checked) next.add(keyOf(model))
                else next.delete(keyOf(model))
                onChange({ ...choice, chosen: next })
              }}
            />
            <code className="trunc" title={model.id}>{nameOf(model)}</code>
            <span className="muted">{model.serviceType}</span>
            {model.exists && <span className="tag off">{t('services.found.exists')}</span>}
          </label>
        ))}
      </fieldset>
      <div className="mb-3">
        <Toggle checked={isLater} onChange={(next) => onChange({ ...choice, isLater: next })}>
          {t('services.found.later')}
        </Toggle>
      </div>
      {backend.loads && (
        <div className="mb-4">
          <Toggle checked={choice.residency} onChange={(next) => onChange({ ...choice, residency: next })}>
            {t('services.found.residency')}
          </Toggle>
        </div>
      )}
    </>
  )
}
