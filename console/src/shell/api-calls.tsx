// Every page as the calls of the API that it makes, to take away.
import { Link } from '@tanstack/react-router'
import { createContext, useContext, useEffect } from 'react'
import { useI18n } from '@/i18n'
import { shell } from '@/lib/snippets'
import { Dialog } from '@/ui/overlay'
import { CodeBox } from '@/ui/parts'
import { useMe } from './session'

export interface ApiCall {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  path: string
  /** Keys of backends are left out by those who name the call. */
  body?: object
  /** The version of the configuration that a change is based on. */
  version?: number
}

/** The calls of what is on the screen, by the part of the page that makes them. */
export const ApiCallsContext = createContext(new Map<symbol, readonly ApiCall[]>())

/** Tells which calls show or change what this part of the page is about. */
export function usePageCalls(calls: readonly ApiCall[]): void {
  const known = useContext(ApiCallsContext)
  const text = JSON.stringify(calls)
  useEffect(() => {
    const part = Symbol('part of the page')
    known.set(part, JSON.parse(text) as ApiCall[])
    return () => void known.delete(part)
  }, [known, text])
}

/** The call as a command; the token is named and never written out. */
export function curlOf({ method = 'GET', path, body, version }: ApiCall, origin: string, secured: boolean): string {
  const words = [(method === 'GET' ? 'curl' : `curl -X ${method}`) + shell` ${origin + path}`]
  if (secured) words.push('-H "Authorization: Bearer $PATCHBAY_TOKEN"')
  if (version !== undefined) words.push(shell`-H ${`If-Match: "${version}"`}`)
  if (body !== undefined) words.push("-H 'Content-Type: application/json'", shell`-d ${JSON.stringify(body)}`)
  return words.join(' \\\n  ')
}

export function ApiCalls({ onClose }: { onClose(): void }) {
  const { t } = useI18n()
  const secured = useMe()?.securityEnabled === true
  // What was opened last, such as a drawer, comes first.
  const calls = [...useContext(ApiCallsContext).values()].toReversed().flat()
  return (
    <Dialog open onClose={onClose} label={t('api.title')}>
      <div className="in">
        <h2>{t('api.title')}</h2>
        <p className="soft">{t('api.text')}</p>
        {calls.length === 0 && <p className="muted">{t('api.none')}</p>}
        {calls.map((call) => (
          <CodeBox key={`${call.method} ${call.path}`} fold text={curlOf(call, location.origin, secured)} />
        ))}
        <div className="acts">
          <Link className="btn ghost" to="/docs/api" onClick={onClose}>
            {t('set.link.docs')}
          </Link>
          <button type="button" className="btn" onClick={onClose}>
            {t('common.close')}
          </button>
        </div>
      </div>
    </Dialog>
  )
}
