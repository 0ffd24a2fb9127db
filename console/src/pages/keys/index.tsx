import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { api, ApiError, data } from '@/api/client'
import { keys, security } from '@/api/queries'
import { serviceTypes, type Key, type ServiceType } from '@/api/types'
import { useI18n } from '@/i18n'
import { ago, stamp } from '@/lib/format'
import { useNow } from '@/live/context'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { ErrorNote, useToast } from '@/ui/feedback'
import { TextField } from '@/ui/field'
import { Confirm, Dialog } from '@/ui/overlay'
import { CodeBox, Toggle } from '@/ui/parts'

export default function Keys() {
  const { t, locale } = useI18n()
  usePageFact(t('key.sum'))
  const [search, setSearch] = useSearchState()
  const query = useQuery(keys)
  const { data: guarded } = useQuery(security)
  const now = useNow(30_000)
  const toast = useToast()
  const client = useQueryClient()
  const [revoking, setRevoking] = useState<Key | null>(null)
  const [issued, setIssued] = useState<Key | null>(null)
  const close = () => setSearch({ create: undefined })
  const list = query.data ?? []
  return (
    <>
      {guarded === false && (
        <div className="note mb-4">
          <div>
            <b>{t('key.offTitle')}</b>
            <div className="mb-2">{t('key.offText')}</div>
            <CodeBox text={'security:\n  enabled: true'} />
          </div>
        </div>
      )}
      <div className="bar">
        <span className="grow" />
        <button type="button" className="btn pri" onClick={() => setSearch({ create: '1' }, true)}>
          <Plus className="ic" aria-hidden />
          {t('key.create')}
        </button>
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && (
        <div className="panel">
          {list.length === 0 && <div className="muted p-4">{t('key.empty')}</div>}
          {list.length > 0 && (
            <table className="tbl fx kt">
              <thead>
                <tr>
                  <th className="md:w-[22%]">{t('key.id')}</th>
                  <th className="w-[92px]">{t('key.status')}</th>
                  <th className="lo w-[96px]">{t('key.tenant')}</th>
                  <th className="lo">{t('key.services')}</th>
                  <th className="lo">{t('key.models')}</th>
                  <th className="w-[136px]">{t('key.expires')}</th>
                  <th className="lo w-[100px]">{t('key.created')}</th>
                  <th className="lo w-[100px]">{t('key.used')}</th>
                  <th className="lo w-[112px]">{t('key.source')}</th>
                  <th className="w-[110px]">
                    <span className="sr-only">{t('key.revoke')}</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {list.map((key) => (
                  <tr key={key.id} className={key.status === 'ACTIVE' ? '' : 'off'}>
                    <td className="cut">
                      <code className="font-medium">{key.id}</code>
                    </td>
                    <td>
                      <span className={`tag ${key.status === 'ACTIVE' ? '' : 'off'}`}>{t(`key.${key.status ?? 'ACTIVE'}`)}</span>
                    </td>
                    <td className="lo cut">{key.tenant === '' ? '–' : key.tenant}</td>
                    <td className="lo cut">{(key.services ?? []).length === 0 ? <span className="muted">{t('key.anyService')}</span> : key.services!.join(', ')}</td>
                    <td className="lo cut">{(key.models ?? []).length === 0 ? <span className="muted">{t('key.anyModel')}</span> : key.models!.join(', ')}</td>
                    <td>{key.expiresAt ? stamp(key.expiresAt).slice(0, 16) : <span className="muted">{t('key.never')}</span>}</td>
                    <td className="lo" title={key.createdAt ? stamp(key.createdAt) : undefined}>{key.createdAt ? ago(key.createdAt, now, locale) : '–'}</td>
                    <td className="lo" title={t('key.callsToday', { n: key.callsToday })}>{key.lastUsedAt ? ago(key.lastUsedAt, now, locale) : t('key.unused')}</td>
                    <td className="lo soft">{t(`key.source.${key.source ?? 'issued'}`)}</td>
                    <td className="num">
                      {key.status === 'ACTIVE' &&
                        (key.source === 'config' ? (
                          <span className="muted" title={t('key.fromFile')}>
                            –
                          </span>
                        ) : (
                          <button type="button" className="btn sm danger" onClick={() => setRevoking(key)}>
                            {t('key.revoke')}
                          </button>
                        ))}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </div>
      )}
      {search.create === '1' && issued === null && <CreateKey onClose={close} onIssued={setIssued} />}
      {issued !== null && (
        <IssuedKey
          issued={issued}
          onClose={() => {
            toast(t('key.made', { id: issued.id ?? '' }))
            setIssued(null)
            close()
          }}
        />
      )}
      {revoking !== null && (
        <Confirm
          title={t('key.revokeTitle', { id: revoking.id ?? '' })}
          action={t('key.revoke')}
          onClose={() => setRevoking(null)}
          onConfirm={async () => {
            await data(api.DELETE('/api/auth/keys/{id}', { params: { path: { id: revoking.id ?? '' } } }) as never)
            await client.invalidateQueries({ queryKey: ['keys'] })
            toast(t('key.revoked', { id: revoking.id ?? '' }))
          }}
        >
          {t('key.revokeText')}
        </Confirm>
      )}
    </>
  )
}

function CreateKey({ onClose, onIssued }: { onClose(): void; onIssued(key: Key): void }) {
  const { t } = useI18n()
  const client = useQueryClient()
  const [id, setId] = useState('')
  const [tenant, setTenant] = useState('')
  const [models, setModels] = useState('')
  const [expires, setExpires] = useState('')
  const [services, setServices] = useState<ServiceType[]>([])
  const create = useMutation({
    mutationFn: () =>
      data(
        api.POST('/api/auth/keys', {
          body: {
            ...(id.trim() === '' ? {} : { id: id.trim() }),
            tenant: tenant.trim(),
            services,
            models: models.split(',').map((model) => model.trim()).filter((model) => model !== ''),
            ...(expires === '' ? {} : { expiresAt: new Date(expires).toISOString() }),
          },
        }),
      ) as Promise<Key>,
    onSuccess: async (key) => {
      await client.invalidateQueries({ queryKey: ['keys'] })
      onIssued(key)
    },
  })
  const message = create.error instanceof ApiError ? create.error.message : ''
  const field = (name: string) => (message.startsWith(`${name}:`) ? message.slice(name.length + 2) : undefined)
  const known = ['id', 'tenant', 'services', 'models', 'expiresAt'].some((name) => field(name) !== undefined)
  return (
    <Dialog open onClose={onClose} label={t('key.create')}>
      <form
        className="in"
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate()
        }}
      >
        <h2>{t('key.create')}</h2>
        <div>
          <TextField label={t('key.id')} extra={t('common.optional')} mono value={id} hint={t('key.idHint')} error={field('id')} name="id" onChange={setId} />
          <TextField label={t('key.tenant')} extra={t('common.optional')} value={tenant} error={field('tenant')} name="tenant" onChange={setTenant} />
          <div className="f">
            <div className="flab">
              {t('key.services')} <span className="opt">{services.length === 0 ? t('key.anyService') : ''}</span>
            </div>
            <div className="row flex-wrap !gap-x-4">
              {serviceTypes.map((type) => (
                <Toggle key={type} checked={services.includes(type)} onChange={(on) => setServices(serviceTypes.filter((other) => (other === type ? on : services.includes(other))))}>
                  {type}
                </Toggle>
              ))}
            </div>
          </div>
          <TextField label={t('key.models')} mono value={models} hint={t('key.modelsHint')} error={field('models')} name="models" onChange={setModels} />
          <TextField label={t('key.expires')} extra={t('common.optional')} type="datetime-local" value={expires} error={field('expiresAt')} name="expiresAt" onChange={setExpires} />
        </div>
        {create.error !== null && !known && <ErrorNote error={create.error} />}
        <div className="acts">
          <button type="button" className="btn ghost" onClick={onClose}>
            {t('common.cancel')}
          </button>
          <button type="submit" className="btn pri" disabled={create.isPending}>
            {t('key.createAs')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** The key is shown this once; it stays in this dialog only. */
function IssuedKey({ issued, onClose }: { issued: Key; onClose(): void }) {
  const { t } = useI18n()
  return (
    <Dialog open onClose={() => undefined} label={t('key.made', { id: issued.id ?? '' })}>
      <div className="in">
        <h2>{t('key.made', { id: issued.id ?? '' })}</h2>
        <p className="soft">{t('key.once')}</p>
        <CodeBox fold text={issued.key ?? ''} />
        <p className="soft">{t('key.use')}</p>
        <CodeBox fold text={`curl ${location.origin}/v1/models -H 'Authorization: Bearer ${issued.key ?? ''}'`} />
        <div className="acts">
          <button type="button" className="btn pri" onClick={onClose}>
            {t('key.done')}
          </button>
        </div>
      </div>
    </Dialog>
  )
}
