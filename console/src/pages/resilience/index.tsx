import { useI18n } from '@/i18n'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { Part } from '@/ui/feedback'
import { Breakers } from './breakers'
import { Degradation } from './degradation'
import { Limits } from './limits'
import { Queues } from './queues'
import { Shares } from './shares'

export default function Resilience() {
  const { t } = useI18n()
  usePageFact(t('res.sum'))
  usePageCalls([{ path: '/api/monitoring/circuit-breaker' }, { path: '/api/monitoring/shares?range=5m' }, { path: '/api/monitoring/rate-limit' }, { path: '/api/monitoring/degradation/status' }])
  return (
    <>
      <Part>
        <Breakers />
      </Part>
      <Part>
        <Shares />
      </Part>
      <Part>
        <Queues />
      </Part>
      <div className="cols even">
        <Part>
          <Limits />
        </Part>
        <Part>
          <Degradation />
        </Part>
      </div>
    </>
  )
}
