import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Ellipsis, Plus } from 'lucide-react'
import { useMemo, useState } from 'react'
import { ask, errorsAt, fieldErrors } from '@/api/client'
import type { Key, Place } from '@/api/types'
import { useI18n } from '@/i18n'
import { ago, stamp } from '@/lib/format'
import { useNow } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { useDraft } from '@/shell/draft'
import { useLeaveGuard } from '@/shell/leave'
import { useSearchState } from '@/shell/search'
import { ErrorNote, useToast } from '@/ui/feedback'
import { SelectField, TextField } from '@/ui/field'
import { Confirm, Drawer } from '@/ui/overlay'
import { Menu } from '@/ui/parts'
import { Named, Table, unseen } from '@/ui/table'
import { termChanges, toTermForm, type TermForm } from '../keys/form'
import { IssuedKey, RotateKey } from '../keys/issued'
import { TermFields } from '../keys/term-fields'
import { useTermWords } from '../keys/term-words'

/** The keys of a person or of a team. All that is about people is asked for below one name. */
export const keysAt = (at: string) => ({ queryKey: ['own', at, 'keys'], queryFn: ({ signal }: { signal: AbortSignal }) => ask<Key[]>(`${at}/keys`, 'GET', undefined, signal) })

/** The keys of a person or of a team: they are made, rotated and revoked, and those of a team are changed. */
export function OwnKeys({ at, places, mine, currency }: {
  /** /api/me, or that of a team. */
  at: string
  /** The tenants for which keys are made. */
  places: readonly Place[]
  /** The name of the person; other people's keys are not theirs to rotate. */
  mine: string
  currency: string
}) {
  const { t, locale } = useI18n()
  const [search, setSearch] = useSearchState()
  const client = useQueryClient()
  const toast = useToast()
  const now = useNow(30_000)
  const terms = useTermWords(currency)
  const query = useQuery(keysAt(at))
  const [rotating, setRotating] = useState<Key | null>(null)
  const [revoking, setRevoking] = useState<Key | null>(null)
  const [issued, setIssued] = useState<Key | null>(null)
  const isTeam = at !== '/api/me'
  const isMaking = search.create === '1'
  usePageCalls(isMaking ? [{ method: 'POST', path: `${at}/keys`, body: { name: '' } }] : [{ path: `${at}/keys` }])
  const list = (query.data ?? []).filter(({ status }) => status !== 'REVOKED')
  // The file and the operators decide about the keys that they made; a team can only revoke them.
  const isFixed = (key: Key) => key.origin === 'file' || key.origin === 'management'
  const edited = isTeam ? list.find((key) => key.id === search.key && !isFixed(key)) : undefined
  const close = () => setSearch({ create: undefined, key: undefined })
  const isOthers = (key: Key) => isTeam && (key.owner ?? '') !== '' && key.owner !== mine
  const isOpen = (isMaking || edited !== undefined) && issued === null && places.length > 0
  return (
    <div className={isOpen ? 'split narrow' : ''}>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && (
        <Table
          rows={list}
          keyOf={({ id }) => id}
          isOff={({ status }) => status !== 'ACTIVE'}
          selected={edited?.id}
          empty={t('own.noKeys')}
          columns={[
            { head: t('key.name'), className: 'cut', cell: (key) => <Named name={key.name ?? key.id} below={isTeam ? (key.owner ?? t('own.ofTeam')) : key.id} isData onOpen={isTeam && !isFixed(key) ? () => setSearch({ key: key.id, create: undefined }, true) : undefined} /> },
            !isTeam && places.length > 1 && { head: t('key.tenant'), className: 'lo cut w-[14%]', cell: ({ tenant }) => tenant },
            { head: t('key.status'), className: 'w-[88px]', cell: ({ status }) => <span className={`tag ${status === 'ACTIVE' ? '' : 'off'}`}>{t(`key.${status}`)}</span> },
            { head: t('key.models'), className: 'lo cut w-[16%]', cell: ({ models }) => <Cut words={models} none={t('key.anyModel')} /> },
            { head: t('key.limits'), className: 'lo cut w-[20%]', cell: (key) => <Cut words={terms(key)} none={t('key.byDefault')} /> },
            { head: t('key.expires'), className: 'lo w-[128px]', cell: ({ expiresAt }) => (expiresAt === '' ? <span className="muted">{t('key.never')}</span> : stamp(expiresAt).slice(0, 16)) },
            { head: t('key.used'), className: 'lo w-[120px]', cell: ({ lastUsedAt, callsToday }) => (lastUsedAt ? <span title={`${stamp(lastUsedAt)} · ${t('key.callsToday', { n: callsToday })}`}>{ago(lastUsedAt, now, locale)}</span> : <span className="muted">{t('key.unknown')}</span>) },
            {
              head: unseen(t('common.more')),
              className: 'mtd w-[60px]',
              cell: (key) => (
                <Menu
                  trigger={
                    <button type="button" className="btn ghost icon" aria-label={`${t('common.more')}: ${key.name ?? key.id}`}>
                      <Ellipsis className="ic" aria-hidden />
                    </button>
                  }
                  items={[
                    ...(isFixed(key) ? [] : [{ label: t('key.rotate'), disabled: isOthers(key), title: isOthers(key) ? t('own.others') : undefined, onSelect: () => setRotating(key) }]),
                    { label: t('key.revoke'), danger: true, onSelect: () => setRevoking(key) },
                  ]}
                />
              ),
            },
          ]}
        />
      )}
      {isOpen && <KeyDrawer key={edited?.id ?? 'new'} at={at} places={places} stored={edited ?? null} onClose={close} onIssued={setIssued} />}
      {rotating !== null && <RotateKey rotating={rotating} at={`${at}/keys`} queries={['own']} onClose={() => setRotating(null)} onIssued={(key) => { setRotating(null); setIssued(key) }} />}
      {issued !== null && <IssuedKey issued={issued} onClose={() => { setIssued(null); close() }} />}
      {revoking !== null && (
        <Confirm
          title={t('key.revokeTitle', { id: revoking.name ?? revoking.id })}
          action={t('key.revoke')}
          onClose={() => setRevoking(null)}
          onConfirm={async () => {
            await ask(`${at}/keys/${encodeURIComponent(revoking.id)}`, 'DELETE')
            await client.invalidateQueries({ queryKey: ['own'] })
            toast(t('key.revoked', { id: revoking.name ?? revoking.id }))
          }}
        >
          {t('key.revokeText')}
        </Confirm>
      )}
    </div>
  )
}

/** Opens the form of a new key. */
export function MakeKey() {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  return (
    <button type="button" className={`btn ${search.create === undefined && search.key === undefined ? 'pri' : ''}`} onClick={() => setSearch({ create: '1', key: undefined }, true)}>
      <Plus className="ic" aria-hidden />
      {t('key.create')}
    </button>
  )
}

function Cut({ words, none }: { words: readonly string[]; none: string }) {
  return words.length === 0 ? <span className="muted">{none}</span> : <span title={words.join(', ')}>{words.join(', ')}</span>
}

interface OwnForm extends TermForm {
  name: string
  tenant: string
}

/** Makes a key, or changes one of a team, within the terms of its tenant. */
function KeyDrawer({ at, places, stored, onClose, onIssued }: { at: string; places: readonly Place[]; stored: Key | null; onClose(): void; onIssued(key: Key): void }) {
  const { t, said } = useI18n()
  const toast = useToast()
  const client = useQueryClient()
  const { value: form, set: setForm, ...draft } = useDraft<OwnForm>(`${at} key ${stored?.id ?? ''}`, () => ({ name: stored?.name ?? '', tenant: stored?.tenant ?? places[0]!.tenant, ...toTermForm(stored) }))
  const part = useMemo(() => termChanges(form, stored), [form, stored])
  const dirty = Object.keys(part).length > 0 || (stored === null && form.name !== '')
  const leave = useLeaveGuard(dirty, draft.drop)
  const save = useMutation({
    mutationFn: () => (stored === null ? ask<Key>(`${at}/keys`, 'POST', { ...part, name: form.name.trim(), ...(at === '/api/me' ? { tenant: form.tenant } : {}) }) : ask<Key>(`${at}/keys/${encodeURIComponent(stored.id)}`, 'PUT', part)),
    onSuccess: async (key) => {
      leave.saved()
      await client.invalidateQueries({ queryKey: ['own'] })
      if (stored === null) return onIssued(key)
      toast(t('key.saved', { id: key.name ?? key.id }))
      onClose()
    },
  })
  const errors = fieldErrors(save.error, said)
  const set = <K extends keyof OwnForm>(field: K, next: OwnForm[K]) => setForm((old) => ({ ...old, [field]: next }))
  const title = stored === null ? t('key.create') : (stored.name ?? stored.id)
  return (
    <Drawer
      label={title}
      title={title}
      sub={stored !== null && <div className="muted text-[11px]">{[stored.id, stored.owner].filter((text) => text !== undefined).join(' · ')}</div>}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <button type="button" className="btn" onClick={onClose}>
            {t(dirty ? 'common.discard' : 'common.close')}
          </button>
          <button type="submit" form="own-key" className="btn pri" disabled={save.isPending || (stored !== null && !dirty)}>
            {t(stored === null ? 'key.createAs' : 'key.save')}
          </button>
        </>
      }
    >
      {leave.note}
      {save.error !== null && Object.keys(errors).length === 0 && (
        <div className="mb-3">
          <ErrorNote error={save.error} />
        </div>
      )}
      <form
        id="own-key"
        onSubmit={(event) => {
          event.preventDefault()
          save.mutate()
        }}
      >
        {stored === null && <TextField label={t('key.name')} extra={t('common.optional')} value={form.name} hint={t('own.nameHint')} error={errorsAt(errors, 'name')} name="name" onChange={(next) => set('name', next)} />}
        {stored === null && places.length > 1 && <SelectField label={t('key.tenant')} value={form.tenant} error={errorsAt(errors, 'tenant')} options={places.map(({ tenant }) => ({ value: tenant, label: tenant }))} onChange={(next) => set('tenant', next)} />}
        <TermFields form={form} set={set} errors={errors} fixed={false} within={places.find(({ tenant }) => tenant === form.tenant)} />
        <button type="submit" className="sr-only" tabIndex={-1} aria-hidden="true" disabled={save.isPending} />
      </form>
    </Drawer>
  )
}
