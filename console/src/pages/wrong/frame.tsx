import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { wrong } from '@/api/queries'
import type { Sentence } from '@/api/types'
import { useI18n } from '@/i18n'
import { ObjectCharts, type HistoryOf } from './charts'
import { Changes, LatestCalls, Running } from './parts'

/**
 * A page about one instance, model or tenant, in the order in which a person asks: what is
 * the state, what can be done, what failed, since when, which calls, how is it set up, and
 * who changed it.
 */
export function ObjectPage({ sentence, under, actions, history, errors, parts, question, calls, settings, changes, drawer }: {
  /** The state in a sentence where nothing is wrong now. */
  sentence: ReactNode
  under: ReactNode
  actions: ReactNode
  history: { of: HistoryOf; label: string }
  errors: ReactNode
  /** What this kind of object has besides. */
  parts?: ReactNode
  /** The calls and the problems of the object, as their search is asked. */
  question: Record<string, string>
  /** Other calls that are about it. */
  calls?: ReactNode
  settings: ReactNode
  /** Whether a change of a version is one of it. */
  changes(change: Sentence): boolean
  drawer: ReactNode
}) {
  const { said } = useI18n()
  const headline = useQuery(wrong(question)).data?.headline
  return (
    <div className={drawer === null ? '' : 'split narrow'}>
      <div className="list">
        <div className="head">
          <div className="grow">
            <h2>{headline?.state === undefined ? sentence : said(headline.said, headline.text)}</h2>
            <p className="row flex-wrap">{under}</p>
          </div>
        </div>
        {actions}
        <ObjectCharts {...history} />
        <div className="cols obj">
          <div>
            {errors}
            {parts}
            <Changes of={changes} />
          </div>
          <div>
            <LatestCalls question={question} />
            {calls}
            <Running question={question} />
            {settings}
          </div>
        </div>
      </div>
      {drawer}
    </div>
  )
}

/** Settings as names and values; those without a value are left out. */
export function Facts({ of }: { of: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="dl panel px-3 py-2">
      {of
        .filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false)
        .map(([name, value]) => (
          <div key={name} className="contents">
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  )
}
