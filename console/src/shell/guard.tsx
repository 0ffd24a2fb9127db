import { Link } from '@tanstack/react-router'
import { Lock } from 'lucide-react'
import type { ComponentProps, ReactNode } from 'react'
import { useI18n } from '@/i18n'
import { roleOf, useMe } from './session'

/** Why the person may not do something; undefined where they may, or where nobody knows. */
export function useDenied(permission: string): string | undefined {
  const { t } = useI18n()
  const me = useMe()
  return me === null || me.permissions.includes(permission) ? undefined : t('session.denied', { role: roleOf(me), permission })
}

/**
 * Disables the controls in it where the person lacks the permission. The reason
 * is in reach of the Tab key, which passes over disabled controls: always to be
 * seen with say, else while it has the focus.
 */
export function Guard({ needs, say = false, children }: { needs: string; say?: boolean; children: ReactNode }) {
  const denied = useDenied(needs)
  if (denied === undefined) return children
  return (
    <>
      <Reason say={say}>{denied}</Reason>
      <fieldset disabled className="contents" title={denied}>
        {children}
      </fieldset>
    </>
  )
}

function Reason({ say, children }: { say: boolean; children: string }) {
  return (
    // Focus is all that the keyboard can do here: read why the next controls are off.
    <span className={say ? 'note reason mb-3' : 'reason away'} role="note" tabIndex={0}>
      <Lock className="ic s14" aria-hidden />
      {children}
    </span>
  )
}

/** A link that looks like a button and leads to a change; without the permission it says why it does not. */
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
    <button type="button" aria-disabled className={className as string} title={denied} aria-description={denied}>
      {children}
    </button>
  )
}
