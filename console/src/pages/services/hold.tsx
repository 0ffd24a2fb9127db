import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '@/api/client'
import { useI18n } from '@/i18n'
import { rate } from '@/lib/format'
import { useStats } from '@/live/context'
import type { InstanceState } from '@/live/types'
import { useToast } from '@/ui/feedback'
import { TextField } from '@/ui/field'
import { Confirm } from '@/ui/overlay'
import { LeftWithout } from './last'
import type { Serving } from './rows'

/** A breaker, and the state in which a person wants it held. */
export interface Hold {
  instance: InstanceState
  state: 'OPEN' | 'CLOSED' | 'AUTO'
}

/** Has a breaker held, or lets go of it, and says so. */
export function useHold() {
  const { t } = useI18n()
  const toast = useToast()
  const client = useQueryClient()
  return useMutation({
    mutationFn: ({ instance, state, reason = '' }: Hold & { reason?: string }) =>
      data(api.POST('/api/config/instance/circuit-breaker/{serviceType}', { params: { path: { serviceType: instance.service } }, body: { instanceId: instance.id, state, ...(reason === '' ? {} : { reason }) } }) as never),
    onSuccess: async (_, { instance, state }) => {
      toast(t(state === 'OPEN' ? 'res.held' : state === 'CLOSED' ? 'res.heldClosed' : 'res.isAuto', { id: instance.model }))
      await client.invalidateQueries({ queryKey: ['shares'] })
    },
  })
}

/** Asks before a breaker is held, names what that does, and takes the reason that others see. */
export function HoldConfirm({ hold, serving, onClose }: { hold: Hold; serving: readonly Serving[]; onClose(): void }) {
  const { t } = useI18n()
  const stats = useStats('5m')
  const [reason, setReason] = useState('')
  const force = useHold()
  const { instance, state } = hold
  const key = `${instance.service} ${instance.id}`
  const isOpen = state === 'OPEN'
  return (
    <Confirm
      title={t(isOpen ? 'res.holdTitle' : 'res.holdClosedTitle', { id: instance.model })}
      action={t(isOpen ? 'res.holdOpen' : 'res.holdClosed')}
      onClose={onClose}
      onConfirm={() => force.mutateAsync({ ...hold, reason: reason.trim() })}
    >
      <p className="mb-3">{isOpen ? t('res.holdText', { rate: rate(stats.instances.get(key)?.rate ?? 0) }) : t('res.holdClosedText')}</p>
      {isOpen && <LeftWithout serving={serving} out={[key]} />}
      <TextField label={t('res.reason')} hint={t('res.reasonHint')} maxLength={200} value={reason} onChange={setReason} />
    </Confirm>
  )
}
