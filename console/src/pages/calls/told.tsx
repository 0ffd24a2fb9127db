import { Link } from '@tanstack/react-router'
import type { Call } from '@/api/types'
import { useI18n } from '@/i18n'
import { shorten, splitId, stamp } from '@/lib/format'
import { DocsLink } from '@/ui/docs'
import { nearName } from './rows'

/** What the caller was told, whose limit or budget refused the call, and what to do about it. */
export function Told({ call }: { call: Call }) {
  const { t, said } = useI18n()
  return (
    <div className="note bd mb-3">
      <div className="min-w-0">
        <div className="sub mt-0">{t('find.told')}</div>
        <p className="break-words">{said(call.said, call.errorMessage)}</p>
        {call.refusedBy !== undefined && (
          <p className="mt-1">
            {t('find.refusedBy')}: <code>{call.refusedBy}</code>
            {call.refusedUntil !== undefined && ` · ${t('find.refusedUntil', { time: stamp(call.refusedUntil) })}`}
          </p>
        )}
        <Hands call={call} />
        {call.errorCode !== undefined && call.errorCode !== '' && (
          <p className="mt-1">
            <DocsLink page="errors" section={call.errorCode}>
              {t('guide.whatToDo')}
            </DocsLink>
          </p>
        )}
      </div>
    </div>
  )
}

/** The pages on which something can be done about it: whose limit it is, the instance that failed, the model. */
function Hands({ call }: { call: Call }) {
  const { t } = useI18n()
  const tenant = (call.refusedBy ?? '').startsWith('tenant/') ? call.refusedBy!.slice('tenant/'.length) : undefined
  const isRefused = call.refusedBy !== undefined && call.refusedBy !== ''
  const isUnknown = !isRefused && call.model === '' && (call.asked ?? '') !== '' && call.instance === ''
  const near = nearName(call.asked ?? '', call.said?.[0]?.values?.names ?? '')
  const links = [
    isUnknown && near !== undefined && <Link key="near" to="/model" search={{ service: call.service, id: near } as never}>{t('find.doNear', { model: shorten(near, 28) })}</Link>,
    isUnknown && <Link key="alias" to="/services" search={{ policy: call.service, alias: call.asked } as never}>{t('find.doAlias', { name: shorten(call.asked!, 28) })}</Link>,
    isUnknown && <Link key="add" to="/services" search={{ add: call.service } as never}>{t('find.doAdd', { service: t(`pg.${call.service}`) })}</Link>,
    isUnknown && <Link key="services" to="/services" search={{ q: call.service } as never}>{t('find.doServices', { service: t(`pg.${call.service}`) })}</Link>,
    tenant !== undefined && <Link key="tenant" to="/tenant" search={{ id: tenant } as never}>{t('find.doTenant', { name: shorten(tenant, 28) })}</Link>,
    isRefused && tenant === undefined && <Link key="keys" to="/keys">{t('find.doKeys')}</Link>,
    !isRefused && call.instance !== '' && <Link key="instance" to="/instance" search={{ service: call.service, id: call.instance } as never}>{t('find.doInstance', { host: splitId(call.instance).host })}</Link>,
    !isRefused && call.model !== '' && <Link key="model" to="/model" search={{ service: call.service, id: call.model } as never}>{t('find.doModel', { model: shorten(call.model, 28) })}</Link>,
  ].filter((link) => link !== false)
  if (links.length === 0) return null
  return <p className="hands mt-1 flex flex-wrap gap-x-4">{links}</p>
}
