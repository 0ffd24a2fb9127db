import { useMemo, useState } from 'react'
import { fieldErrors } from '@/api/client'
import { useEdit, useNextVersion } from '@/api/mutations'
import { useI18n } from '@/i18n'
import { usePageCalls } from '@/shell/api-calls'
import { useDraft } from '@/shell/draft'
import { Guard } from '@/shell/guard'
import { useLeaveGuard } from '@/shell/leave'
import { NotSaved } from '@/ui/conflict'
import { Confirm, Drawer } from '@/ui/overlay'
import { termChanges, toTermForm, type StoredTerms, type TermForm } from '../keys/form'
import { TermFields } from '../keys/term-fields'

/** Changes what a tenant may use, and how much of it. */
export function TermsDrawer({ tenant, stored, version, onClose }: { tenant: string; stored: StoredTerms | null; version: number; onClose(): void }) {
  const { t, said } = useI18n()
  const edit = useEdit()
  const [base, setBase] = useState({ version, stored })
  const { value: form, set: setForm, ...draft } = useDraft<TermForm>(`tenant ${tenant}`, () => toTermForm(stored))
  const [dropping, setDropping] = useState(false)
  const next = useNextVersion(version)
  const part = useMemo(() => termChanges(form, base.stored), [form, base.stored])
  const dirty = Object.keys(part).length > 0
  const leave = useLeaveGuard(dirty, draft.drop)
  const errors = fieldErrors(edit.error, said)
  const set = <K extends keyof TermForm>(field: K, value: TermForm[K]) => setForm((old) => ({ ...old, [field]: value }))
  usePageCalls([{ method: 'PUT', path: `/api/config/terms/tenants/${encodeURIComponent(tenant)}`, body: part, version: base.version }])
  const done = () => {
    leave.saved()
    onClose()
  }
  const save = (onVersion: number) => edit.mutate({ edit: { kind: 'tenant', tenant, terms: part }, version: onVersion, said: t('wrong.termsSaved', { name: tenant }) }, { onSuccess: done })
  return (
    <Drawer
      label={t('wrong.termsOf', { name: tenant })}
      title={t('wrong.termsOf', { name: tenant })}
      onClose={onClose}
      footer={
        <Guard needs="config:terms:write">
          {stored !== null && (
            <button type="button" className="btn danger" onClick={() => setDropping(true)}>
              {t('wrong.dropTerms')}
            </button>
          )}
          <span className="grow" />
          <button type="button" className="btn" onClick={onClose}>
            {t(dirty ? 'common.discard' : 'common.close')}
          </button>
          <button type="submit" form="terms-form" className="btn pri" disabled={!dirty || edit.isPending}>
            {t('services.saveAs', { n: next })}
          </button>
        </Guard>
      }
    >
      {leave.note}
      <NotSaved
        error={edit.error}
        isAtField={Object.keys(errors).length > 0}
        base={base.stored}
        theirs={stored}
        mine={part}
        from={base.version}
        to={version}
        onBase={() => setBase({ version, stored })}
        onKeep={() => save(version)}
        onTake={() => {
          draft.reset(toTermForm(stored))
          edit.reset()
        }}
      />
      <p className="soft mb-3">{t('wrong.termsHint', { name: tenant })}</p>
      <Guard needs="config:terms:write" say>
        <form
          id="terms-form"
          onSubmit={(event) => {
            event.preventDefault()
            if (dirty) save(base.version)
          }}
        >
          <TermFields form={form} set={set} errors={errors} fixed={false} />
          {/* Enter in a field saves, as in every form. */}
          <button type="submit" className="sr-only" tabIndex={-1} aria-hidden="true" disabled={edit.isPending} />
        </form>
      </Guard>
      {dropping && (
        <Confirm
          title={t('wrong.dropTermsTitle', { name: tenant })}
          action={t('wrong.dropTerms')}
          onClose={() => {
            setDropping(false)
            edit.reset() // what is shown of an edit that failed would save the form in its place
          }}
          onConfirm={() => edit.mutateAsync({ edit: { kind: 'dropTenant', tenant }, version, said: t('wrong.termsDropped', { name: tenant }) }).then(done)}
        >
          <p>{t('wrong.dropTermsText')}</p>
        </Confirm>
      )}
    </Drawer>
  )
}
