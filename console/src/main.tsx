import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode, type ReactNode } from 'react'
import { createRoot } from 'react-dom/client'
import { loadTexts } from '@/i18n'
import { LiveProvider } from '@/live/context'
import { LiveStore } from '@/live/store'
import { StreamSource } from '@/live/stream'
import { isGuest, self, SessionProvider, useMe } from '@/shell/session'
import { initialLanguage, PreferencesProvider } from '@/shell/preferences'
import { ToastProvider } from '@/ui/feedback'
import { preloadAll, preloadPage, router } from './router'
import '@/styles/app.css'

const queries = new QueryClient({
  defaultOptions: { queries: { staleTime: 2000, retry: 1, refetchOnWindowFocus: true } },
})
const live = new LiveStore(new StreamSource())

/** The state of the gateway, for who may see it. */
function Live({ children }: { children: ReactNode }) {
  return (
    <LiveProvider store={live} isOff={isGuest(useMe())}>
      {children}
    </LiveProvider>
  )
}

// The file of the page, who looks at it and the dictionary are fetched together,
// not one after the other.
preloadPage(location.pathname)
void queries.prefetchQuery(self)

// The dictionary comes before the first paint: no key is ever shown.
void loadTexts(initialLanguage()).then((texts) => {
  createRoot(document.getElementById('root')!).render(
    <StrictMode>
      <PreferencesProvider texts={texts}>
        <QueryClientProvider client={queries}>
          <ToastProvider>
            <SessionProvider>
              <Live>
                <RouterProvider router={router} />
              </Live>
            </SessionProvider>
          </ToastProvider>
        </QueryClientProvider>
      </PreferencesProvider>
    </StrictMode>,
  )
  preloadAll(() => loadTexts('zh'))
})
