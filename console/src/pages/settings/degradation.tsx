import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api, body } from '@/api/client'
import { useI18n } from '@/i18n'
import { percent } from '@/lib/format'
import { Guard } from '@/shell/guard'
import { ErrorNote, useToast } from '@/ui/feedback'
import { Bar, Segments, Toggle } from '@/ui/parts'
import { useMonitoring } from '@/api/monitoring'

type Level = 'NORMAL' | 'PARTIAL' | 'MINIMAL' | 'DISABLED'
const levels: readonly Level[] = ['NORMAL', 'PARTIAL', 'MINIMAL', 'DISABLED']

interface Status {
  level: Level
  samplingRate: number
  autoModeEnabled: boolean
}

interface Errors {
  components: { component?: string; name?: string; operation?: string; errorCount?: number; count?: number }[]
}

/** How much of the traffic is recorded, and what the recording suffers from. */
export function Degradation() {
  const { t, failure } = useI18n()
  const client = useQueryClient()
  const toast = useToast()
  const status = useMonitoring<Status>('degradation', (signal) => body(api.GET('/api/monitoring/degradation/status', { signal })), 2000)
  const cache = useMonitoring<{ currentSize: number; maxSize: number; usageRatio: number }>('cache', (signal) => body(api.GET('/api/monitoring/cache/stats', { signal })), 2000)
  const errors = useMonitoring<Errors>('errors', (signal) => body(api.GET('/api/monitoring/errors/stats', { signal })), 5000)
  const change = useMutation({
    mutationFn: async ({ run }: { run: () => Promise<unknown>; said: string }) => run(),
    onSuccess: async (_, { said }) => {
      await client.invalidateQueries({ queryKey: ['monitoring'] })
      toast(said)
    },
    onError: (error) => toast(failure(error)),
  })
  const level = status.data?.level ?? 'NORMAL'
  const setLevel = (next: Level) =>
    change.mutate({ run: () => body(api.POST('/api/monitoring/degradation/level', { body: { level: next } }) as never), said: t('res.changed', { level: t(`res.${next}`) }) })
  const setAuto = (enabled: boolean) =>
    change.mutate({ run: () => body(api.POST('/api/monitoring/degradation/auto-mode', { body: { enabled } }) as never), said: `${t('res.autoMode')}: ${t(enabled ? 'common.on' : 'common.off')}` })
  const recover = () => change.mutate({ run: () => body(api.POST('/api/monitoring/degradation/force-recovery', {}) as never), said: t('res.changed', { level: t('res.NORMAL') }) })
  const broken = errors.data?.components ?? []
  return (
    <section>
      <div className="h2" id="recording">
        <h2>{t('res.degradation')}</h2>
      </div>
      <div className="panel grid gap-3 p-3">
        <Guard needs="monitoring:config:write" say>
          {status.error !== null && <ErrorNote error={status.error} title={t('error.load')} />}
          <div className="row flex-wrap">
            <Segments label={t('res.level')} value={level} options={levels.map((value) => ({ value, label: t(`res.${value}`) }))} onChange={setLevel} />
            <span className={level === 'NORMAL' ? 'soft' : 'warn font-semibold'}>
              {t('res.sampling')}: {percent(status.data?.samplingRate ?? null, 0)}
            </span>
          </div>
          <p className="hint">{t(`res.is.${level}`)}</p>
          <div className="row flex-wrap">
            <Toggle checked={status.data?.autoModeEnabled ?? false} onChange={setAuto}>
              {t('res.autoMode')}
            </Toggle>
            <span className="grow" />
            {level !== 'NORMAL' && (
              <button type="button" className="btn sm" onClick={recover}>
                {t('res.recover')}
              </button>
            )}
          </div>
          <div>
            <div className="row mb-2 flex-wrap">
              <span className="grow">{t('res.cache')}</span>
              <span className="soft">{t('res.cacheUse', { n: cache.data?.currentSize ?? 0, k: cache.data?.maxSize ?? 0 })}</span>
              <button type="button" className="btn sm" onClick={() => change.mutate({ run: () => body(api.POST('/api/monitoring/cache/clear', {}) as never), said: t('res.cleared') })}>
                {t('res.clearCache')}
              </button>
            </div>
            <Bar share={cache.data?.usageRatio ?? 0} kind={(cache.data?.usageRatio ?? 0) > 0.8 ? 'wn' : ''} />
          </div>
          <div>
            <div className="mb-1">{t('res.errors')}</div>
            {broken.length === 0 && <p className="muted">{t('res.noErrors')}</p>}
            {broken.map((one, index) => {
              const component = one.component ?? one.name ?? ''
              const operation = one.operation ?? ''
              return (
                <div key={index} className="row text-[12px]">
                  <code className="grow trunc">
                    {component} {operation}
                  </code>
                  <span className="bad">{one.errorCount ?? one.count}</span>
                  <button type="button" className="btn sm" onClick={() => change.mutate({ run: () => body(api.POST('/api/monitoring/errors/reset', { body: { component, operation } }) as never), said: t('res.noErrors') })}>
                    {t('res.reset')}
                  </button>
                </div>
              )
            })}
          </div>
        </Guard>
      </div>
    </section>
  )
}
