import type { InstanceInput } from '@/api/types'
import { useI18n } from '@/i18n'
import { SelectField, TextArea, TextField } from '@/ui/field'
import { Toggle } from '@/ui/parts'
import type { InstanceForm } from './form'

// Every name that the gateway knows for an adapter, in the order of the list; those that
// are other names of the same are not offered. The compiler wants each of them.
const adapterNames: Record<NonNullable<InstanceInput['adapter']>, 'offered' | 'alias'> = {
  '': 'offered',
  openai: 'offered',
  ollama: 'offered',
  vllm: 'offered',
  sglang: 'offered',
  llamacpp: 'offered',
  llamaswap: 'offered',
  whispercpp: 'offered',
  localai: 'offered',
  xinference: 'offered',
  gpustack: 'offered',
  tei: 'offered',
  anthropic: 'offered',
  gemini: 'offered',
  azure: 'offered',
  cohere: 'offered',
  jina: 'offered',
  normal: 'alias',
  'azure-openai': 'alias',
  'llama.cpp': 'alias',
  'llama-server': 'alias',
  'whisper.cpp': 'alias',
  'whisper-server': 'alias',
  claude: 'alias',
  google: 'alias',
}
const adapters = Object.entries(adapterNames).filter(([, use]) => use === 'offered').map(([name]) => name)

// What most instances do not need.
const more = ['path', 'apiVersion', 'proxy', 'headers', 'group'] as const

/** What an instance has beside its model, its address, its key and its weight. */
export function Details({ form, set, error, inherited }: {
  form: InstanceForm
  set<K extends keyof InstanceForm>(field: K, next: InstanceForm[K]): void
  error(field: keyof InstanceForm): string | undefined
  /** The dialect of the service, which holds where the instance has none. */
  inherited: string
}) {
  const { t } = useI18n()
  return (
    <>
      <div className="three">
        <TextField label={t('services.tier')} name="tier" inputMode="numeric" value={form.tier} error={error('tier')} hint={t('services.tierHint')} onChange={(next) => set('tier', next)} />
        <SelectField
          label={t('services.dialect')}
          name="adapter"
          value={form.adapter}
          error={error('adapter')}
          options={[...new Set([...adapters, form.adapter])].map((name) => ({ value: name, label: name === '' ? t('services.inherit', { value: inherited }) : name }))}
          onChange={(next) => set('adapter', next)}
        />
        <TextField label={t('services.concurrency')} name="maxConcurrency" inputMode="numeric" value={form.maxConcurrency} error={error('maxConcurrency')} hint={t('services.noBound')} onChange={(next) => set('maxConcurrency', next)} />
      </div>
      <details className="more" open={more.some((field) => form[field] !== '' || error(field) !== undefined) || form.forwardAuthorization || form.accountIds}>
        <summary>{t('services.more')}</summary>
        <TextField label={t('services.batchConcurrency')} name="batchConcurrency" inputMode="numeric" value={form.batchConcurrency} error={error('batchConcurrency')} hint={t('services.batchConcurrencyHint')} onChange={(next) => set('batchConcurrency', next)} />
        <TextField label={t('services.memoryGroup')} name="group" mono hint={t('services.memoryGroupHint')} value={form.group} error={error('group')} onChange={(next) => set('group', next)} />
        <div className="two">
          <TextField label={t('services.path')} name="path" mono hint={t('services.pathHint')} value={form.path} error={error('path')} onChange={(next) => set('path', next)} />
          <TextField label={t('services.apiVersion')} name="apiVersion" mono hint={t('services.apiVersionHint')} value={form.apiVersion} error={error('apiVersion')} onChange={(next) => set('apiVersion', next)} />
        </div>
        <TextField label={t('services.proxy')} name="proxy" mono hint={t('services.proxyHint')} value={form.proxy} error={error('proxy')} onChange={(next) => set('proxy', next)} />
        <TextArea label={t('services.headers')} name="headers" mono rows={2} hint={t('services.headersHint')} value={form.headers} error={error('headers')} onChange={(next) => set('headers', next)} />
        <div className="mb-4">
          <Toggle checked={form.forwardAuthorization} onChange={(next) => set('forwardAuthorization', next)}>
            {t('services.forward')}
          </Toggle>
        </div>
        <div className="mb-4">
          <Toggle checked={form.accountIds} onChange={(next) => set('accountIds', next)}>
            {t('services.accountIds')}
          </Toggle>
        </div>
      </details>
    </>
  )
}
