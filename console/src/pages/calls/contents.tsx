import { Link } from '@tanstack/react-router'
import { Eye } from 'lucide-react'
import { useState } from 'react'
import { useI18n } from '@/i18n'
import { bytes, text } from '@/lib/format'
import { CopyButton, Segments } from '@/ui/parts'
import { pretty, spoken, type Body, type CallContent } from './content'

/** Says that more is kept of calls than their records, and leads to where that is changed. */
export function CaptureBadge({ capture }: { capture: string | undefined }) {
  const { t } = useI18n()
  if (capture !== 'headers' && capture !== 'content') return null
  return (
    <Link to="/settings" hash="monitoring" className="tag wn" title={t('calls.keepsHint')}>
      <Eye className="ic s14 mr-1" aria-hidden />
      {t(capture === 'content' ? 'calls.keepsContent' : 'calls.keepsHeaders')}
    </Link>
  )
}

/** Headers and texts of a call, as far as they are kept. */
export function Contents({ content, capture }: { content: CallContent; capture: string | undefined }) {
  const { t } = useI18n()
  if (content.kept === 'none') {
    return (
      <>
        <div className="sub">{t('calls.contents')}</div>
        <p className="hint mb-3">
          {t(capture === 'none' ? 'calls.keepsNothing' : 'calls.keptNothing')} <Link className="link" to="/settings" hash="monitoring">{t('calls.keepsChange')}</Link>
        </p>
      </>
    )
  }
  return (
    <>
      {content.request !== undefined && <BodyView title={t('calls.request')} body={content.request} />}
      {content.answer !== undefined && <BodyView title={t('calls.answer')} body={content.answer} />}
      <div className="sub">{t('calls.headers')}</div>
      <dl className="dl mb-3" data-part="headers">
        {content.headers?.map((header, index) => (
          <div key={index} className="contents">
            <dt className="wrap">
              <code>{header.name}</code>
            </dt>
            <dd className="wrap">
              <code className={header.masked ? 'muted' : ''} title={header.masked ? t('calls.masked') : undefined}>
                {header.value}
              </code>
            </dd>
          </div>
        ))}
      </dl>
    </>
  )
}

function BodyView({ title, body }: { title: string; body: Body }) {
  const { t } = useI18n()
  const said = spoken(body)
  const [form, setForm] = useState<'said' | 'raw'>('said')
  const shown = said !== null && form === 'said' ? said : pretty(body.text ?? '')
  return (
    <>
      <div className="sub">
        <span className="grow">
          {title} <span className="muted font-normal">{text(bytes(body.bytes))}</span>
        </span>
        {said !== null && (
          <Segments<'said' | 'raw'>
            label={title}
            value={form}
            options={(['said', 'raw'] as const).map((value) => ({ value, label: t(value === 'said' ? 'calls.text' : 'calls.raw') }))}
            onChange={setForm}
          />
        )}
        {body.text !== undefined && body.text !== '' && <CopyButton text={shown} />}
      </div>
      {body.text === undefined || body.text === '' ? (
        <p className="hint mb-3">{body.bytes === 0 ? t('calls.noBody') : t('calls.notText', { size: text(bytes(body.bytes)), type: body.contentType ?? '' })}</p>
      ) : (
        <pre className="code fold mb-1 max-h-[260px] overflow-auto" tabIndex={0} aria-label={title}>
          {shown}
        </pre>
      )}
      {body.cut === true && <p className="hint mb-3">{t('calls.cut')}</p>}
    </>
  )
}
