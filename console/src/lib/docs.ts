import type { Key, Language } from '@/i18n'

/** The pages of the documentation that the gateway itself serves, with their names. */
export const docsPages = { start: 'guide.start', 'first-backend': 'guide.backend', traffic: 'guide.traffic', limits: 'guide.limits', failures: 'guide.failures', quota: 'guide.quota', errors: 'guide.errors' } satisfies Record<string, Key>

export type DocsPage = keyof typeof docsPages

/** Where a page is in a language; sections have the same name in all. */
export function docsAddress(lang: Language, page?: DocsPage, section?: string): string {
  return `/docs${page === undefined ? '' : `/${page}`}?lang=${lang}${section === undefined ? '' : `#${section}`}`
}

/**
 * The code of an error that the documentation explains: one of the unified API,
 * which has it in an object of its own.
 */
export function documentedCode(body: unknown): string | undefined {
  const error = (body as { error?: unknown } | null | undefined)?.error
  const code = typeof error === 'object' && error !== null ? (error as { code?: unknown }).code : undefined
  return typeof code === 'string' && /^[a-z_]+$/.test(code) ? code : undefined
}
