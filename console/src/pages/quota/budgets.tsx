import { useQuery } from '@tanstack/react-query'
import { budgets } from '@/api/queries'
import type { BudgetUse } from '@/api/types'
import { useI18n } from '@/i18n'
import { utc } from '@/lib/format'
import { budgetNumber, budgetText } from '@/lib/money'
import { Bar } from '@/ui/parts'
import { isAmong, RefusedNote, useRefusing } from './refused'

/** How much of each budget is used and reserved; nothing where nobody has one. */
export function Budgets() {
  const { t } = useI18n()
  const query = useQuery({ ...budgets, refetchInterval: 3000 })
  const rows = query.data?.budgets ?? []
  const refused = useRefusing()
  if (rows.length === 0) return null
  return (
    <section className="mb-4">
      <div className="h2">
        <h2>{t('quota.budgets')}</h2>
      </div>
      <RefusedNote of={refused} />
      <BudgetTable rows={rows} currency={query.data?.currency ?? ''} isOut={(row) => isAmong(refused, row)} />
    </section>
  )
}

/** Budgets, how much of each is used, and when it begins anew. */
export function BudgetTable({ rows, currency, isOut, nameOf }: {
  rows: readonly BudgetUse[]
  currency: string
  /** Whether a budget refuses calls now. */
  isOut(row: BudgetUse): boolean
  /** The name of a key or tenant, where the reader knows it by another one. */
  nameOf?(of: string): string
}) {
  const { t, locale } = useI18n()
  const named = nameOf ?? ((of) => of.replace(/^(key|tenant)\/(.*)$/, (_, kind: 'key' | 'tenant', id: string) => t(`batch.${kind}`, { id })))
  return (
    <div className="panel">
      <table className="tbl bdg">
        <thead>
          <tr>
            <th>{t('quota.budgetOf')}</th>
            <th>{t('quota.window')}</th>
            <th className="num">{t('quota.budgetUsed')}</th>
            <th className="onlydesk w-[120px]">
              <span className="sr-only">{t('quota.budgetUsed')}</span>
            </th>
            <th className="num onlydesk">{t('quota.budgetReserved')}</th>
            <th className="onlydesk">{t('quota.budgetReset')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const share = Math.min(1, row.used / row.limit)
            const out = isOut(row)
            return (
              <tr key={`${row.of} ${row.window} ${row.unit}`}>
                <td className="of">
                  <span title={row.of}>{named(row.of)}</span>
                </td>
                <td>{t(`quota.budget.${row.window}`)}</td>
                <td className={`num ${out ? 'bad font-semibold' : share >= 0.9 ? 'warn font-semibold' : ''}`}>
                  {budgetText(row, currency, t, locale)}
                </td>
                <td className="onlydesk">
                  <Bar share={share} kind={out ? 'bd' : share >= 0.9 ? 'wn' : ''} />
                </td>
                <td className="num onlydesk">{budgetNumber(row.reserved, row.unit, locale)}</td>
                <td className="onlydesk">{row.reset == null ? t('quota.budgetNever') : `${utc(row.reset)} UTC`}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
