import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '@/api/client'
import { sessions } from '@/api/queries'
import type { HeldSession } from '@/api/types'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { usePageCalls } from '@/shell/api-calls'
import { ErrorNote, useToast } from '@/ui/feedback'
import { Confirm } from '@/ui/overlay'
import { Name } from '@/ui/parts'

/** Who is signed in, and the way to end a session. */
export function People() {
  const { t } = useI18n()
  const query = useQuery(sessions)
  const client = useQueryClient()
  const toast = useToast()
  const [ending, setEnding] = useState<HeldSession | null>(null)
  usePageCalls([{ path: '/api/auth/sessions' }])
  const list = query.data ?? []
  return (
    <>
      <div className="bar">
        <span className="soft grow">{t('people.text')}</span>
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && (
        <div className="panel">
          <table className="tbl fx kt">
            <thead>
              <tr>
                <th>{t('people.who')}</th>
                <th className="w-[22%]">{t('people.by')}</th>
                <th className="lo w-[136px]">{t('people.since')}</th>
                <th className="lo w-[136px]">{t('people.until')}</th>
                <th className="lo w-[15%]">{t('people.from')}</th>
                <th className="w-[88px]">
                  <span className="sr-only">{t('people.end')}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {list.map((session) => (
                <tr key={session.id}>
                  <td className="cut">
                    <span className="nmad">
                      <Name className="font-medium">{session.name}</Name>
                      <span className="muted trunc">{session.current === true ? t('key.you') : (session.subject ?? '')}</span>
                    </span>
                  </td>
                  <td className="cut">{session.provider ?? t('people.token')}</td>
                  <td className="lo">{stamp(session.since).slice(0, 16)}</td>
                  <td className="lo">{stamp(session.until).slice(0, 16)}</td>
                  <td className="lo cut">{session.address ?? '–'}</td>
                  <td>
                    <button type="button" className="btn ghost" aria-label={`${t('people.end')}: ${session.name}`} onClick={() => setEnding(session)}>
                      {t('people.end')}
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {ending !== null && (
        <Confirm
          title={t('people.endTitle', { name: ending.name })}
          action={t('people.end')}
          onClose={() => setEnding(null)}
          onConfirm={async () => {
            await data(api.DELETE('/api/auth/sessions/{id}', { params: { path: { id: ending.id } } }) as never)
            toast(t('people.ended', { name: ending.name }))
            await client.invalidateQueries({ queryKey: ['sessions'] })
          }}
        >
          {t('people.endText')}
        </Confirm>
      )}
    </>
  )
}
