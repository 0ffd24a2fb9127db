import { Link } from '@tanstack/react-router'
import type { ComponentProps, ReactNode } from 'react'
import { useI18n } from '@/i18n'
import { useMe } from './session'

/** Why the person may not do something; undefined where they may, or where nobody knows. */
export function useDenied(permission: string): string | undefined {
  const { t } = useI18n()
  const me = useMe()
  return me === null || me.permissions.includes(permission) ? undefined : t('session.denied', { role: me.role, permission })
}

/** Disables the controls in it, and says why, where the person lacks the permission. */
export function Guard({ needs, children }: { needs: string; children: ReactNode }) {
  const denied = useDenied(needs)
  if (denied === undefined) return children
  return (
    <fieldset disabled className="contents" title={denied}>
      {children}
    </fieldset>
  )
}

/** A link that looks like a button and leads to a change: a disabled button without the permission. */
export function GuardedLink({ needs, className, children, ...link }: ComponentProps<typeof Link> & { needs: string; children: ReactNode }) {
  const denied = useDenied(needs)
  if (denied === undefined) {
    return (
      <Link className={className} {...link}>
        {children}
      </Link>
    )
  }
  return (
    <button type="button" disabled className={className as string} title={denied}>
      {children}
    </button>
  )
}
