import { Fragment } from 'react'
import { useQuery } from '@tanstack/react-query'
import { Check } from 'lucide-react'
import { roles } from '@/api/queries'
import { useI18n } from '@/i18n'
import { usePageCalls } from '@/shell/api-calls'
import { useMe } from '@/shell/session'
import { ErrorNote } from '@/ui/feedback'

/** The permissions of each role, as the gateway tells them. */
export function Roles() {
  const { t } = useI18n()
  const me = useMe()
  const query = useQuery(roles)
  usePageCalls([{ path: '/api/auth/roles' }])
  const list = query.data ?? []
  const codes = [...new Set(list.flatMap((role) => role.permissions))].toSorted()
  if (query.error !== null) return <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />
  return (
    <>
      <p className="soft mb-3">{t('key.rolesText')}</p>
      <div className="panel">
        <table className="tbl fx roles">
          <thead>
            <tr>
              <th>{t('key.permission')}</th>
              {list.map(({ role }) => (
                <th key={role} className="ctr">
                  {role}
                  {role === me?.role && <span className="muted"> · {t('key.you')}</span>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {codes.map((code) => (
              <tr key={code}>
                <td className="wrap">
                  <code>
                    {code.split(':').map((part, i) => (
                      // A narrow column breaks a name between its parts.
                      <Fragment key={part}>
                        {i > 0 && <>:<wbr /></>}
                        {part}
                      </Fragment>
                    ))}
                  </code>
                </td>
                {list.map(({ role, permissions }) => (
                  <td key={role} className="ctr">
                    {permissions.includes(code) ? <Check className="ic s14" role="img" aria-label={t('key.mayDo')} /> : <span className="muted" role="img" aria-label={t('key.mayNot')}>–</span>}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
