import { useI18n } from '@/i18n'
import { maskSecrets, yamlLines } from '@/lib/yaml'
import { CodeBox, Segments } from './parts'

export type FormView = 'form' | 'yaml'

/** Chooses between a form and what it amounts to in a file. */
export function FormViews({ label, value, onChange }: { label: string; value: FormView; onChange(view: FormView): void }) {
  const { t } = useI18n()
  return (
    <Segments<FormView>
      label={label}
      value={value}
      options={[
        { value: 'form', label: t('common.form') },
        { value: 'yaml', label: 'YAML' },
      ]}
      onChange={onChange}
    />
  )
}

/** What a form amounts to, as a configuration file says it; secrets are masked. verbatim leaves the names as they are. */
export function FileText({ value, hint, verbatim = false }: { value: object; hint?: string; verbatim?: boolean }) {
  const { t } = useI18n()
  return (
    <>
      <p className="hint mb-2">{hint ?? t('common.yamlHint')}</p>
      <CodeBox text={yamlLines(maskSecrets(value), 0, verbatim ? (key) => key : undefined).join('\n')} />
    </>
  )
}
