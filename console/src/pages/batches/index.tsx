import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '@/api/client'
import { batches, budgets } from '@/api/queries'
import type { Batch } from '@/api/types'
import { T, useI18n } from '@/i18n'
import { ago, digits, rate, since, stamp } from '@/lib/format'
import { useNow } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { Guard, useDenied } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { ErrorNote, useToast } from '@/ui/feedback'
import { Confirm } from '@/ui/overlay'
import { Bar, Name } from '@/ui/parts'
import { BatchDrawer } from './drawer'
import { doneOf, isOpen, mayCancel } from './progress'
import { StartBatch } from './start'

/** The batches of all owners: how far each is, what it costs, when it ends, and a way to stop it. */
export default function Batches() {
  const { t } = useI18n()
  const query = useQuery(batches)
  const [search, setSearch] = useSearchState()
  const denied = useDenied('batch:write')
  const list = query.data ?? []
  usePageFact(t('batch.sum', { n: list.filter((batch) => isOpen(batch)).length }))
  usePageCalls([{ path: '/api/batches' }])
  if (query.error !== null) return <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />
  const open = search.batch ?? ''
  const starts = denied === undefined && <StartBatch onStarted={(id) => setSearch({ batch: id }, true)} />
  if (query.data !== undefined && list.length === 0 && open === '') {
    return (
      <>
      {starts}
      <div className="empty panel">
        <h2>{t('batch.none')}</h2>
        <p>
          <T k="batch.noneText" v={{ setting: <code>batches.enabled</code>, command: <code>patchbay batches submit</code> }} />
        </p>
      </div>
      </>
    )
  }
  return (
    <div className={open === '' ? '' : 'split narrow'}>
      <div className="list">
        {starts}
        <div className="panel" role="list" aria-label={t('nav.batches')}>
          {list.map((batch) => (
            <Row key={batch.id} batch={batch} onOpen={() => setSearch({ batch: batch.id }, true)} />
          ))}
        </div>
      </div>
      {open !== '' && <BatchDrawer key={open} id={open} onClose={() => setSearch({ batch: undefined })} />}
    </div>
  )
}

function Row({ batch, onOpen }: { batch: Batch; onOpen(): void }) {
  const { t, locale, said } = useI18n()
  const now = useNow(1000)
  const [asking, setAsking] = useState(false)
  const { currency } = useQuery(budgets).data ?? { currency: '' }
  const done = doneOf(batch)
  const share = batch.total === 0 ? 0 : done / batch.total
  const facts = [
    batch.keyId === undefined ? t('batch.nobody') : t('batch.key', { id: batch.keyId }),
    ...(batch.tenant === undefined ? [] : [t('batch.tenant', { id: batch.tenant })]),
    batch.endpoint,
    ...(batch.linesPerMinute > 0 ? [t('batch.rate', { rate: rate(batch.linesPerMinute, locale) })] : []),
    t('batch.cost', { cost: `${batch.cost} ${currency}`.trim() }),
  ]
  return (
    <div className="btc" role="listitem">
      <div className="row">
        <button type="button" className="nmad grow" onClick={onOpen}>
          <Name className="font-medium">{batch.id}</Name>
        </button>
        <span className={`tag ${batch.state}`}>{t(`batch.state.${batch.state}`)}</span>
      </div>
      <div className="row btcbar">
        <Bar share={share} kind={batch.failed > 0 ? 'wn' : ''} />
        <span className="grow" role="progressbar" aria-label={batch.id} aria-valuemin={0} aria-valuemax={batch.total} aria-valuenow={done}>
          {t('batch.lines', { done: digits(done, locale), total: digits(batch.total, locale) })}
          {batch.failed > 0 && ` · ${t('batch.failed', { n: batch.failed })}`}
        </span>
        <span className="muted" title={stamp(batch.endedAt ?? batch.expectedEnd ?? batch.expiresAt)}>
          {whenText(batch, now, t, locale)}
        </span>
      </div>
      <div className="row muted">
        <span className="grow btcfacts">{facts.join(' · ')}</span>
        {mayCancel(batch) && (
          <Guard needs="batch:write">
            <button type="button" className="btn sm" aria-label={t('batch.cancelOne', { id: batch.id })} onClick={() => setAsking(true)}>
              {t('batch.cancel')}
            </button>
          </Guard>
        )}
      </div>
      {batch.problem !== undefined && isOpen(batch) && <p className="hint">{t('batch.waits', { why: said(batch.said, batch.problem) })}</p>}
      {batch.fault !== undefined && <p className="hint">{said(batch.faultSaid, batch.fault)}</p>}
      {asking && <Cancel batch={batch} onClose={() => setAsking(false)} />}
    </div>
  )
}

function whenText(batch: Batch, now: number, t: ReturnType<typeof useI18n>['t'], locale: string): string {
  if (batch.endedAt !== null) return t('batch.ended', { ago: ago(batch.endedAt, now, locale) })
  if (batch.expectedEnd !== null) return t('batch.ends', { time: since(now, Math.max(Date.parse(batch.expectedEnd), now + 1000), locale) })
  return t('batch.created', { ago: ago(batch.createdAt, now, locale) })
}

function Cancel({ batch, onClose }: { batch: Batch; onClose(): void }) {
  const { t } = useI18n()
  const toast = useToast()
  const client = useQueryClient()
  const cancel = useMutation({
    mutationFn: () => data(api.POST('/api/batches/{id}/cancel', { params: { path: { id: batch.id } } }) as never),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: batches.queryKey })
      toast(t('batch.cancelled', { id: batch.id }))
    },
  })
  return (
    <Confirm title={t('batch.cancelTitle', { id: batch.id })} action={t('batch.cancelAction')} onClose={onClose} onConfirm={() => cancel.mutateAsync()}>
      <p>{t('batch.cancelText', { left: batch.total - doneOf(batch) })}</p>
    </Confirm>
  )
}
