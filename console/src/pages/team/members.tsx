import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ask } from '@/api/client'
import type { TeamMember } from '@/api/types'
import { useI18n } from '@/i18n'
import { ago, stamp } from '@/lib/format'
import { useNow } from '@/live/context'
import { usePageCalls } from '@/shell/api-calls'
import { ErrorNote, useToast } from '@/ui/feedback'
import { Confirm } from '@/ui/overlay'
import { Named, Table, unseen } from '@/ui/table'

/** Who has a role in the tenant. The provider decides who does; here their keys are taken away. */
export function Members({ at, tenant }: { at: string; tenant: string }) {
  const { t, locale } = useI18n()
  const client = useQueryClient()
  const toast = useToast()
  const now = useNow(30_000)
  const query = useQuery({ queryKey: ['own', at, 'members'], queryFn: ({ signal }) => ask<TeamMember[]>(`${at}/members`, 'GET', undefined, signal) })
  const [leaving, setLeaving] = useState<TeamMember | null>(null)
  usePageCalls([{ path: `${at}/members` }])
  return (
    <>
      <p className="soft mb-3">{t('team.membersText')}</p>
      {query.error !== null && <ErrorNote error={query.error} title={t('error.load')} retry={() => void query.refetch()} />}
      {query.data !== undefined && (
        <Table
          rows={query.data}
          keyOf={({ id }) => id}
          empty={t('team.noMembers')}
          columns={[
            { head: t('people.who'), className: 'cut', cell: ({ name, subject }) => <Named name={name} below={subject} isData /> },
            { head: t('key.role'), className: 'lo w-[128px]', cell: ({ role }) => role },
            { head: t('team.signedIn'), className: 'lo w-[160px]', cell: ({ signedInAt }) => <span title={stamp(signedInAt)}>{ago(signedInAt, now, locale)}</span> },
            { head: t('team.tab.keys'), className: 'num w-[72px]', cell: ({ keys }) => keys },
            {
              head: unseen(t('team.revokeAll')),
              className: 'w-[140px] num',
              cell: (member) => (
                <button type="button" className="btn ghost" disabled={member.keys === 0} aria-label={`${t('team.revokeAll')}: ${member.name}`} onClick={() => setLeaving(member)}>
                  {t('team.revokeAll')}
                </button>
              ),
            },
          ]}
        />
      )}
      {leaving !== null && (
        <Confirm
          title={t('team.revokeTitle', { n: leaving.keys, name: leaving.name })}
          action={t('team.revokeAll')}
          onClose={() => setLeaving(null)}
          onConfirm={async () => {
            await ask(`${at}/members/${encodeURIComponent(leaving.id)}`, 'DELETE')
            await client.invalidateQueries({ queryKey: ['own', at] })
            toast(t('team.revokedAll', { name: leaving.name }))
          }}
        >
          {t('team.revokeText', { tenant })}
        </Confirm>
      )}
    </>
  )
}
