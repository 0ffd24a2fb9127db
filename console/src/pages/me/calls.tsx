import type { CallList } from '@/api/types'
import { ask } from '@/api/client'
import { useI18n } from '@/i18n'
import { stamp } from '@/lib/format'
import { DocsLink } from '@/ui/docs'

export type OwnCall = CallList['calls'][number]

/** How often what one used, and what was refused, is asked for. */
export const ownPace = 3000

/** A page of the calls of a person or of a team. */
export const callsAt = (at: string, asked: Record<string, string>) => ({
  queryKey: ['own', at, 'calls', asked],
  refetchInterval: asked.cursor === undefined ? ownPace : (false as const),
  queryFn: ({ signal }: { signal: AbortSignal }) => ask<CallList>(`${at}/calls?${new URLSearchParams(asked).toString()}`, 'GET', undefined, signal),
})

/** The name of a key or tenant for people: "key/me-1f-1" is the key laptop. */
export function useNameOf(keys: readonly { id: string; name?: string }[]): (of: string) => string {
  return (of) => {
    const id = of.slice(of.indexOf('/') + 1)
    return keys.find((key) => of.startsWith('key/') && key.id === id)?.name ?? of
  }
}

/** Why a call was not answered: the words of the gateway, whose limit it was and until when. */
export function Why({ call, nameOf }: { call: OwnCall; nameOf(of: string): string }) {
  const { t, said } = useI18n()
  const until = call.refusedUntil === undefined ? '' : t('find.refusedUntil', { time: stamp(call.refusedUntil) })
  return (
    <>
      {call.said === undefined ? (call.errorMessage ?? call.errorCode) : said(call.said, call.errorMessage)}
      {call.refusedBy !== undefined && <span className="muted"> {[nameOf(call.refusedBy), until].filter((text) => text !== '').join(' · ')}</span>}
      {call.errorCode !== undefined && call.errorCode !== '' && (
        <>
          {' '}
          <DocsLink page="errors" section={call.errorCode}>
            {t('guide.whatToDo')}
          </DocsLink>
        </>
      )}
    </>
  )
}

/** The newest call that each budget refused and would refuse again now. */
export function stillRefused(calls: readonly OwnCall[], now: number): OwnCall[] {
  const holds = calls.filter(({ errorCode, refusedUntil }) => errorCode === 'budget_exceeded' && (refusedUntil === undefined || Date.parse(refusedUntil) > now))
  return holds.filter((call, i) => holds.findIndex(({ refusedBy }) => refusedBy === call.refusedBy) === i)
}
