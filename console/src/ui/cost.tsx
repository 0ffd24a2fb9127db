import { useQuery } from '@tanstack/react-query'
import { budgets } from '@/api/queries'
import type { Call } from '@/api/types'
import { useI18n } from '@/i18n'
import { money } from '@/lib/money'

/** What a call cost; nothing where its model has no price. */
export function CallCost({ call, after = '' }: { call: Pick<Call, 'cost'>; after?: string }) {
  const { t, locale } = useI18n()
  const { data } = useQuery(budgets)
  if (call.cost === undefined || call.cost === 0 || data === undefined) return null
  return <span title={t('pg.costHint')}>{money(call.cost, data.currency, locale) + after}</span>
}
