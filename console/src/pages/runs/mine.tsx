import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useI18n } from '@/i18n'
import { since } from '@/lib/format'
import { useNow } from '@/live/context'
import { useMe } from '@/shell/session'
import { runs, type Run } from './api'
import { Actions, LoopNote, Meters, State } from './parts'

/** The latest runs of the person's own keys, and of their team where they manage it; nothing where there are none. */
export function OwnRuns() {
  const { t } = useI18n()
  const me = useMe()
  const list = useQuery(runs({ sort: 'last', size: 10 }, 5000)).data?.content ?? []
  if (list.length === 0) return null
  const managed = (me?.memberships ?? []).filter(({ role }) => role === 'TEAM_ADMIN').map(({ tenant }) => tenant)
  return (
    <section className="mb-4" aria-labelledby="own-runs">
      <div className="h2">
        <h2 id="own-runs">{t('runs.own')}</h2>
        <span className="soft grow">{t('runs.ownHint')}</span>
      </div>
      <div className="panel px-3">
        {list.map((run) => (
          <OwnRun key={run.id} run={run} mayAct={run.tenant !== undefined && managed.includes(run.tenant)} />
        ))}
      </div>
    </section>
  )
}

function OwnRun({ run, mayAct }: { run: Run; mayAct: boolean }) {
  const { locale } = useI18n()
  const now = useNow(1000)
  const [isEnding, setEnding] = useState(false)
  return (
    <details className="ownrun">
      <summary>
        <code>{run.name}</code> <State run={run} /> <span className="muted">{since(run.started, now, locale)}</span>
      </summary>
      {run.reason !== undefined && <p>{run.reason}</p>}
      <LoopNote run={run} />
      {mayAct && <Actions run={run} isEnding={isEnding} setEnding={setEnding} />}
      <Meters run={run} />
    </details>
  )
}
