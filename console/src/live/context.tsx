import { useQuery } from '@tanstack/react-query'
import { createContext, useContext, useEffect, useMemo, useState, useSyncExternalStore, type ReactNode } from 'react'
import type { ServiceType } from '@/api/types'
import { history, smoothed, unknown, whole, withTimes } from './history'
import type { Range, Series } from './series'
import { noStats, summarise, type Stats } from './stats'
import type { LiveState, LiveStore } from './store'

const Context = createContext<LiveStore | null>(null)

/** Gives the pages the live store, and runs it while the tab is visible. */
export function LiveProvider({ store, isOff = false, children }: { store: LiveStore; isOff?: boolean; children: ReactNode }) {
  useEffect(() => {
    if (isOff) return
    const follow = () => (document.hidden ? store.pause() : store.start())
    follow()
    document.addEventListener('visibilitychange', follow)
    const timer = setInterval(() => store.age(), 250)
    return () => {
      clearInterval(timer)
      document.removeEventListener('visibilitychange', follow)
      store.pause()
    }
  }, [store, isOff])
  return <Context.Provider value={store}>{children}</Context.Provider>
}

export function useStore(): LiveStore {
  const store = useContext(Context)
  if (store === null) throw new Error('useStore needs a LiveProvider')
  return store
}

export function useLive(): LiveState {
  const store = useStore()
  return useSyncExternalStore(store.subscribe, store.get)
}

/** The time, once a second, for ages and countdowns. */
export function useNow(interval = 1000): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), interval)
    return () => clearInterval(timer)
  }, [interval])
  return now
}

/** Rows follow the last minute in the short range, so that a change is seen. */
const lately = 60

export function useStats(range: Range): Stats {
  const store = useStore()
  const { calls, snapshot } = useLive()
  const time = snapshot?.time ?? 0
  const isLong = range !== '5m'
  const { data = noStats } = useQuery({ ...whole(range), enabled: isLong })
  return useMemo(() => {
    if (isLong) return data
    if (snapshot?.stats !== undefined) return snapshot.stats
    const now = time === 0 ? Date.now() : time
    return summarise(calls, lately, store.watched(lately, now), now)
  }, [calls, time, isLong, data, store, snapshot?.stats])
}

/** What was counted of all services, with the times of one. */
export function useSeries(range: Range, service: ServiceType | undefined): Series {
  const store = useStore()
  const { snapshot } = useLive()
  const time = snapshot?.time ?? 0
  const { data } = useQuery(history(range))
  return useMemo(() => {
    // A few calls are no rate: before the gateway has told, nothing is known.
    if (data === undefined) return unknown(range, time === 0 ? Date.now() : time)
    const known = withTimes(data.all, service === undefined ? undefined : data.services.get(service))
    return smoothed(time === 0 ? known : store.seconds.extend(known, time, service))
  }, [store, range, time, data, service])
}
