import { useMutation } from '@tanstack/react-query'
import { KeyRound, SlidersHorizontal } from 'lucide-react'
import { Tabs } from 'radix-ui'
import { useCallback, useMemo, useRef, useState, type ReactNode } from 'react'
import { api, data } from '@/api/client'
import { serviceTypes, type Key, type ServiceType } from '@/api/types'
import { useI18n } from '@/i18n'
import { snippet, snippetLanguages, snippetNames, type SnippetLanguage, type SnippetRequest } from '@/lib/snippets'
import { oneOf } from '@/lib/url'
import { useLive } from '@/live/context'
import type { InstanceState } from '@/live/types'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { useMe } from '@/shell/session'
import { ErrorNote, useToast } from '@/ui/feedback'
import { SecretField, Select, SelectField } from '@/ui/field'
import { HealthGlyph } from '@/ui/glyphs'
import { CopyButton, Segments, Toggle, useChosenInSight } from '@/ui/parts'
import { canServe } from '@/ui/status'
import { Speech, Transcription } from './audio'
import { gatewayKey, setGatewayKey } from './call'
import { Chat } from './chat'
import type { Exchange } from './chat-state'
import { ImageEdit, ImageGeneration } from './images'
import { Embeddings, Rerank } from './vectors'

interface PanelProps {
  /** What the "copy as" box writes out. */
  request: SnippetRequest
  raw: Exchange[]
  parameters?: ReactNode
  children: ReactNode
}

export interface TabProps {
  model: string
  second: string
  /** Puts the tab's parts into the two columns of the page. */
  panel(props: PanelProps): ReactNode
}

const tabs: Record<ServiceType, (props: TabProps) => ReactNode> = {
  chat: Chat,
  embedding: Embeddings,
  rerank: Rerank,
  tts: Speech,
  stt: Transcription,
  imgGen: ImageGeneration,
  imgEdit: ImageEdit,
}

interface ModelChoice {
  name: string
  instances: InstanceState[]
}

const answers = (choice: ModelChoice) => choice.instances.some(canServe)

/** The first model that can answer, or the first at all. */
const firstOf = (models: readonly ModelChoice[]) => (models.find(answers) ?? models[0])?.name ?? ''

export default function Playground() {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const { snapshot } = useLive()
  const [phonePanel, setPhonePanel] = useState(false)
  usePageFact(t('pg.sum'))
  usePageCalls([{ path: '/v1/models' }, { path: `/api/route/explain?service=${oneOf(search.type, serviceTypes)}&model=${encodeURIComponent(search.model ?? '')}` }])
  const type = oneOf(search.type, serviceTypes)
  const models = useMemo(() => {
    const found = new Map<string, InstanceState[]>()
    for (const instance of snapshot?.instances ?? []) {
      if (instance.service === type) found.set(instance.model, [...(found.get(instance.model) ?? []), instance])
    }
    return [...found].map(([name, instances]): ModelChoice => ({ name, instances }))
  }, [snapshot, type])
  // A model that can answer is chosen, once: it stays the same when its instances become ill.
  const firsts = useRef(new Map<ServiceType, string>())
  const kept = firsts.current.get(type)
  const usual = models.some((choice) => choice.name === kept) ? kept! : firstOf(models)
  if (usual !== '') firsts.current.set(type, usual)
  const model = search.model !== undefined && (models.some((choice) => choice.name === search.model) || snapshot === null) ? search.model : usual
  const second = type === 'chat' ? (search.second ?? '') : ''
  const Tab = tabs[type]
  const kinds = useChosenInSight(type)

  const options = models.map((choice) => ({ value: choice.name, label: answers(choice) ? choice.name : t('pg.cannot', { model: choice.name }) }))
  const chosen = models.find((choice) => choice.name === model)
  const glyph = chosen === undefined ? null : (
    <span className={`pill ${answers(chosen) ? 'ok' : 'bd'}`}>
      <HealthGlyph state={answers(chosen) ? 'healthy' : 'unhealthy'} />
    </span>
  )
  const panel = useCallback(
    ({ request, raw, parameters, children }: PanelProps) => (
      <>
        <div className="left">
          {children}
        </div>
        <div className={`right ${phonePanel ? 'open' : ''}`}>
          {models.length === 0 ? (
            <p className="muted mb-3">{t('pg.noModel')}</p>
          ) : (
            <SelectField
              label={t('common.model')}
              extra={chosen !== undefined ? <span className="row">{glyph}{t('common.instances', { n: chosen.instances.length })}</span> : undefined}
              value={model}
              options={options}
              onChange={(value) => setSearch({ model: value })}
            />
          )}
          {type === 'chat' && models.length > 1 && (
            <>
              {second !== '' && <SelectField label={t('pg.secondModel')} value={second} options={options} onChange={(value) => setSearch({ second: value })} />}
              <div className="mb-3">
                <Toggle checked={second !== ''} onChange={(on) => setSearch({ second: on ? firstOf(models.filter((choice) => choice.name !== model)) : undefined })}>
                  {t('pg.compare')}
                </Toggle>
              </div>
            </>
          )}
          {parameters}
          <KeyField />
          <CopyAs request={request} language={oneOf(search.as, snippetLanguages)} onLanguage={(value) => setSearch({ as: value === 'curl' ? undefined : value })} />
          <Raw raw={raw} />
        </div>
      </>
    ),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the glyph and the options follow models and model
    [phonePanel, models, model, second, type, search.as, setSearch, t],
  )
  return (
    <Tabs.Root className="pg" value={type} onValueChange={(value) => setSearch({ type: value === 'chat' ? undefined : value, model: undefined, second: undefined })}>
      <Tabs.List ref={kinds} className="tabs pgtabs" aria-label={t('nav.playground')}>
        {serviceTypes.map((value) => (
          <Tabs.Trigger key={value} value={value}>
            {t(`pg.${value}`)}
          </Tabs.Trigger>
        ))}
      </Tabs.List>
      <div className="modelbar">
        {glyph}
        <span className="grow">
          <Select label={t('common.model')} quiet value={model} options={options} onChange={(value) => setSearch({ model: value })} />
        </span>
        <button type="button" className="btn" aria-expanded={phonePanel} onClick={() => setPhonePanel(!phonePanel)}>
          <SlidersHorizontal className="ic" aria-hidden />
          {t('pg.params')}
        </button>
      </div>
      <Tabs.Content value={type} className="pgbody" tabIndex={-1}>
        <Tab key={type} model={model} second={second} panel={panel} />
      </Tabs.Content>
    </Tabs.Root>
  )
}

function KeyField() {
  const { t } = useI18n()
  const me = useMe()
  const [key, setKey] = useState(gatewayKey)
  const toast = useToast()
  const make = useMutation({
    mutationFn: () => data(api.POST('/api/auth/keys', { body: { id: `playground-${Date.now().toString(36)}`, expiresAt: new Date(Date.now() + 86_400_000).toISOString() } })) as Promise<Key>,
    onSuccess: (made) => {
      setKey(made.key ?? '')
      setGatewayKey(made.key ?? '')
      toast(t('pg.keyMade'))
    },
  })
  const offers = me?.securityEnabled === true && key === '' && me.permissions.includes('auth:key:manage')
  return (
    <>
    <SecretField
      label={t(me?.securityEnabled === false ? 'pg.keyOptional' : 'pg.key')}
      hint={t(me?.securityEnabled === false ? 'pg.keyOptionalHint' : 'pg.keyHint')}
      value={key}
      onChange={(value) => {
        setKey(value)
        setGatewayKey(value)
      }}
    />
    {offers && (
      <button type="button" className="btn mb-3" disabled={make.isPending} onClick={() => make.mutate()}>
        <KeyRound className="ic s14" aria-hidden />
        {t('pg.makeKey')}
      </button>
    )}
    {make.error !== null && <ErrorNote error={make.error} />}
    </>
  )
}

function CopyAs({ request, language, onLanguage }: { request: SnippetRequest; language: SnippetLanguage; onLanguage(language: SnippetLanguage): void }) {
  const { t } = useI18n()
  const code = snippet(language, request)
  return (
    <div className="mb-3">
      <div className="sub">
        <span className="grow">{t('pg.copyAs')}</span>
        <Segments label={t('pg.copyAs')} value={language} options={snippetLanguages.map((value) => ({ value, label: snippetNames[value] }))} onChange={onLanguage} />
      </div>
      <pre className="code fold max-h-[220px] overflow-auto text-[11px]" tabIndex={0}>
        {code.length > 4000 ? `${code.slice(0, 4000)}…` : code}
      </pre>
      <div className="mt-2">
        <CopyButton text={code} label={t('common.copy')} small={false} />
      </div>
    </div>
  )
}

function Raw({ raw }: { raw: Exchange[] }) {
  const { t } = useI18n()
  const shown = raw.filter((exchange) => exchange !== undefined)
  if (shown.length === 0) return null
  return (
    <details className="raw">
      <summary className="soft cursor-pointer">{t('pg.raw')}</summary>
      {shown.map((exchange, index) => (
        <div key={index}>
          <div className="sub">{t('pg.request')}</div>
          <pre className="code fold max-h-[200px] overflow-auto">{JSON.stringify(exchange.request, null, 2).slice(0, 20_000)}</pre>
          <div className="sub">{t('pg.response')}</div>
          <pre className="code fold max-h-[200px] overflow-auto">{exchange.response.slice(0, 20_000)}</pre>
        </div>
      ))}
    </details>
  )
}
