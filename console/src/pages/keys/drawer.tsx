import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { api, data, errorsAt, fieldErrors } from '@/api/client'
import { budgets as budgetsQuery, spentThisMonth } from '@/api/queries'
import type { Key } from '@/api/types'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { budgetText, spentText } from '@/lib/money'
import { useDraft } from '@/shell/draft'
import { useLeaveGuard } from '@/shell/leave'
import { ErrorNote, useToast } from '@/ui/feedback'
import { TextField } from '@/ui/field'
import { FileText, FormViews, type FormView } from '@/ui/file-text'
import { Drawer } from '@/ui/overlay'
import { Bar } from '@/ui/parts'
import { Errors } from '../wrong/parts'
import { keyChanges, keyInFile, toKeyForm, type KeyForm } from './form'
import { TermFields } from './term-fields'
import { LastUsed } from './used'

/** Creates a key, or changes what one may do. */
export function KeyDrawer({ stored, tenant = '', onClose, onIssued, onRotate, onRevoke }: {
  /** The key that is edited; null when one is created. */
  stored: Key | null
  /** Whose key is made, where that is known. */
  tenant?: string
  onClose(): void
  onIssued(key: Key): void
  onRotate(key: Key): void
  onRevoke(key: Key): void
}) {
  const { t, said } = useI18n()
  const toast = useToast()
  const client = useQueryClient()
  const [base, setBase] = useState(stored)
  const { value: form, set: setForm, ...draft } = useDraft<KeyForm>(stored === null ? 'key' : `key ${stored.id}`, () => ({ ...toKeyForm(stored), ...(stored === null ? { tenant } : {}) }))
  const [view, setView] = useState<FormView>('form')
  const part = useMemo(() => keyChanges(form, base), [form, base])
  const dirty = Object.keys(part).length > 0
  const fixed = stored !== null && (stored.source === 'config' || stored.status === 'REVOKED')
  const leave = useLeaveGuard(dirty, draft.drop)
  const save = useMutation({
    mutationFn: (): Promise<Key> => data(stored === null ? api.POST('/api/auth/keys', { body: part }) : (api.PUT('/api/auth/keys/{id}', { params: { path: { id: stored.id } }, body: part }) as never)),
    onSuccess: async (key) => {
      leave.saved()
      await client.invalidateQueries({ queryKey: ['keys'] })
      await client.invalidateQueries({ queryKey: ['quota', 'budgets'] })
      if (stored === null) return onIssued(key)
      setBase(key)
      draft.reset(toKeyForm(key))
      toast(t('key.saved', { id: key.id }))
      onClose()
    },
  })
  const errors = fieldErrors(save.error, said)
  const set = <K extends keyof KeyForm>(field: K, next: KeyForm[K]) => setForm((old) => ({ ...old, [field]: next }))
  const title = stored === null ? t('key.create') : stored.id
  return (
    <Drawer
      label={title}
      title={stored === null ? title : <code className="text-[13px]">{title}</code>}
      sub={stored !== null && <div className="muted text-[11px]">{t(`key.source.${stored.source}`)}</div>}
      tools={<FormViews label={t('common.form')} value={view} onChange={setView} />}
      onClose={onClose}
      footer={
        <>
          {stored !== null && stored.status !== 'REVOKED' && (
            <button type="button" className="btn danger" onClick={() => onRevoke(stored)}>
              {t('key.revoke')}
            </button>
          )}
          {stored !== null && !fixed && (
            <button type="button" className="btn" onClick={() => onRotate(stored)}>
              {t('key.rotate')}
            </button>
          )}
          <span className="grow" />
          <button type="button" className="btn" onClick={onClose}>
            {t(dirty ? 'common.discard' : 'common.close')}
          </button>
          {!fixed && (
            <button type="submit" form="key-form" className="btn pri" disabled={save.isPending || (stored !== null && !dirty)}>
              {t(stored === null ? 'key.createAs' : 'key.save')}
            </button>
          )}
        </>
      }
    >
      {leave.note}
      {save.error !== null && Object.keys(errors).length === 0 && (
        <div className="mb-3">
          <ErrorNote error={save.error} />
        </div>
      )}
      {view === 'yaml' && <FileText hint={t('key.yamlHint')} value={{ security: { keys: [keyInFile(form)] } }} />}
      {view === 'form' && stored !== null && <Facts stored={stored} />}
      {view === 'form' && stored !== null && (
        <div className="mb-4">
          <Errors question={{ keyId: stored.id }} />
        </div>
      )}
      <form
        id="key-form"
        hidden={view === 'yaml'}
        onSubmit={(event) => {
          event.preventDefault()
          if (stored === null || dirty) save.mutate()
        }}
      >
        {fixed && <div className="note mb-3">{t(stored.source === 'config' ? 'key.fromFile' : 'key.isRevoked')}</div>}
        <fieldset disabled={fixed} className="contents">
          {stored === null && <TextField label={t('key.id')} extra={t('common.optional')} mono value={form.id} hint={t('key.idHint')} error={errorsAt(errors, 'id')} name="id" onChange={(next) => set('id', next)} />}
          <TextField label={t('key.tenant')} extra={t('common.optional')} value={form.tenant} hint={t('key.tenantHint')} error={errorsAt(errors, 'tenant')} name="tenant" onChange={(next) => set('tenant', next)} />

          <TermFields form={form} set={set} errors={errors} fixed={fixed}>
            <TextField label={t('key.userHeader')} mono value={form.userHeader} placeholder="X-OpenWebUI-User-Email" hint={t('key.userHeaderHint')} error={errorsAt(errors, 'userHeader')} name="userHeader" onChange={(next) => set('userHeader', next)} />
          </TermFields>
          {/* Enter in a field saves, as in every form. */}
          <button type="submit" className="sr-only" tabIndex={-1} aria-hidden="true" disabled={save.isPending} />
        </fieldset>
      </form>
    </Drawer>
  )
}

/** What became of the key: when it was made, changed and used, and what is spent of its budgets. */
function Facts({ stored }: { stored: Key }) {
  const { t, locale } = useI18n()
  const { data: spent } = useQuery(spentThisMonth('key'))
  const { data: list } = useQuery({ ...budgetsQuery, refetchInterval: 5000 })
  const own = (list?.budgets ?? []).filter((use) => use.of === `key/${stored.id}`)
  return (
    <dl className="dl mb-4">
      {stored.createdAt !== undefined && (
        <>
          <dt>{t('key.created')}</dt>
          <dd>{stamp(stored.createdAt)}</dd>
        </>
      )}
      <dt>{t('key.used')}</dt>
      <dd>
        <LastUsed of={stored} whole />
      </dd>
      {spent?.shown && (
        <>
          <dt>{t('spend.thisMonth')}</dt>
          <dd>
            <Link className="link" to="/spend" search={{ only: `key~${stored.id}`, by: 'model' } as never}>
              {spentText(spent, stored.id, t, locale)}
            </Link>
          </dd>
        </>
      )}
      {stored.rotatedAt !== undefined && (
        <>
          <dt>{t('key.rotated')}</dt>
          <dd>
            {stamp(stored.rotatedAt)}
            {stored.previousUntil !== undefined && ` · ${t('key.oldUntil', { time: stamp(stored.previousUntil) })}`}
          </dd>
        </>
      )}
      {own.map((use) => (
        <div key={`${use.window} ${use.unit}`} className="contents">
          <dt>
            {t('key.budgets')} · {t(`quota.budget.${use.window}`)}
          </dt>
          <dd>
            {budgetText(use, list?.currency ?? '', t, locale)}
            <Bar share={use.used / use.limit} kind={use.used / use.limit >= 0.9 ? 'wn' : ''} />
          </dd>
        </div>
      ))}
    </dl>
  )
}
