import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { createContext, useContext, useEffect, useState, type FormEvent, type ReactNode } from 'react'
import { api, ApiError, data, toError, unauthorized } from '@/api/client'
import type { Me, Sentence } from '@/api/types'
import { useI18n } from '@/i18n'
import { ErrorNote } from '@/ui/feedback'
import { SecretField } from '@/ui/field'
import { Mark } from '@/ui/glyphs'
import { dropDrafts } from './draft'

/** Who looks at the pages. */
export const self = queryOptions({
  queryKey: ['me'],
  retry: (count, error) => !(error instanceof ApiError) && count < 2,
  staleTime: 60_000,
  queryFn: ({ signal }): Promise<Me> => data(api.GET('/api/auth/me', { signal })),
})

const Context = createContext<Me | null>(null)

/** Who is logged in; null while the gateway cannot be asked. */
export const useMe = (): Me | null => useContext(Context)

/** Whether the person has roles in tenants only: everything about the gateway itself is closed to them. */
export const isGuest = (me: Me | null): boolean => me !== null && me.securityEnabled && me.role === undefined

/** Shows the pages to who may see them, and the others where to log in. */
export function SessionProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient()
  const { data: me, error, isPending } = useQuery(self)
  useEffect(() => {
    const again = () => void client.invalidateQueries({ queryKey: ['me'] })
    unauthorized.addEventListener('unauthorized', again)
    return () => unauthorized.removeEventListener('unauthorized', again)
  }, [client])
  if (error instanceof ApiError && (error.status === 401 || error.status === 403)) return <Login why={error} onDone={() => void client.resetQueries()} />
  if (isPending) return null
  return <Context.Provider value={me ?? null}>{children}</Context.Provider>
}

/** Has the browser forget the session, and all that the pages have read. */
export async function logOut(): Promise<void> {
  const reply = await fetch('/auth/logout', { method: 'POST' })
  if (!reply.ok) throw toError(reply.status, await reply.json().catch(() => ''), reply.headers.get('x-request-id') ?? '')
  note('out')
  dropDrafts()
  // Where the provider has a page for it, the person signs out there as well, and comes back.
  const left = (await reply.json()) as { data?: { providerLogout?: string } }
  location.assign(left.data?.providerLogout ?? '/')
}

/** The role of the whole gateway, else the highest one in a tenant. */
export function roleOf(me: Me): string {
  const team = me.memberships?.some((membership) => membership.role === 'TEAM_ADMIN') ? 'TEAM_ADMIN' : 'MEMBER'
  return me.role ?? team
}

interface Provider {
  name: string
  login: string
}

/** Where people can sign in beside tokens; none until the gateway has told. */
function useProviders(): Provider[] {
  const { data: list } = useQuery({
    queryKey: ['providers'],
    retry: false,
    queryFn: async ({ signal }): Promise<Provider[]> => {
      const reply = await fetch('/auth/providers', { signal })
      return reply.ok ? (((await reply.json()) as { data?: { providers?: Provider[] } }).data?.providers ?? []) : []
    },
  })
  return list ?? []
}

const place = 'patchbay.session'

/** Notes for all tabs of the browser when its session ends, or that somebody has logged out. */
function note(end: string): void {
  try {
    localStorage.setItem(place, end)
  } catch {
    // The form then does not say why it is shown.
  }
}

function noted(): string | null {
  try {
    return localStorage.getItem(place)
  } catch {
    return null
  }
}

/**
 * Why the form is shown to somebody who was logged in: what the gateway said of the session, or what
 * became of it in this browser. null where nobody was logged in.
 */
export function whyOut(why: ApiError, end: string | null, now: number): Sentence[] | 'session.isOut' | 'session.isOver' | 'session.isGone' | null {
  if (why.said?.some((sentence) => sentence.code.startsWith('manage.session_'))) return why.said
  if (end === null) return null
  return end === 'out' ? 'session.isOut' : now >= Date.parse(end) ? 'session.isOver' : 'session.isGone'
}

/** The token is sent once and kept nowhere: the gateway answers with a cookie that no script can read. */
function Login({ why, onDone }: { why: ApiError; onDone(): void }) {
  const { t, said, lang } = useI18n()
  const [out] = useState(() => whyOut(why, noted(), Date.now()))
  const providers = useProviders()
  const [token, setToken] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  useEffect(() => {
    document.title = `${t('session.title')} · Patchbay`
  }, [t])
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      const reply = await fetch('/api/auth/session', { method: 'POST', headers: { authorization: `Bearer ${token.trim()}` } })
      if (!reply.ok) throw toError(reply.status, await reply.json().catch(() => ''), reply.headers.get('x-request-id') ?? '')
      const begun = (await reply.json()) as { data?: { expiresAt?: string } }
      note(begun.data?.expiresAt ?? '')
      setToken('')
      onDone()
    } catch (failure) {
      setError(failure)
    } finally {
      setBusy(false)
    }
  }
  const wrong = error instanceof ApiError && error.status === 401
  return (
    <main className="login">
      <form className="panel" onSubmit={(event) => void submit(event)}>
        <div className="brand">
          <Mark />
          <span>Patchbay</span>
        </div>
        <h1>{t('session.title')}</h1>
        {out !== null && <p className="note">{typeof out === 'string' ? t(out) : said(out, why.message)}</p>}
        {why.status === 403 && <p className="note">{t('session.noRights')}</p>}
        {providers.map((provider, index) => (
          <a key={provider.name} className={`btn ${index === 0 ? 'pri' : ''}`} href={`${provider.login}&lang=${lang}&to=${encodeURIComponent(location.pathname + location.search)}`}>
            {t('session.with', { name: provider.name })}
          </a>
        ))}
        {providers.length > 0 && <p className="soft">{t('session.or')}</p>}
        <SecretField label={t('session.token')} value={token} hint={t('session.hint')} error={wrong ? t('session.wrong') : undefined} onChange={setToken} />
        {error !== null && !wrong && <ErrorNote error={error} />}
        <button type="submit" className={`btn ${providers.length === 0 ? 'pri' : ''}`} disabled={busy || token.trim() === ''}>
          {t('session.logIn')}
        </button>
      </form>
    </main>
  )
}
