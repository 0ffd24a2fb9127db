import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import type { components } from '@/api/schema'
import { useI18n } from '@/i18n'
import { Guard } from '@/shell/guard'
import { ErrorNote, useToast } from '@/ui/feedback'
import { Select } from '@/ui/field'

type LoggerLevel = NonNullable<components['schemas']['LoggerRequest']['configuredLevel']>

/** The level of each logger; an empty one follows ROOT. */
export function Loggers() {
  const { t } = useI18n()
  const toast = useToast()
  const client = useQueryClient()
  const query = useQuery({ queryKey: ['loggers'], queryFn: ({ signal }) => body(api.GET('/actuator/loggers', { signal })) })
  const change = useMutation({
    mutationFn: ({ name, level }: { name: string; level: string }) =>
      body(api.POST('/actuator/loggers/{name}', { params: { path: { name } }, body: { configuredLevel: level === '' ? null : (level as LoggerLevel) } }) as never),
    onSuccess: async (_, { name }) => {
      await client.invalidateQueries({ queryKey: ['loggers'] })
      toast(t('set.saved', { what: name }))
    },
  })
  const root = query.data?.loggers.ROOT?.effectiveLevel ?? ''
  return (
    <>
      <div className="h2" id="loggers">
        <h2>{t('set.loggers')}</h2>
      </div>
      <div className="panel p-4">
        <Guard needs="actuator:logger:write" say>
          {(query.error ?? change.error) !== null && <ErrorNote error={query.error ?? change.error} />}
          <dl className="dl items-center">
            {Object.entries(query.data?.loggers ?? {}).map(([name, logger]) => [
              <dt key={`${name} name`}>
                <code>{name}</code>
              </dt>,
              <dd key={name} className="max-w-[220px]">
                <Select
                  label={`${t('set.level')} ${name}`}
                  value={logger.configuredLevel ?? ''}
                  options={[...(name === 'ROOT' ? [] : [{ value: '', label: t('set.inherit', { level: root }) }]), ...(query.data?.levels ?? []).map((level) => ({ value: level, label: level }))]}
                  onChange={(level) => change.mutate({ name, level })}
                />
              </dd>,
            ])}
          </dl>
        </Guard>
      </div>
    </>
  )
}
