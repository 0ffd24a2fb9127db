import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Link, useRouterState } from '@tanstack/react-router'
import { T, useI18n } from '@/i18n'
import { parseSearch, stringifySearch, type Search } from '@/lib/url'
import { Layout } from '@/shell/layout'
import { ErrorNote } from '@/ui/feedback'

const root = createRootRoute({
  component: Layout,
  notFoundComponent: NotFound,
  validateSearch: (search: Record<string, unknown>): Search => search as Search,
})

const page = <P extends string>(path: P, load: () => Promise<{ default: () => React.ReactNode }>) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load) })

const tree = root.addChildren([
  page('/', () => import('@/pages/overview')),
  page('/services', () => import('@/pages/services')),
  page('/playground', () => import('@/pages/playground')),
  page('/calls', () => import('@/pages/calls')),
  page('/resilience', () => import('@/pages/resilience')),
  page('/quota', () => import('@/pages/quota')),
  page('/versions', () => import('@/pages/versions')),
  page('/keys', () => import('@/pages/keys')),
  page('/settings', () => import('@/pages/settings')),
  page('/docs/api', () => import('@/pages/docs')),
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
      <h3>{t('error.page')}</h3>
      <p>
        <T k="error.pageText" v={{ path: <code>{path}</code> }} />
      </p>
      <Link className="btn pri" to="/">
        {t('error.home')}
      </Link>
    </div>
  )
}
