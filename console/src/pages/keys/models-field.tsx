import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { config } from '@/api/queries'
import { useI18n } from '@/i18n'
import { useLive } from '@/live/context'
import { TextField } from '@/ui/field'
import { chosen, namesOf, offered, toggled } from './models'

/** The models that a key may use: chosen among those that there are, or written as names and patterns. */
export function ModelsField({ value, offers, error, disabled, onChange }: { value: string; offers?: readonly string[]; error: string | undefined; disabled: boolean; onChange(value: string): void }) {
  const { t } = useI18n()
  const { snapshot } = useLive()
  const { data } = useQuery({ ...config, enabled: offers === undefined })
  const names = useMemo(() => offers ?? namesOf(data?.services ?? {}, (snapshot?.instances ?? []).map((instance) => instance.model)), [offers, data, snapshot])
  const shown = offered(names, value)
  const isOn = (name: string) => chosen(value).includes(name)
  return (
    <>
      <TextField label={t('key.models')} mono value={value} placeholder="llama3*, gpt-4o" hint={t('key.modelsHint')} error={error} name="models" onChange={onChange} />
      {shown.length > 0 && (
        <div className="row picks mb-4" role="group" aria-label={t('key.modelsChoose')}>
          {shown.map((name) => (
            <button key={name} type="button" className="btn sm" aria-pressed={isOn(name)} disabled={disabled} onClick={() => onChange(toggled(value, name))}>
              <code className="trunc" title={name}>{name}</code>
            </button>
          ))}
        </div>
      )}
    </>
  )
}
