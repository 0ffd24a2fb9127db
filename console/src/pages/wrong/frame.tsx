import type { ReactNode } from 'react'
import type { ProblemGroup, Sentence } from '@/api/types'
import { useNow } from '@/live/context'
import { useCurrent } from '../quota/refused'
import { ObjectCharts, type HistoryOf } from './charts'
import { Changes, LatestCalls, Running } from './parts'
import { byWeight, GroupSentence } from './sentence'

/** The worst problem of now among those of an object. */
export function useWorst(of: (group: ProblemGroup) => boolean): ProblemGroup | undefined {
  return useCurrent().filter(of).toSorted(byWeight)[0]
}

/**
 * A page about one instance, model or tenant, in the order in which a person asks: what is
 * the state, what can be done, what failed, since when, which calls, how is it set up, and
 * who changed it.
 */
export function ObjectPage({ worst, sentence, under, actions, history, errors, parts, question, calls, settings, changes, drawer }: {
  worst: ProblemGroup | undefined
  /** The state in a sentence where nothing is wrong now. */
  sentence: ReactNode
  under: ReactNode
  actions: ReactNode
  history: { of: HistoryOf; label: string }
  errors: ReactNode
  /** What this kind of object has besides. */
  parts?: ReactNode
  /** The calls of the object, as their search is asked. */
  question: Record<string, string>
  /** Other calls that are about it. */
  calls?: ReactNode
  settings: ReactNode
  /** Whether a change of a version is one of it. */
  changes(change: Sentence): boolean
  drawer: ReactNode
}) {
  const now = useNow()
  return (
    <div className={drawer === null ? '' : 'split narrow'}>
      <div className="list">
        <div className="head">
          <div className="grow">
            <h2>{worst === undefined ? sentence : <GroupSentence group={worst} now={now} />}</h2>
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
