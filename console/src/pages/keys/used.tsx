import { useQuery } from '@tanstack/react-query'
import { info, spentThisMonth } from '@/api/queries'
import type { Key } from '@/api/types'
import { useI18n } from '@/i18n'
import { ago, stamp } from '@/lib/format'
import { useNow } from '@/live/context'

/**
 * When a key was used last. The gateway knows it since its start, and the ledger whether it
 * was used in this month; a key that neither has seen may have been used before.
 */
export function LastUsed({ of: key, whole = false }: { of: Key; whole?: boolean }) {
  const { t, locale } = useI18n()
  const now = useNow(30_000)
  const { data: about } = useQuery(info)
  const { data: spent } = useQuery(spentThisMonth('key'))
  const calls = t('key.callsToday', { n: key.callsToday })
  if (key.lastUsedAt) return <span title={whole ? undefined : `${stamp(key.lastUsedAt)} · ${calls}`}>{whole ? `${stamp(key.lastUsedAt)} · ${calls}` : ago(key.lastUsedAt, now, locale)}</span>
  const month = spent?.isCounted === true ? (spent.requests.get(key.id) ?? 0) : null
  const since = about?.startedAt === undefined || about.startedAt === null ? '' : stamp(about.startedAt).slice(0, 16)
  const said = month === null ? t('key.notSince', { time: since }) : month > 0 ? t('key.usedMonth', { n: month, time: since }) : t('key.notMonth')
  return <span className="muted" title={whole ? undefined : said}>{whole ? said : t(month === null ? 'key.unknown' : month > 0 ? 'key.thisMonth' : 'key.notMonthShort')}</span>
}
