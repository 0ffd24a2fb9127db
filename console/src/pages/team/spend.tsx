import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useMemo } from 'react'
import { ask, fieldErrors } from '@/api/client'
import type { TeamBudgets } from '@/api/types'
import { useI18n } from '@/i18n'
import { usePageCalls } from '@/shell/api-calls'
import { useDraft } from '@/shell/draft'
import { useLeaveGuard } from '@/shell/leave'
import { ErrorNote, useToast } from '@/ui/feedback'
import { budgetUnits, budgetWindows, toBudgetForm, wholeBudgets } from '../keys/form'
import { BudgetFields } from '../keys/term-fields'
import { ownPace, useNameOf } from '../me/calls'
import { keysAt } from '../me/keys'
import { OwnUsage } from '../me/usage'
import { BudgetTable } from '../quota/budgets'

/** What a team spends, how much of its budgets is used, and the budgets that it sets itself. */
export function TeamSpend({ at }: { at: string }) {
  const { t } = useI18n()
  const { data: keys } = useQuery(keysAt(at))
  const nameOf = useNameOf(keys ?? [])
  const query = useQuery({ queryKey: ['own', at, 'budgets'], refetchInterval: ownPace, queryFn: ({ signal }) => ask<TeamBudgets>(`${at}/budgets`, 'GET', undefined, signal) })
  usePageCalls([{ path: `${at}/usage?by=model` }, { path: `${at}/budgets` }])
  return (
    <>
      <section className="mb-4" aria-labelledby="team-usage">
        <div className="h2 mt-0">
          <h2 id="team-usage">{t('team.usage')}</h2>
        </div>
        <OwnUsage at={at} nameOf={nameOf} />
      </section>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && (
        <section aria-labelledby="team-budgets">
          <div className="h2">
            <h2 id="team-budgets">{t('quota.budgets')}</h2>
          </div>
          {query.data.uses.budgets.length > 0 && <BudgetTable rows={query.data.uses.budgets} currency={query.data.uses.currency} nameOf={nameOf} isOut={({ used, limit }) => used >= limit} />}
          <OwnBudgets key={at} at={at} stored={query.data} />
        </section>
      )}
    </>
  )
}

/** The budgets below those of the tenant. */
function OwnBudgets({ at, stored }: { at: string; stored: TeamBudgets }) {
  const { t, said } = useI18n()
  const client = useQueryClient()
  const toast = useToast()
  const base = useMemo(() => toBudgetForm(stored.team), [stored.team])
  const { value: form, set, ...draft } = useDraft(`${at} budgets`, () => base)
  const dirty = budgetWindows.some((window) => budgetUnits.some((unit) => form[window][unit].trim() !== base[window][unit]))
  const leave = useLeaveGuard(dirty, draft.drop)
  const save = useMutation({
    mutationFn: () => ask<TeamBudgets>(`${at}/budgets`, 'PUT', { budgets: wholeBudgets(form) }),
    onSuccess: async ({ team }) => {
      leave.saved()
      draft.reset(toBudgetForm(team))
      await client.invalidateQueries({ queryKey: ['own', at] })
      toast(t('team.budgetsSaved'))
    },
  })
  const errors = fieldErrors(save.error, said)
  return (
    <form
      className="panel p-4 mt-3 max-w-[560px]"
      onSubmit={(event) => {
        event.preventDefault()
        save.mutate()
      }}
    >
      <h3 className="font-semibold">{t('team.budgets')}</h3>
      <p className="soft mb-3">{t('team.budgetsText')}</p>
      {leave.note}
      <BudgetFields budgets={form} errors={errors} allowed={stored.tenant} onChange={(next) => set(() => next)} />
      {save.error !== null && Object.keys(errors).length === 0 && <ErrorNote error={save.error} />}
      <div className="acts mt-3">
        <button type="submit" className="btn pri" disabled={!dirty || save.isPending}>
          {t('common.save')}
        </button>
      </div>
    </form>
  )
}
