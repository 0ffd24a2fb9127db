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
import { Named, Table, unseen } from '@/ui/table'

/** Who is signed in, and the way to end a session. */
export function People() {
  const { t } = useI18n()
  const query = useQuery(sessions)
  const client = useQueryClient()
  const toast = useToast()
  const [ending, setEnding] = useState<HeldSession | null>(null)
  usePageCalls([{ path: '/api/auth/sessions' }])
  return (
    <>
      <div className="bar">
        <span className="soft grow">{t('people.text')}</span>
      </div>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && (
        <Table
          rows={query.data}
          keyOf={({ id }) => id}
          empty={t('people.none')}
          columns={[
            { head: t('people.who'), className: 'cut', cell: (session) => <Named name={session.name} below={session.current === true ? t('key.you') : (session.subject ?? '')} /> },
            { head: t('people.by'), className: 'cut w-[22%]', cell: (session) => session.provider ?? t('people.token') },
            { head: t('people.since'), className: 'lo w-[136px]', cell: (session) => stamp(session.since).slice(0, 16) },
            { head: t('people.until'), className: 'lo w-[136px]', cell: (session) => stamp(session.until).slice(0, 16) },
            { head: t('people.from'), className: 'lo cut w-[15%]', cell: (session) => session.address ?? '–' },
            {
              head: unseen(t('people.end')),
              className: 'w-[88px]',
              cell: (session) => (
                <button type="button" className="btn ghost" aria-label={`${t('people.end')}: ${session.name}`} onClick={() => setEnding(session)}>
                  {t('people.end')}
                </button>
              ),
            },
          ]}
        />
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
