import { useQuery } from '@tanstack/react-query'
import { Link, Navigate, Outlet, useNavigate, useRouterState } from '@tanstack/react-router'
import { Code, Contrast, Ellipsis, Globe, Search as SearchIcon, TriangleAlert, UserRound } from 'lucide-react'
import { useEffect, useMemo, useState } from 'react'
import { health, info } from '@/api/queries'
import { useI18n, type Key, type Language } from '@/i18n'
import { useLive, useNow } from '@/live/context'
import { since, span } from '@/lib/format'
import { fileFault } from '@/lib/health'
import type { Search } from '@/lib/url'
import { Toasts, useToast } from '@/ui/feedback'
import { BreakerGlyph, Mark } from '@/ui/glyphs'
import { Kbd, Menu } from '@/ui/parts'
import { ApiCalls, ApiCallsContext, type ApiCall } from './api-calls'
import { FactContext } from './fact'
import { Help } from './help'
import { listed, ownPages, pages, useOwnPages, usePages, type Page } from './pages'
import { Palette } from './palette'
import { languageNames, usePreferences, type Theme } from './preferences'
import { isGuest, logOut, roleOf, useMe } from './session'
import { useRowKeys } from './rows'
import { useShortcuts } from './shortcuts'

/** Pages that no menu has. */
const others: Record<string, { title: Key }> = { '/docs/api': { title: 'docs.title' }, '/instance': { title: 'wrong.instance' }, '/model': { title: 'wrong.model' }, '/host': { title: 'wrong.host' }, '/tenant': { title: 'wrong.tenant' } }

/** The frame of all pages: menu, top bar, search and shortcuts. */
export function Layout() {
  const { t } = useI18n()
  const [fact, setFact] = useState('')
  const [palette, setPalette] = useState(false)
  const [help, setHelp] = useState(false)
  const [asApi, setAsApi] = useState(false)
  const [calls] = useState(() => new Map<symbol, readonly ApiCall[]>())
  const path = useRouterState({ select: (state) => state.location.pathname })
  const page = others[path] ?? [...pages, ...ownPages].find((candidate) => candidate.path === path)
  const guest = isGuest(useMe())
  const isClosed = guest && path !== '/docs/api' && !ownPages.some((own) => own.path === path)
  useRowKeys()
  useShortcuts({ openPalette: () => setPalette(!guest), openHelp: () => setHelp(true) })
  const object = useRouterState({ select: (state) => objectOf(state.location.search as Search) })
  useEffect(() => {
    document.title = [object, page === undefined ? '' : t(page.title), 'Patchbay'].filter((part) => part !== '').join(' · ')
  }, [object, page, t])
  return (
    <FactContext.Provider value={setFact}>
      <ApiCallsContext.Provider value={calls}>
      <div className="app">
        <a className="skip" href="#main">
          {t('app.skip')}
        </a>
        <Sidebar path={path} />
        <div className="min-w-0">
          <header className="top">
            <h1>{page === undefined ? 'Patchbay' : t(page.title)}</h1>
            <span className="about trunc" title={fact}>{fact}</span>
            <Toasts />
            {guest ? (
              <span className="grow" />
            ) : (
                <button type="button" className="search" aria-keyshortcuts="Control+K" title={t('top.search')} onClick={() => setPalette(true)}>
                  <SearchIcon className="ic s14" aria-hidden />
                  <span className="sr-only">{`${t('palette.label')}: `}</span>
                  <span className="grow">{t('top.search')}</span>
                  <span aria-hidden="true">
                    <Kbd>Ctrl K</Kbd>
                  </span>
                </button>
            )}
            {!guest && <LiveDot />}
            <button type="button" className="btn ghost icon onlydesk" aria-label={t('api.title')} title={t('api.title')} onClick={() => setAsApi(true)}>
              <Code className="ic" aria-hidden />
            </button>
            <LanguageMenu />
            <ThemeMenu />
            <PersonMenu />
          </header>
          <main className="main" id="main" tabIndex={-1}>
            {!guest && <FileNote />}
            <ViewerNote needs={pages.find((candidate) => candidate.path === path)?.needs} />
            {isClosed ? <Navigate to="/me" replace /> : <Outlet />}
          </main>
        </div>
        <Tabbar path={path} />
      </div>
      {palette && <Palette onClose={() => setPalette(false)} onApi={() => setAsApi(true)} />}
      {help && <Help onClose={() => setHelp(false)} />}
      {asApi && <ApiCalls onClose={() => setAsApi(false)} />}
      </ApiCallsContext.Provider>
    </FactContext.Provider>
  )
}

/** The object that an address names, for the title of the tab. */
function objectOf({ id, call, edit, key, batch }: Search): string {
  return id ?? call ?? edit?.slice(edit.indexOf('/') + 1) ?? key ?? batch ?? ''
}

function useOpenBreakers(): number {
  const { snapshot } = useLive()
  return useMemo(() => (snapshot?.instances ?? []).filter((instance) => instance.enabled && instance.breaker === 'OPEN').length, [snapshot])
}

function NavLink({ page, path, open }: { page: Page; path: string; open: number }) {
  const { t } = useI18n()
  return (
    <Link to={page.path} className={page.under === undefined ? '' : 'sub'} title={t(page.title)} aria-current={page.path === path ? 'page' : undefined}>
      {page.icon}
      <span>{t(page.title)}</span>
      {page.path === '/services' && open > 0 && (
        <span className="count" role="img" aria-label={t('nav.open', { n: open })}>
          <BreakerGlyph state="OPEN" />
          {open}
        </span>
      )}
    </Link>
  )
}

function Sidebar({ path }: { path: string }) {
  const { t, locale } = useI18n()
  const open = useOpenBreakers()
  const seen = listed(usePages(), path)
  const guest = isGuest(useMe())
  const { data } = useQuery({ ...info, enabled: !guest })
  const now = useNow(30_000)
  return (
    <nav className="side" aria-label={t('nav.label')}>
      <Link className="brand" to="/" aria-label="Patchbay">
        <Mark />
        <span>Patchbay</span>
      </Link>
      <div className="nav">
        {seen.filter((page) => page.runs).map((page) => (
          <NavLink key={page.path} {...{ page, path, open }} />
        ))}
        {!guest && <div className="sep" />}
        {seen.filter((page) => !page.runs).map((page) => (
          <NavLink key={page.path} {...{ page, path, open }} />
        ))}
      </div>
      <div className="foot">
        {guest ? <code>{location.host}</code> : <Link className="plain hover:underline" to="/gateways"><code>{location.host}</code></Link>}
        <div hidden={guest}>
          <span translate="no">{data?.version ?? '–'}</span>
          {data?.startedAt !== undefined && data.startedAt !== null && ` · ${t('nav.up', { age: since(data.startedAt, now, locale) })}`}
        </div>
      </div>
    </nav>
  )
}

function Tabbar({ path }: { path: string }) {
  const { t } = useI18n()
  const seen = usePages()
  const shown = seen.slice(0, 4)
  const rest = seen.slice(4)
  const navigate = useNavigate()
  return (
    <nav className="tabbar" aria-label={t('nav.label')}>
      {shown.map((page) => (
        <Link key={page.path} to={page.path} aria-current={page.path === path ? 'page' : undefined}>
          {page.icon}
          <span>{t(page.title)}</span>
        </Link>
      ))}
      {rest.length > 0 && (
        <Menu
          trigger={
            <button type="button" aria-current={rest.some((page) => page.path === path) ? 'page' : undefined}>
              <Ellipsis className="ic" aria-hidden />
              <span>{t('nav.more')}</span>
            </button>
          }
          items={rest.map((page) => ({
            label: (
              <span className="row">
                {page.icon}
                {t(page.title)}
              </span>
            ),
            onSelect: () => void navigate({ to: page.path }),
          }))}
        />
      )}
    </nav>
  )
}

function LiveDot() {
  const { t, locale } = useI18n()
  const { connection } = useLive()
  const now = useNow()
  useEffect(() => {
    document.documentElement.classList.toggle('stale', connection.kind === 'stale')
  }, [connection.kind])
  const left = 'retryAt' in connection ? Math.max(0, Math.ceil((connection.retryAt - now) / 1000)) : 0
  const age = 'since' in connection ? span(now - connection.since, locale) : ''
  const words = {
    connecting: t('live.connecting'),
    live: t('live.live'),
    reconnecting: t('live.reconnecting', { n: left }),
    stale: t('live.stale', { age }),
    paused: t('live.paused'),
  }[connection.kind]
  return (
    <span className={`live ${connection.kind}`} role="status" title={connection.kind === 'stale' ? t('live.staleLong', { age, n: left }) : undefined}>
      <i aria-hidden="true" />
      {words}
    </span>
  )
}

/** Who is logged in, where somebody must be. */
function PersonMenu() {
  const { t, failure } = useI18n()
  const toast = useToast()
  const me = useMe()
  const mine = useOwnPages()
  const navigate = useNavigate()
  if (me === null || !me.securityEnabled) return null
  const own = isGuest(me) ? [] : mine
  const who = t('session.who', { name: me.name, role: roleOf(me) })
  return (
    <Menu
      trigger={
        <button type="button" className="btn ghost icon" aria-label={who} title={who}>
          <UserRound className="ic" aria-hidden />
        </button>
      }
      items={[{ label: who, disabled: true, onSelect: () => undefined }, 'separator', ...own.map(({ path, title }) => ({ label: t(title), onSelect: () => void navigate({ to: path }) })), { label: t('session.logOut'), onSelect: () => void logOut().catch((error: unknown) => toast(failure(error))) }]}
    />
  )
}

/** What a viewer may do, but for pages that have nothing for one, which say that themselves. */
function ViewerNote({ needs }: { needs: string | undefined }) {
  const { t } = useI18n()
  const me = useMe()
  return me?.role === 'VIEWER' && (needs === undefined || me.permissions.includes(needs)) ? <div className="note mb-4">{t('session.viewer')}</div> : null
}

/** The configuration file has mistakes, so that its edits are not in force. */
function FileNote() {
  const { t } = useI18n()
  const { data } = useQuery(health)
  const reason = fileFault(data)
  if (reason === undefined) return null
  return (
    <div className="note bd mb-4" role="alert">
      <TriangleAlert className="ic" aria-hidden />
      <div>
        <b>{t('file.broken')}</b>
        <div className="whitespace-pre-wrap">
          <code>{reason}</code>
        </div>
      </div>
    </div>
  )
}

function LanguageMenu() {
  const { t, lang, setLang } = useI18n()
  return (
    <Menu
      trigger={
        <button type="button" className="btn ghost icon" aria-label={t('top.language')} title={t('top.language')}>
          <Globe className="ic" aria-hidden />
        </button>
      }
      items={(Object.keys(languageNames) as Language[]).map((value) => ({
        label: <span lang={value === 'zh' ? 'zh-CN' : 'en'}>{languageNames[value]}</span>,
        checked: value === lang,
        onSelect: () => setLang(value),
      }))}
    />
  )
}

function ThemeMenu() {
  const { t } = useI18n()
  const { theme, setTheme } = usePreferences()
  const themes: Theme[] = ['system', 'light', 'dark']
  return (
    <Menu
      trigger={
        <button type="button" className="btn ghost icon" aria-label={t('top.theme')} title={t('top.theme')}>
          <Contrast className="ic" aria-hidden />
        </button>
      }
      items={themes.map((value) => ({ label: t(`theme.${value}`), checked: value === theme, onSelect: () => setTheme(value) }))}
    />
  )
}
