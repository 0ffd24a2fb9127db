import { useBlocker } from '@tanstack/react-router'
import { TriangleAlert } from 'lucide-react'
import { useEffect, useRef, type ReactNode } from 'react'
import { useI18n } from '@/i18n'

/** Asks before changes that are not saved are left behind. What was kept of them is dropped when they are saved, taken back or given up. */
export function useLeaveGuard(dirty: boolean, drop: () => void = nothing): { note: ReactNode; saved(): void } {
  const { t } = useI18n()
  const done = useRef(false)
  useEffect(() => {
    if (dirty) return
    done.current = false
    drop()
  }, [dirty, drop])
  const leave = useBlocker({ shouldBlockFn: () => dirty && !done.current, withResolver: true, enableBeforeUnload: () => dirty && !done.current })
  return {
    saved: () => {
      done.current = true
      drop()
    },
    note: leave.status === 'blocked' && (
      <div className="note wn mb-3" role="alert">
        <TriangleAlert className="ic" aria-hidden />
        <div>
          <b>{t('services.leave')}</b>
          <div className="acts">
            <button
              type="button"
              className="btn sm"
              onClick={() => {
                drop()
                leave.proceed()
              }}
            >
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

const nothing = () => undefined
