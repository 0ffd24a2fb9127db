import { useQuery } from '@tanstack/react-query'
import { ask } from '@/api/client'
import type { Spend } from '@/api/types'
import { useI18n } from '@/i18n'
import { digits } from '@/lib/format'
import { money } from '@/lib/money'
import { ErrorNote } from '@/ui/feedback'
import { Segments } from '@/ui/parts'
import { Named, Table } from '@/ui/table'
import { useState } from 'react'
import { ownPace } from './calls'

type By = 'model' | 'key' | 'user'

/** What a person or a team used and spent this month, and for what. */
export function OwnUsage({ at, nameOf }: { at: string; nameOf(of: string): string }) {
  const { t, locale } = useI18n()
  const [by, setBy] = useState<By>('model')
  const { data: usage, error } = useQuery({
    queryKey: ['own', at, 'usage', by],
    retry: false,
    refetchInterval: ownPace,
    queryFn: ({ signal }) => ask<Spend>(`${at}/usage?by=${by}`, 'GET', undefined, signal),
  })
  if (error !== null) return <ErrorNote error={error} />
  if (usage === undefined) return null
  if (!usage.enabled) return <p className="note">{t('own.ledgerOff')}</p>
  const facts = [
    usage.priced && { of: t('spend.cost'), value: money(usage.total.cost, usage.currency, locale) },
    { of: t('own.requests'), value: digits(usage.total.requestCount, locale) },
    { of: t('own.tokens'), value: digits(usage.total.tokenCount, locale) },
  ].filter((fact) => fact !== false)
  const choices: By[] = at === '/api/me' ? ['model', 'key'] : ['model', 'key', 'user']
  return (
    <>
      <div className="facts panel mb-3">
        {facts.map(({ of, value }) => (
          <div key={of}>
            <span className="l">{of}</span>
            <b>{value}</b>
          </div>
        ))}
      </div>
      <div className="bar">
        <Segments<By> label={t('own.by')} value={by} options={choices.map((value) => ({ value, label: t(`spend.by.${value}`) }))} onChange={setBy} />
      </div>
      <Table
        rows={usage.groups}
        keyOf={({ name }) => name}
        empty={t('own.nothingUsed')}
        columns={[
          { head: t(`spend.by.${by}`), className: 'cut', cell: ({ name }) => <Named name={name === '' ? '–' : by === 'key' ? nameOf(`key/${name}`).replace(/^key\//, '') : name} below="" /> },
          { head: t('own.requests'), className: 'num w-[20%]', cell: ({ requestCount }) => digits(requestCount, locale) },
          { head: t('own.tokens'), className: 'num lo w-[20%]', cell: ({ tokenCount }) => digits(tokenCount, locale) },
          usage.priced && { head: t('spend.cost'), className: 'num w-[28%]', cell: ({ cost, unpriced }) => (cost === 0 && unpriced > 0 ? t('spend.noPrice') : money(cost, usage.currency, locale)) },
        ]}
      />
    </>
  )
}
