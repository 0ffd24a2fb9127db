// The files of the console, which the gateway serves: all of them are loaded while nothing else
// is to be done, and one that is missing never leads to a page of the browser.

const patience = 2000

/** Whether the gateway answers. */
async function answers(): Promise<boolean> {
  return fetch('/actuator/health/liveness', { cache: 'no-store', signal: AbortSignal.timeout(patience) }).then(
    (reply) => reply.ok,
    () => false,
  )
}

/** What a part that could not be loaded throws while the gateway is away. */
export class Away extends TypeError {
  override readonly name = 'Away'
}

const reloadedAt = 'patchbay.reloaded'
const between = 30_000

/**
 * Loads a part of the console. A page that was opened before the gateway was upgraded names files
 * that are gone: where the gateway answers it is loaded anew, once, which finds the new ones.
 */
export async function loadPart<T>(load: () => Promise<T>, isThere: () => Promise<boolean> = answers, reload: () => void = () => location.reload()): Promise<T> {
  try {
    return await load()
  } catch (error) {
    if (!(await isThere())) throw new Away(error instanceof Error ? error.message : '')
    const last = Number(sessionStorage.getItem(reloadedAt) ?? 0)
    if (Date.now() - last < between) throw error
    sessionStorage.setItem(reloadedAt, String(Date.now()))
    reload()
    return new Promise<T>(() => undefined) // until the page is gone
  }
}

/** Loads parts one after the other, each when nothing else is to be done. One that is not there comes again after the others. */
export function loadWhenIdle(parts: readonly (() => Promise<unknown>)[]): void {
  const [first, ...rest] = parts
  if (first === undefined) return
  const run = () => void first().then(() => loadWhenIdle(rest), () => setTimeout(() => loadWhenIdle([...rest, first]), patience))
  if (typeof requestIdleCallback === 'function') requestIdleCallback(run, { timeout: patience })
  else setTimeout(run, 200)
}
