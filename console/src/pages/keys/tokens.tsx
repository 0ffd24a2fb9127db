import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Ellipsis, Plus } from 'lucide-react'
import { useState } from 'react'
import { api, data, errorsAt, fieldErrors } from '@/api/client'
import { tokens } from '@/api/queries'
import type { Token, TokenInput } from '@/api/types'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { shell } from '@/lib/snippets'
import { usePageCalls } from '@/shell/api-calls'
import { useSearchState } from '@/shell/search'
import { useMe } from '@/shell/session'
import { ErrorNote, useToast } from '@/ui/feedback'
import { SelectField, TextField } from '@/ui/field'
import { Confirm, Dialog } from '@/ui/overlay'
import { CodeBox, Menu } from '@/ui/parts'
import { Named, Table, unseen } from '@/ui/table'

type Role = TokenInput['role']
const roleNames: readonly Role[] = ['VIEWER', 'OPERATOR', 'ADMIN']

/** The tokens with which people and programs manage the gateway. */
export function Tokens() {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const me = useMe()
  const query = useQuery(tokens)
  const client = useQueryClient()
  const toast = useToast()
  const [acting, setActing] = useState<{ token: Token; act: 'rotate' | 'revoke' } | null>(null)
  const [shown, setShown] = useState<Token | null>(null)
  const list = query.data ?? []
  usePageCalls(search.issue === '1' ? [{ method: 'POST', path: '/api/auth/tokens', body: { name: 'ci', role: 'VIEWER' } }] : [{ path: '/api/auth/tokens' }])
  const refresh = () => client.invalidateQueries({ queryKey: ['tokens'] })
  const admins = list.filter((token) => token.role === 'ADMIN' && token.status === 'ACTIVE')
  const isOwn = (token: Token) => token.name === me?.name
  const last = (token: Token) => admins.length === 1 && admins[0]!.name === token.name
  return (
    <>
      <div className="bar">
        <span className="soft grow">{t('key.tokensText')}</span>
        <button type="button" className="btn pri" onClick={() => setSearch({ issue: '1' }, true)}>
          <Plus className="ic" aria-hidden />
          {t('key.issue')}
        </button>
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && (
        <Table
          rows={query.data}
          keyOf={({ name }) => name}
          isOff={({ status }) => status !== 'ACTIVE'}
          columns={[
            { head: t('key.name'), className: 'cut', cell: (token) => <Named name={token.name} below={isOwn(token) ? t('key.you') : t(`key.source.${token.source}`)} /> },
            { head: t('key.role'), className: 'w-[96px]', cell: ({ role }) => role },
            { head: t('key.status'), className: 'w-[84px]', cell: ({ status }) => <span className={`tag ${status === 'ACTIVE' ? '' : 'off'}`}>{t(`key.${status}`)}</span> },
            { head: t('key.created'), className: 'lo cut w-[22%]', cell: ({ createdAt, createdBy }) => (createdAt === undefined ? '–' : `${stamp(createdAt).slice(0, 16)}${createdBy ? ` · ${createdBy}` : ''}`) },
            { head: t('key.rotated'), className: 'lo w-[136px]', cell: ({ rotatedAt }) => (rotatedAt === undefined ? '–' : stamp(rotatedAt).slice(0, 16)) },
            { head: t('key.expires'), className: 'lo w-[136px]', cell: ({ expiresAt }) => (expiresAt === '' ? <span className="muted">{t('key.never')}</span> : stamp(expiresAt).slice(0, 16)) },
            {
              head: unseen(t('common.more')),
              className: 'mtd w-[60px]',
              cell: (token) => (
                <Menu
                  trigger={
                    <button type="button" className="btn ghost icon" aria-label={`${t('common.more')}: ${token.name}`}>
                      <Ellipsis className="ic" aria-hidden />
                    </button>
                  }
                  items={[
                    { label: t('key.rotate'), disabled: token.source === 'config' || token.status === 'REVOKED', title: token.source === 'config' ? t('key.fromFile') : undefined, onSelect: () => setActing({ token, act: 'rotate' }) },
                    { label: t('key.revoke'), danger: true, disabled: token.status === 'REVOKED', onSelect: () => setActing({ token, act: 'revoke' }) },
                  ]}
                />
              ),
            },
          ]}
        />
      )}
      {search.issue === '1' && shown === null && (
        <IssueToken
          onClose={() => setSearch({ issue: undefined })}
          onIssued={(token) => {
            setShown(token)
            void refresh()
          }}
        />
      )}
      {shown !== null && (
        <IssuedToken
          token={shown}
          onClose={() => {
            setShown(null)
            setSearch({ issue: undefined })
          }}
        />
      )}
      {acting !== null && (
        <Confirm
          title={t(acting.act === 'rotate' ? 'key.rotateTitle' : 'key.revokeTitle', { id: acting.token.name })}
          action={t(acting.act === 'rotate' ? 'key.rotate' : 'key.revoke')}
          onClose={() => setActing(null)}
          onConfirm={async () => {
            const params = { path: { name: acting.token.name } }
            if (acting.act === 'rotate') setShown((await data(api.POST('/api/auth/tokens/{name}/rotate', { params }))) as Token)
            else {
              await data(api.DELETE('/api/auth/tokens/{name}', { params }) as never)
              toast(t('key.revoked', { id: acting.token.name }))
            }
            await refresh()
          }}
        >
          {t(acting.act === 'rotate' ? 'key.tokenRotateText' : 'key.tokenRevokeText')}
          {isOwn(acting.token) && <b> {t('key.tokenOwn')}</b>}
          {acting.act === 'revoke' && last(acting.token) && (
            <p className="mt-2">
              {t('key.tokenLast')} <code>patchbay tokens create --role ADMIN</code>
            </p>
          )}
        </Confirm>
      )}
    </>
  )
}

function IssueToken({ onClose, onIssued }: { onClose(): void; onIssued(token: Token): void }) {
  const { t, said } = useI18n()
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('VIEWER')
  const [expires, setExpires] = useState('')
  const issue = useMutation({
    mutationFn: () => data(api.POST('/api/auth/tokens', { body: { role, ...(name.trim() === '' ? {} : { name: name.trim() }), ...(expires === '' ? {} : { expiresAt: new Date(expires).toISOString() }) } })) as Promise<Token>,
    onSuccess: onIssued,
  })
  const errors = fieldErrors(issue.error, said)
  return (
    <Dialog open onClose={onClose} label={t('key.issue')}>
      <form
        className="in"
        onSubmit={(event) => {
          event.preventDefault()
          issue.mutate()
        }}
      >
        <h2>{t('key.issue')}</h2>
        <TextField label={t('key.name')} extra={t('common.optional')} mono name="name" value={name} hint={t('key.idHint')} error={errorsAt(errors, 'name')} onChange={setName} />
        <SelectField<Role> label={t('key.role')} name="role" value={role} hint={t(`key.role.${role}`)} error={errorsAt(errors, 'role')} options={roleNames.map((value) => ({ value, label: value }))} onChange={setRole} />
        <TextField label={t('key.expires')} extra={t('key.expiresHint')} type="datetime-local" name="expiresAt" value={expires} error={errorsAt(errors, 'expiresAt')} onChange={setExpires} />
        {issue.error !== null && Object.keys(errors).length === 0 && <ErrorNote error={issue.error} />}
        <div className="acts">
          <button type="button" className="btn ghost" onClick={onClose}>
            {t('common.cancel')}
          </button>
          <button type="submit" className="btn pri" disabled={issue.isPending}>
            {t('key.issueAs')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** The token is shown this once; it stays in this dialog only. */
function IssuedToken({ token, onClose }: { token: Token; onClose(): void }) {
  const { t } = useI18n()
  const title = t(token.rotatedAt === undefined ? 'key.tokenMade' : 'key.tokenRotated', { id: token.name, role: token.role })
  return (
    <Dialog open onClose={() => undefined} label={title}>
      <div className="in">
        <h2>{title}</h2>
        <p className="soft">{t('key.once')}</p>
        <CodeBox fold text={token.token ?? ''} />
        <p className="soft">{t('key.tokenUse')}</p>
        <CodeBox fold text={shell`curl ${`${location.origin}/api/auth/me`} -H ${`Authorization: Bearer ${token.token ?? ''}`}`} />
        <div className="acts">
          <button type="button" className="btn pri" onClick={onClose}>
            {t('key.done')}
          </button>
        </div>
      </div>
    </Dialog>
  )
}
