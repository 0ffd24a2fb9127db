import { Link } from '@tanstack/react-router'
import { useI18n } from '@/i18n'
import { CodeBox } from '@/ui/parts'

/** Nothing is counted, and where that is changed. */
export function LedgerOff() {
  const { t } = useI18n()
  return (
    <div className="panel empty">
      <h2>{t('spend.offTitle')}</h2>
      <p>{t('spend.offText')}</p>
      <Link className="btn pri" to="/spend" search={{ view: 'ledger' } as never}>
        {t('spend.toQuota')}
      </Link>
      <CodeBox text={'quota:\n  enabled: true'} />
    </div>
  )
}
