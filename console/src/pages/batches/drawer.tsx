import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Download } from 'lucide-react'
import { useState } from 'react'
import { batch as batchQuery, batchLines } from '@/api/queries'
import type { BatchLine } from '@/api/types'
import { useI18n } from '@/i18n'
import { digits, stamp } from '@/lib/format'
import { usePageCalls } from '@/shell/api-calls'
import { useDenied } from '@/shell/guard'
import { ErrorNote } from '@/ui/feedback'
import { Drawer } from '@/ui/overlay'
import { Segments } from '@/ui/parts'
import { isOpen } from './progress'

/** One batch: when it ran, with which models, how each line ended, and what came of it. */
export function BatchDrawer({ id, onClose }: { id: string; onClose(): void }) {
  const { t, locale, said } = useI18n()
  const denied = useDenied('monitoring:content:manage')
  const [show, setShow] = useState<'all' | 'failed'>('all')
  const [page, setPage] = useState(1)
  const { data: batch, error } = useQuery(batchQuery(id))
  const lines = useQuery({ ...batchLines(id, show === 'failed', page, batch === undefined || isOpen(batch)), placeholderData: keepPreviousData })
  usePageCalls([{ path: `/api/batches/${id}` }, { path: `/api/batches/${id}/lines?page=${page}` }])
  const pages = lines.data?.page.totalPages ?? 0
  return (
    <Drawer
      label={id}
      title={<code className="text-[13px]">{id}</code>}
      sub={batch !== undefined && <span className={`tag ${batch.state}`}>{t(`batch.state.${batch.state}`)}</span>}
      onClose={onClose}
      footer={
        // A link knows no fieldset that is off.
        denied !== undefined ? (
          <span className="muted text-[12px]">{denied}</span>
        ) : (
          <>
            {batch?.outputFile !== undefined && <Get file={batch.outputFile}>{t('batch.results')}</Get>}
            {batch?.errorFile !== undefined && <Get file={batch.errorFile}>{t('batch.errors')}</Get>}
            {batch !== undefined && <Get file={batch.inputFile}>{t('batch.input')}</Get>}
          </>
        )
      }
    >
      {error !== null && <ErrorNote error={error} title={t('error.load')} />}
      {batch !== undefined && (
        <dl className="dl mb-4">
          <dt>{t('batch.endpoint')}</dt>
          <dd>
            <code>{batch.endpoint}</code>
          </dd>
          <dt>{t('batch.models')}</dt>
          <dd>{batch.models.length === 0 ? '–' : <code className="wrap">{batch.models.join(', ')}</code>}</dd>
          <dt>{t('batch.createdAt')}</dt>
          <dd>{stamp(batch.createdAt)}</dd>
          <dt>{t('batch.startedAt')}</dt>
          <dd>{batch.startedAt === null ? '–' : stamp(batch.startedAt)}</dd>
          <dt>{t('batch.endedAt')}</dt>
          <dd>{batch.endedAt === null ? '–' : stamp(batch.endedAt)}</dd>
          <dt>{t('batch.tokens')}</dt>
          <dd>{t('batch.tokensText', { prompt: digits(batch.promptTokens, locale), answer: digits(batch.completionTokens, locale) })}</dd>
        </dl>
      )}
      {batch?.fault !== undefined && <div className="note bd mb-3">{said(batch.faultSaid, batch.fault)}</div>}
      <div className="sub">
        <span className="grow">{t('batch.linesTitle')}</span>
        <Segments label={t('batch.linesTitle')} value={show} options={[{ value: 'all', label: t('common.all') }, { value: 'failed', label: t('batch.onlyFailed') }]} onChange={(next) => (setShow(next), setPage(1))} />
      </div>
      {lines.error !== null && <ErrorNote error={lines.error} title={t('error.load')} />}
      {lines.data !== undefined && lines.data.content.length === 0 && <p className="muted">{t(show === 'failed' ? 'batch.noneFailed' : 'batch.noLines')}</p>}
      <ul className="blines">
        {lines.data?.content.map((line) => <Line key={line.line} line={line} />)}
      </ul>
      {pages > 1 && (
        <div className="row mt-2">
          <button type="button" className="btn sm" disabled={page <= 1} onClick={() => setPage(page - 1)}>
            {t('batch.before')}
          </button>
          <span className="muted grow text-center">{t('batch.page', { page, pages })}</span>
          <button type="button" className="btn sm" disabled={page >= pages} onClick={() => setPage(page + 1)}>
            {t('batch.next')}
          </button>
        </div>
      )}
    </Drawer>
  )
}

function Get({ file, children }: { file: string; children: string }) {
  return (
    <a className="btn sm" href={`/api/files/${encodeURIComponent(file)}/content`} download>
      <Download className="ic s14" aria-hidden />
      {children}
    </a>
  )
}

function Line({ line }: { line: BatchLine }) {
  const { t, said } = useI18n()
  const isBad = line.status < 200 || line.status >= 300
  return (
    <li>
      <div className="row">
        <span className="muted">{line.line}</span>
        <code className="trunc grow" title={line.customId}>{line.customId}</code>
        {line.requestId === undefined ? (
          <span className={isBad ? 'bad' : 'muted'}>{line.status === 0 ? t('batch.notRun') : line.status}</span>
        ) : (
          <Link className={isBad ? 'bad link' : 'link'} to="/calls" search={{ call: line.requestId } as never}>
            {line.status}
          </Link>
        )}
      </div>
      {isBad && <div className="wrap hint">{line.error === undefined ? line.code : said(line.said, line.error)}</div>}
    </li>
  )
}
