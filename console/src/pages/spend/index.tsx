import { useI18n } from '@/i18n'
import { oneOf } from '@/lib/url'
import { useDenied } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { Segments } from '@/ui/parts'
import { Ledger } from '../quota/ledger'
import { UsageView } from '../quota/usage-view'
import { Money } from './money'

const views = ['money', 'usage', 'ledger'] as const

/** What it cost, what was used, and the budgets and the ledger behind both. */
export default function SpendPage() {
  const { t } = useI18n()
  const [search, setSearch] = useSearchState()
  const denied = useDenied('config:quota:read')
  const view = denied === undefined ? oneOf(search.view, views) : 'money'
  return (
    <>
      {denied === undefined && (
        <div className="bar">
          <Segments
            label={t('nav.spend')}
            value={view}
            options={views.map((value) => ({ value, label: t(`spend.view.${value}`) }))}
            onChange={(value) => setSearch(() => ({ view: value === 'money' ? undefined : value }), true)}
          />
        </div>
      )}
      {view === 'money' ? <Money /> : view === 'usage' ? <UsageView /> : <Ledger />}
    </>
  )
}
