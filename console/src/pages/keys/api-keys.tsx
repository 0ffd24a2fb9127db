import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useCallback, useState } from 'react'
import { api, data } from '@/api/client'
import { info, keys, security, spentThisMonth } from '@/api/queries'
import type { Key } from '@/api/types'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { spentText } from '@/lib/money'
import { usePageCalls } from '@/shell/api-calls'
import { useSearchState } from '@/shell/search'
import { ErrorNote, useToast } from '@/ui/feedback'
import { Confirm } from '@/ui/overlay'
import { CodeBox, Name } from '@/ui/parts'
import { RefusedNote, useRefusing } from '../quota/refused'
import { KeyDrawer } from './drawer'
import { IssuedKey, RotateKey } from './issued'
import { useTermWords } from './term-words'
import { LastUsed } from './used'

/** The keys that callers of the unified API show. */
export function ApiKeys() {
  const { t, locale } = useI18n()
  const [search, setSearch] = useSearchState()
  const query = useQuery(keys)
  const { data: guarded } = useQuery(security)
  const { data: about } = useQuery(info)
  const { data: spent } = useQuery({ ...spentThisMonth('key'), refetchInterval: 15_000 })
  const { data: spentByTenant } = useQuery({ ...spentThisMonth('tenant'), refetchInterval: 15_000 })
  const refused = useRefusing()
  /** Whether a budget of the key, or of its tenant, refuses its calls now. */
  const isOut = (key: Key) => key.status === 'ACTIVE' && refused.some(({ budget }) => budget.of === `key/${key.id}` || (key.tenant !== '' && budget.of === `tenant/${key.tenant}`))
  const toast = useToast()
  const client = useQueryClient()
  const [revoking, setRevoking] = useState<Key | null>(null)
  const [issued, setIssued] = useState<Key | null>(null)
  const [rotating, setRotating] = useState<Key | null>(null)
  const close = useCallback(() => setSearch({ create: undefined, key: undefined, tenant: undefined }), [setSearch])
  const list = query.data ?? []
  usePageCalls(search.create === '1' ? [{ method: 'POST', path: '/api/auth/keys', body: {} }] : [{ path: '/api/auth/keys' }])
  /** What a key is confined to, as the API has it. */
  const scope = (key: Key) => [key.services.join(', '), key.models.join(', '), (key.instances ?? []).join(', '), key.addresses.join(', ')].filter((text) => text !== '')
  const terms = useTermWords(spent?.currency)
  const editing = list.find((key) => key.id === search.key)
  const drawer =
    issued !== null ? null : search.create === '1' ? (
      <KeyDrawer key="create" stored={null} tenant={search.tenant ?? ''} onClose={close} onIssued={setIssued} onRotate={setRotating} onRevoke={setRevoking} />
    ) : editing !== undefined ? (
      <KeyDrawer key={editing.id} stored={editing} onClose={close} onIssued={setIssued} onRotate={setRotating} onRevoke={setRevoking} />
    ) : null
  return (
    <div className={drawer === null ? '' : 'split narrow'}>
      <div className="list">
      {guarded === false && about?.demo === true && (
        <div className="note mb-4">
          <div>
            <b>{t('key.offTitle')}</b>
            <div>{t('key.demoText')}</div>
          </div>
        </div>
      )}
      {guarded === false && about?.demo === false && (
        <div className="note mb-4">
          <div>
            <b>{t('key.offTitle')}</b>
            <div className="mb-2">{t('key.offText')}</div>
            <CodeBox text={'security:\n  enabled: true'} />
            <div className="my-2">{t('key.offToken')}</div>
            <CodeBox text="patchbay tokens create --name me --role ADMIN" />
          </div>
        </div>
      )}
      <div className="bar">
        <span className="grow" />
        <button type="button" className={`btn ${drawer === null ? 'pri' : ''}`} onClick={() => setSearch({ create: '1', key: undefined }, true)}>
          <Plus className="ic" aria-hidden />
          {t('key.create')}
        </button>
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && <RefusedNote of={refused} />}
      {query.data !== undefined && (
        <div className="panel">
          {list.length === 0 && <div className="muted p-4">{t('key.empty')}</div>}
          {list.length > 0 && (
            <table className="tbl fx kt">
              <thead>
                <tr>
                  <th>{t('key.id')}</th>
                  <th className="w-[112px]">{t('key.status')}</th>
                  <th className="lo w-[124px]">{t('key.tenant')}</th>
                  <th className="lo w-[15%]">{t('key.may')}</th>
                  <th className="lo w-[17%]">{t('key.limits')}</th>
                  <th className="lo w-[128px]">{t('key.expires')}</th>
                  {spent?.shown && <th className="num kcost w-[112px]">{t('spend.thisMonth')}</th>}
                  <th className="kused w-[120px]">{t('key.used')}</th>
                </tr>
              </thead>
              <tbody>
                {list.map((key) => (
                  <tr key={key.id} className={`${key.status === 'ACTIVE' ? '' : 'off'} ${editing?.id === key.id ? 'sel' : ''}`} aria-selected={editing?.id === key.id}>
                    <td className="cut nmtd">
                      <button type="button" className="nmad" onClick={() => setSearch({ key: key.id, create: undefined }, true)}>
                        <Name className="font-medium">{key.id}</Name>
                        <span className="muted trunc" title={t(`key.source.${key.source}`)}>{t(`key.source.${key.source}`)}</span>
                      </button>
                    </td>
                    <td>
                      {isOut(key) ? (
                        <Link className="bad font-semibold" to="/spend" search={{ view: 'ledger' } as never} title={t('key.outTitle')}>{t('key.out')}</Link>
                      ) : (
                        <span className={`tag ${key.status === 'ACTIVE' ? '' : 'off'}`}>{t(`key.${key.status}`)}</span>
                      )}
                    </td>
                    <td className="lo cut" title={key.tenant}>
                      {key.tenant === '' ? '–' : key.tenant}
                      {key.tenant !== '' && spentByTenant?.shown && (
                        <Link className="link block" title={t('spend.thisMonth')} to="/spend" search={{ only: `tenant~${key.tenant}`, by: 'key' } as never}>
                          {spentText(spentByTenant, key.tenant, t, locale)}
                        </Link>
                      )}
                    </td>
                    <td className="lo cut" title={scope(key).join('; ')}>{scope(key).length === 0 ? <span className="muted">{t('key.all')}</span> : scope(key).join('; ')}</td>
                    <td className="lo cut" title={terms(key).join(t('common.comma'))}>{terms(key).length === 0 ? <span className="muted">{t('key.byDefault')}</span> : terms(key).join(t('common.comma'))}</td>
                    <td className="lo">{key.expiresAt ? stamp(key.expiresAt).slice(0, 16) : <span className="muted">{t('key.never')}</span>}</td>
                    {spent?.shown && (
                      <td className="num kcost">
                        <Link className="link" to="/spend" search={{ only: `key~${key.id}`, by: 'model' } as never}>
                          {spentText(spent, key.id, t, locale)}
                        </Link>
                      </td>
                    )}
                    <td className="cut kused"><LastUsed of={key} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </div>
      )}
      {rotating !== null && issued === null && <RotateKey rotating={rotating} at="/api/auth/keys" queries={['keys']} onClose={() => setRotating(null)} onIssued={(key) => { setRotating(null); setIssued(key) }} />}
      {issued !== null && (
        <IssuedKey
          issued={issued}
          onClose={() => {
            toast(t(issued.rotatedAt === undefined ? 'key.made' : 'key.isRotated', { id: issued.id }))
            setIssued(null)
            close()
          }}
        />
      )}
      {revoking !== null && (
        <Confirm
          title={t('key.revokeTitle', { id: revoking.id })}
          action={t('key.revoke')}
          onClose={() => setRevoking(null)}
          onConfirm={async () => {
            await data(api.DELETE('/api/auth/keys/{id}', { params: { path: { id: revoking.id } } }) as never)
            await client.invalidateQueries({ queryKey: ['keys'] })
            toast(t('key.revoked', { id: revoking.id }))
            close()
          }}
        >
          {t('key.revokeText')}
        </Confirm>
      )}
      </div>
      {drawer}
    </div>
  )
}
