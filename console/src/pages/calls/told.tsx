import type { Call } from '@/api/types'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { DocsLink } from '@/ui/docs'

/** What the caller was told, whose limit or budget refused the call, and what to do about it. */
export function Told({ call }: { call: Call }) {
  const { t, said } = useI18n()
  return (
    <div className="note bd mb-3">
      <div className="min-w-0">
        <div className="sub mt-0">{t('find.told')}</div>
        <p className="break-words">{said(call.said, call.errorMessage)}</p>
        {call.refusedBy !== undefined && (
          <p className="mt-1">
            {t('find.refusedBy')}: <code>{call.refusedBy}</code>
            {call.refusedUntil !== undefined && ` · ${t('find.refusedUntil', { time: stamp(call.refusedUntil) })}`}
          </p>
        )}
        {call.errorCode !== undefined && call.errorCode !== '' && (
          <p className="mt-1">
            <DocsLink page="errors" section={call.errorCode}>
              {t('guide.whatToDo')}
            </DocsLink>
          </p>
        )}
      </div>
    </div>
  )
}
