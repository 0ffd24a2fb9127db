import type { I18n } from '@/i18n'

/** Who made a change; two names are those of the gateway itself. */
export function personOf(t: I18n['t'], name: string): string {
  return name === 'open' ? t('ver.author.open') : name === 'system' ? t('ver.author.system') : name
}
