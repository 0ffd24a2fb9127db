import { useState } from 'react'
import { useI18n } from '@/i18n'
import { shell } from '@/lib/snippets'
import { GuardedLink } from '@/shell/guard'
import { DocsLink } from '@/ui/docs'
import { CodeBox } from '@/ui/parts'

/** An empty gateway shows three ways forward, each with a working command. */
export function FirstRun() {
  const { t } = useI18n()
  const [way, setWay] = useState<'demo' | 'import' | null>(null)
  return (
    <div className="panel empty">
      <h2>{t('overview.first.title')}</h2>
      <p>{t('overview.first.text')}</p>
      <div className="grid w-full max-w-[360px] gap-2">
        <GuardedLink needs="config:instance:write" className="btn pri" to="/services" search={{ add: 'chat' } as never}>
          {t('overview.first.add')}
        </GuardedLink>
        <button type="button" className="btn" aria-expanded={way === 'demo'} onClick={() => setWay('demo')}>
          {t('overview.first.demo')}
        </button>
        <button type="button" className="btn" aria-expanded={way === 'import'} onClick={() => setWay('import')}>
          {t('overview.first.import')}
        </button>
        <DocsLink className="btn ghost" page="first-backend">
          {t('guide.backend')}
        </DocsLink>
      </div>
      {way === 'demo' && (
        <div className="grid w-full gap-2">
          <p>{t('overview.first.demoText')}</p>
          <CodeBox text="patchbay demo --listen 127.0.0.1:0" />
        </div>
      )}
      {way === 'import' && (
        <div className="grid w-full gap-2">
          <p>{t('overview.first.importText')}</p>
          <CodeBox
            fold
            text={shell`curl -X POST ${`${location.origin}/api/config/type/services/chat`} -H 'Content-Type: application/json' -d '{"loadBalancer":"round_robin","instances":[{"name":"llama3.1:8b","baseUrl":"http://127.0.0.1:11434","adapter":"ollama"}]}'`}
          />
        </div>
      )}
    </div>
  )
}
