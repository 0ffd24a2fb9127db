import type { ReactNode } from 'react'
import { useI18n } from '@/i18n'
import { docsAddress, type DocsPage } from '@/lib/docs'

/** A link to the documentation in the language of the console, beside what is on the screen. */
export function DocsLink({ page, section, className, children }: { page?: DocsPage; section?: string; className?: string; children: ReactNode }) {
  const { lang } = useI18n()
  return (
    <a className={`docs-link ${className ?? ''}`} href={docsAddress(lang, page, section)} target="_blank" rel="noreferrer">
      {children}
    </a>
  )
}
