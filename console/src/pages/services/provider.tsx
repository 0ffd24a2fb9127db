import { useQuery } from '@tanstack/react-query'
import { providers } from '@/api/queries'
import { useI18n } from '@/i18n'
import { SelectField } from '@/ui/field'
import { providerOf, withProvider, type InstanceForm } from './form'

/** Offers the providers whose addresses the gateway knows. */
export function Provider({ form, onPick }: { form: InstanceForm; onPick(form: InstanceForm): void }) {
  const { t } = useI18n()
  const { data: known = [] } = useQuery(providers)
  const picked = providerOf(known, form)
  return (
    <SelectField
      label={t('services.provider')}
      name="provider"
      value={picked?.name ?? ''}
      hint={picked?.keyVariable === undefined ? undefined : t('services.providerHint', { variable: picked.keyVariable })}
      options={[{ value: '', label: t('services.providerOther') }, ...known.map(({ name, title }) => ({ value: name, label: title }))]}
      onChange={(name) => onPick(withProvider(form, known.find((one) => one.name === name)))}
    />
  )
}
