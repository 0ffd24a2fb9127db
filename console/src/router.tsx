import { createRootRoute, createRoute, createRouter, Link, redirect, useRouterState } from '@tanstack/react-router'
import { createElement, useEffect, useState, type ComponentType, type FunctionComponent } from 'react'
import { T, useI18n } from '@/i18n'
import { Away, loadPart, loadWhenIdle } from '@/lib/parts'
import { parseSearch, stringifySearch, type Search } from '@/lib/url'
import { Layout } from '@/shell/layout'
import { ErrorNote } from '@/ui/feedback'

const root = createRootRoute({
  component: Layout,
  notFoundComponent: NotFound,
  validateSearch: (search: Record<string, unknown>): Search => search as Search,
})

// Each page is a file of its own.
const loaders = {
  '/': () => import('@/pages/overview'),
  '/services': () => import('@/pages/services'),
  '/playground': () => import('@/pages/playground'),
  '/calls': () => import('@/pages/calls'),
  '/runs': () => import('@/pages/runs'),
  '/spend': () => import('@/pages/spend'),
  '/batches': () => import('@/pages/batches'),
  '/versions': () => import('@/pages/versions'),
  '/keys': () => import('@/pages/keys'),
  '/settings': () => import('@/pages/settings'),
  '/instance': () => import('@/pages/wrong/instance'),
  '/model': () => import('@/pages/wrong/model'),
  '/host': () => import('@/pages/wrong/host'),
  '/tenant': () => import('@/pages/wrong/tenant'),
  '/gateways': () => import('@/pages/wrong/gateways'),
  '/me': () => import('@/pages/me'),
  '/team': () => import('@/pages/team'),
  '/docs/api': () => import('@/pages/docs'),
}
type Path = keyof typeof loaders

/** A page that is loaded when it is asked for, and again and again while the gateway is away. */
function lazyPage(load: () => Promise<{ default: ComponentType }>): FunctionComponent & { preload(): Promise<void> } {
  let loaded: ComponentType | undefined
  let failure: unknown
  const preload = () =>
    loadPart(load).then(
      (file) => {
        loaded = file.default
      },
      (error: unknown) => {
        failure = error
      },
    )
  function Page() {
    const [shown, show] = useState(() => loaded)
    const [error, fail] = useState(() => failure)
    const [attempt, again] = useState(0)
    useEffect(() => {
      if (shown !== undefined) return
      let isLeft = false
      let timer: ReturnType<typeof setTimeout> | undefined
      void preload().then(() => {
        if (isLeft) return
        if (loaded !== undefined) return show(() => loaded)
        fail(failure)
        if (failure instanceof Away) timer = setTimeout(() => again(attempt + 1), retryMs)
      })
      return () => {
        isLeft = true
        clearTimeout(timer)
      }
    }, [shown, attempt])
    if (shown !== undefined) return createElement(shown)
    return error === undefined ? null : <ErrorNote error={error} retry={() => again(attempt + 1)} />
  }
  return Object.assign(Page, { preload })
}
const retryMs = 2000

const page = <P extends Path>(path: P) => createRoute({ getParentRoute: () => root, path, component: lazyPage(loaders[path]) })

/** The address of a page that is part of another one now. */
const moved = (path: string, to: Path, search: (old: Search) => Search) =>
  createRoute({
    getParentRoute: () => root,
    path,
    beforeLoad: ({ search: old }) => {
      throw redirect({ to, search: search(old) as never, replace: true })
    },
  })

/** Begins to load the file of a page, which is needed when it is known who looks. */
export function preloadPage(path: string): void {
  if (path in loaders) loaders[path as Path]().catch(() => undefined) // the page loads it again, and shows why it cannot
}

/** Loads the files of all pages while nothing else is to be done, and more that may be asked for while the gateway is away. */
export const preloadAll = (...others: (() => Promise<unknown>)[]): void => loadWhenIdle([...Object.values(loaders), ...others])

const tree = root.addChildren([
  page('/'), page('/services'), page('/playground'), page('/calls'), page('/runs'), page('/spend'), page('/batches'), page('/versions'), page('/keys'), page('/settings'), page('/instance'), page('/model'), page('/host'), page('/tenant'), page('/gateways'), page('/me'), page('/team'), page('/docs/api'),
  moved('/resilience', '/services', ({ show }): Search => (show === 'exceptions' ? { show: 'problems' } : {})),
  moved('/quota', '/spend', (search) => ({ ...search, view: search.window === undefined ? 'ledger' : 'usage' })),
])

export const router = createRouter({
  routeTree: tree,
  parseSearch,
  stringifySearch,
  defaultPreload: 'intent',
  defaultErrorComponent: ({ error, reset }) => <ErrorNote error={error} retry={reset} />,
  scrollRestoration: true,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}

function NotFound() {
  const { t } = useI18n()
  const path = useRouterState({ select: (state) => state.location.pathname })
  return (
    <div className="empty panel">
      <h2>{t('error.page')}</h2>
      <p>
        <T k="error.pageText" v={{ path: <code>{path}</code> }} />
      </p>
      <Link className="btn pri" to="/">
        {t('error.home')}
      </Link>
    </div>
  )
}
