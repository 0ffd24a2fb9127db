import type { ReactNode } from 'react'
import { useI18n } from '@/i18n'

/** A table of what is loaded or runs: its name, its state, since when, two numbers, and a hand on each. */
export function Hands({ title, sum, heads: [name, state, when, ...numbers], children }: {
  title: string
  sum: string
  heads: [string, string, string, ...{ label: string; hint?: string }[]]
  children: ReactNode
}) {
  const { t } = useI18n()
  return (
    <>
      <div className="h2">
        <h2>{title}</h2>
        <span className="muted">{sum}</span>
      </div>
      <div className="panel">
        <table className="tbl fx hands">
          <thead>
            <tr>
              <th>{name}</th>
              <th className="w-[190px]">{state}</th>
              <th className="w-[110px] onlydesk">{when}</th>
              {numbers.map(({ label, hint }) => (
                <th key={label} className="num w-[90px] onlydesk" title={hint}>
                  {label}
                </th>
              ))}
              <th className="w-[190px]">
                <span className="sr-only">{t('common.more')}</span>
              </th>
            </tr>
          </thead>
          <tbody>{children}</tbody>
        </table>
      </div>
    </>
  )
}
