import { useBlocker } from '@tanstack/react-router'
import { TriangleAlert } from 'lucide-react'
import { useRef, type ReactNode } from 'react'
import { useI18n } from '@/i18n'

/** Asks before changes that are not saved are left behind. */
export function useLeaveGuard(dirty: boolean): { note: ReactNode; saved(): void } {
  const { t } = useI18n()
  const done = useRef(false)
  const leave = useBlocker({ shouldBlockFn: () => dirty && !done.current, withResolver: true, enableBeforeUnload: () => dirty && !done.current })
  return {
    saved: () => {
      done.current = true
    },
    note: leave.status === 'blocked' && (
      <div className="note wn mb-3" role="alert">
        <TriangleAlert className="ic" aria-hidden />
        <div>
          <b>{t('services.leave')}</b>
          <div className="acts">
            <button type="button" className="btn sm" onClick={leave.proceed}>
              {t('services.leaveYes')}
            </button>
            <button type="button" className="btn ghost sm" onClick={leave.reset}>
              {t('common.cancel')}
            </button>
          </div>
        </div>
      </div>
    ),
  }
}
