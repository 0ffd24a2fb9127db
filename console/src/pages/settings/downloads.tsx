import { useMutation } from '@tanstack/react-query'
import { Download } from 'lucide-react'
import dashboard from '../../../../deploy/grafana/patchbay.json?url'
import { useI18n } from '@/i18n'
import { maskSecrets } from '@/lib/yaml'
import { ErrorNote } from '@/ui/feedback'

/** What somebody who helps must know; secrets are masked, contents of calls are not known to the gateway. */
const parts = [
  '/actuator/info', '/actuator/health/detailed', '/actuator/env', '/api/config/type', '/api/config/version?details=true', '/api/monitoring/instances',
  '/api/monitoring/circuit-breaker', '/api/monitoring/rate-limit', '/api/monitoring/problems?limit=100', '/api/monitoring/calls?limit=200', '/api/monitoring/series?range=1h', '/actuator/loggers',
]

function save(name: string, type: string, text: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}

async function bundle(): Promise<void> {
  const read = async (path: string): Promise<readonly [string, unknown]> => {
    const reply = await fetch(path)
    return [path, maskSecrets(await reply.json().catch(() => ({ status: reply.status })))]
  }
  const found = Object.fromEntries(await Promise.all(parts.map(read)))
  save(`patchbay-support-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.json`, 'application/json', JSON.stringify(found, null, 2))
}

async function configuration(): Promise<void> {
  const current = (await (await fetch('/api/config/version/current')).json()) as { data: number }
  const reply = await fetch(`/api/config/version/${current.data}`, { headers: { accept: 'application/yaml' } })
  if (!reply.ok) throw new Error(await reply.text())
  save(`patchbay-version-${current.data}.yaml`, 'application/yaml', await reply.text())
}

export function Downloads() {
  const { t } = useI18n()
  const make = useMutation({ mutationFn: (run: () => Promise<void>) => run() })
  return (
    <>
      <div className="h2">
        <h2>{t('set.downloads')}</h2>
      </div>
      <div className="panel grid justify-items-start gap-2 p-4">
        <button type="button" className="btn" disabled={make.isPending} title={t('set.bundleHint')} onClick={() => make.mutate(bundle)}>
          <Download className="ic s14" aria-hidden />
          {t('set.bundle')}
        </button>
        <button type="button" className="btn" disabled={make.isPending} onClick={() => make.mutate(configuration)}>
          <Download className="ic s14" aria-hidden />
          {t('set.effective')}
        </button>
        <a className="btn" href={dashboard} download="patchbay-grafana.json">
          <Download className="ic s14" aria-hidden />
          {t('set.dashboard')}
        </a>
        <p className="hint">{t('set.bundleHint')}</p>
        {make.error !== null && <ErrorNote error={make.error} />}
      </div>
    </>
  )
}
