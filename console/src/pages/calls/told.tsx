import type { Call } from '@/api/types'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'

/** What the caller was told, and whose limit or budget refused the call. */
export function Told({ call }: { call: Call }) {
  const { t } = useI18n()
  return (
    <div className="note bd mb-3">
      <div className="sub mt-0">{t('find.told')}</div>
      <p className="break-words">{call.errorMessage}</p>
      {call.refusedBy !== undefined && (
        <p className="mt-1">
          {t('find.refusedBy')}: <code>{call.refusedBy}</code>
          {call.refusedUntil !== undefined && ` · ${t('find.refusedUntil', { time: stamp(call.refusedUntil) })}`}
        </p>
      )}
    </div>
  )
}
