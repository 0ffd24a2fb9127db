import { useMutation } from '@tanstack/react-query'
import { Ellipsis } from 'lucide-react'
import { useState } from 'react'
import { api, data } from '@/api/client'
import { useEdit } from '@/api/mutations'
import type { ServiceType, TestResult } from '@/api/types'
import { useI18n, type I18n } from '@/i18n'
import { duration, rate, splitId, text } from '@/lib/format'
import { useLive, useStats } from '@/live/context'
import { empty } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { useDenied } from '@/shell/guard'
import { useToast } from '@/ui/feedback'
import { Confirm } from '@/ui/overlay'
import { Menu } from '@/ui/parts'
import { HoldConfirm, useHold } from '../services/hold'
import { LeftWithout } from '../services/last'
import { servingRows, servingStates, type useRows } from '../services/rows'

/** A real minimal call to the backend of an instance. */
export const testOf = (service: ServiceType, instanceId: string) =>
  data(api.POST('/api/config/instance/test/{serviceType}', { params: { path: { serviceType: service } }, body: { instanceId } as never })) as Promise<TestResult>

/** How a test went, in a sentence. */
export function tested({ t, said }: Pick<I18n, 't' | 'said'>, result: TestResult): string {
  return result.ok ? t('wrong.testOk', { ms: text(duration(result.durationMs)) }) : t('wrong.testFailed', { text: result.upstreamError !== undefined ? said(result.said, result.upstreamError) : result.cause ?? String(result.httpStatus ?? '') })
}

type Asked = 'off' | 'drain' | 'OPEN' | 'CLOSED'

/** What can be done with an instance: as buttons, or in a menu. What takes it out asks, and names what that does. */
export function InstanceActions({ state, table, menu = false, asked, onAnswered }: { state: InstanceState; table: ReturnType<typeof useRows>; menu?: boolean; /** What the address asks for. */ asked?: string; onAnswered?(): void }) {
  const i18n = useI18n()
  const { t, failure } = i18n
  const edit = useEdit()
  const toast = useToast()
  const { snapshot } = useLive()
  const denied = useDenied('config:instance:write')
  const [asks, setAsks] = useState<Asked | null>(asked === 'off' || asked === 'drain' ? asked : null)
  const force = useHold()
  const close = () => {
    setAsks(null)
    onAnswered?.()
  }
  const { service, id } = state
  const { model, host } = splitId(id)
  const stat = useStats('5m').instances.get(`${service} ${id}`) ?? empty
  const change = (instance: { enabled?: boolean; weight?: number }, said: string) => edit.mutateAsync({ edit: { kind: 'update', service, id, instance }, version: table.version, said })
  const failed = (error: Error) => toast(failure(error))
  const test = useMutation({ mutationFn: () => testOf(service, id) })
  const isStored = table.rows.some((row) => row.service === service && row.id === id)
  const off = denied ?? (edit.isPending ? t('common.loading') : undefined)
  const fixed = off ?? (isStored ? undefined : t('wrong.found'))
  const hands: { name: string; off: string | undefined; run(): void }[] = [
    { name: t('wrong.test'), off: off ?? (test.isPending ? t('common.loading') : undefined), run: () => test.mutate() },
    state.enabled
      ? { name: t('wrong.disable'), off: fixed, run: () => setAsks('off') }
      : { name: t('wrong.enable'), off: fixed, run: () => void change({ enabled: true }, t('services.enabled', { model, host })).catch(failed) },
    state.weight > 0
      ? { name: t('wrong.drain'), off: fixed, run: () => setAsks('drain') }
      : { name: t('wrong.undrain'), off: fixed, run: () => void change({ weight: 1 }, t('services.weightIs', { n: 1 })).catch(failed) },
    ...(state.forced
      ? [{ name: t('wrong.release'), off, run: () => force.mutate({ instance: state, state: 'AUTO' }, { onError: failed }) }]
      : [{ name: t('wrong.hold'), off, run: () => setAsks('OPEN') }, { name: t('res.holdClosed'), off, run: () => setAsks('CLOSED') }]),
  ]
  const serving = isStored ? servingRows(table.rows) : servingStates(snapshot?.instances ?? [])
  const said = test.data !== undefined ? tested(i18n, test.data) : test.error === null ? undefined : failure(test.error)
  return (
    <>
      {menu ? (
        <>
          {said !== undefined && <span className={`testsaid ${test.data?.ok === true ? 'soft' : 'bad'}`} role="status" title={said}>{said}</span>}
          <Menu
            trigger={
              <button type="button" className="btn ghost icon" aria-label={`${t('common.more')}: ${id}`}>
                <Ellipsis className="ic" aria-hidden />
              </button>
            }
            items={hands.map((hand) => ({ label: hand.name, disabled: hand.off !== undefined, title: hand.off, onSelect: hand.run }))}
          />
        </>
      ) : (
        <>
          {hands.map((hand) => (
            <button key={hand.name} type="button" className="btn" disabled={hand.off !== undefined} title={hand.off} onClick={hand.run}>
              {hand.name}
            </button>
          ))}
          {said !== undefined && <span className={test.data?.ok === true ? 'soft' : 'bad'} role="status">{said}</span>}
        </>
      )}
      {(asks === 'OPEN' || asks === 'CLOSED') && <HoldConfirm hold={{ instance: state, state: asks }} serving={serving} onClose={close} />}
      {(asks === 'off' || asks === 'drain') && (
        <Confirm
          title={t(asks === 'off' ? 'wrong.disableTitle' : 'wrong.drainTitle', { model })}
          action={t(asks === 'off' ? 'wrong.disable' : 'wrong.drain')}
          onClose={close}
          onConfirm={() => (asks === 'off' ? change({ enabled: false }, t('services.disabled', { model, host })) : change({ weight: 0 }, t('services.weightIs', { n: 0 })))}
        >
          <LeftWithout serving={serving} out={[`${service} ${id}`]} />
          <p>{t('wrong.effect', { host, rate: rate(stat.rate) })}</p>
        </Confirm>
      )}
    </>
  )
}
