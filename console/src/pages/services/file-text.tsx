import { useI18n } from '@/i18n'
import { maskSecrets, yamlLines } from '@/lib/yaml'
import { CodeBox } from '@/ui/parts'

/** What a form amounts to, as a configuration file says it; secrets are masked. */
export function FileText({ value }: { value: object }) {
  const { t } = useI18n()
  return (
    <>
      <p className="hint mb-2">{t('services.yamlHint')}</p>
      <CodeBox text={yamlLines(maskSecrets(value)).join('\n')} />
    </>
  )
}
