import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { TestResult } from '@/api/types'
import { useI18n } from '@/i18n'
import { duration, percent, rate, splitId, text } from '@/lib/format'
import { useNow, useStats } from '@/live/context'
import { empty } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { useDenied } from '@/shell/guard'
import { Name } from '@/ui/parts'
import { StatePill } from '@/ui/status'
import type { useRows } from '../services/rows'
import { InstanceActions, tested, testOf } from './actions'
import { Section } from './parts'

/** The instances of a model, by their hosts, or those of a host, by their models, each with its hands. */
export function Instances({ members, table, named }: { members: InstanceState[]; table: ReturnType<typeof useRows>; named: 'host' | 'model' }) {
  const { t } = useI18n()
  const now = useNow()
  const stats = useStats('5m')
  return (
    <Section title={t('wrong.instances')} more={`${t('common.instances', { n: members.length })} · ${t('wrong.lastMinute')}`}>
      <div className="panel">
        {members.length === 0 && <div className="muted px-3 py-3">{t(named === 'host' ? 'wrong.noInstances' : 'wrong.hostEmpty')}</div>}
        {members.map((one) => {
          const its = stats.instances.get(`${one.service} ${one.id}`) ?? empty
          return (
            <div key={`${one.service} ${one.id}`} className="pr obj hand">
              <StatePill instance={one} now={now} />
              <Link className="min-w-0" title={one.id} to="/instance" search={{ service: one.service, id: one.id } as never}><Name>{one[named]}</Name></Link>
              <span className="muted nowrap">{rate(its.rate)} {t('common.reqs')} · {t('wrong.ofTries', { errors: percent(its.errorRate) })} · {text(duration(its.p95))}</span>
              <InstanceActions menu state={one} table={table} />
            </div>
          )
        })}
      </div>
    </Section>
  )
}

/** Makes a real call to each of several instances, and says how many answered. */
export function TestAll({ members, named }: { members: InstanceState[]; named: 'host' | 'model' }) {
  const i18n = useI18n()
  const { t, failure } = i18n
  const denied = useDenied('config:instance:write')
  const test = useMutation({
    mutationFn: () => Promise.all(members.filter((one) => one.enabled).map(async (one): Promise<[string, TestResult]> => [one.id, await testOf(one.service, one.id)])),
  })
  const results = test.data ?? []
  const bad = results.find(([, result]) => !result.ok)
  return (
    <>
      <button type="button" className="btn" disabled={denied !== undefined || test.isPending || members.length === 0} title={denied} onClick={() => test.mutate()}>{t('wrong.testModel')}</button>
      {test.isPending && <span className="muted" role="status">{t('common.loading')}</span>}
      {test.data !== undefined && (
        <span className={bad === undefined ? 'soft' : 'bad'} role="status">
          {t('wrong.testedAll', { n: results.filter(([, result]) => result.ok).length, all: results.length })}
          {bad !== undefined && ` ${splitId(bad[0])[named]}: ${tested(i18n, bad[1])}`}
        </span>
      )}
      {test.error !== null && <span className="bad" role="status">{failure(test.error)}</span>}
    </>
  )
}
