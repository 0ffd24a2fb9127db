import type { FleetUse } from '@/api/types'
import type { I18n } from '@/i18n'
import { digits, duration, percent, text } from '@/lib/format'

/** What is less than this many times as much is called the same. */
const same = 1.1

/** What the last minutes came to, in plain words. */
export function sentences(t: I18n['t'], model: string, use: FleetUse): string {
  if (use.calls === 0) return t('fleet.quiet', { model })
  return [first(t, model, use), cached(t, use), error(t, use)].filter((one) => one !== '').join(' ')
}

function first(t: I18n['t'], model: string, use: FleetUse): string {
  if (use.firstTokenMs === null || use.roundRobinMs === null) return t('fleet.whole', { model, n: use.calls })
  const values = { model, first: text(duration(use.firstTokenMs)) }
  const times = use.roundRobinMs / use.firstTokenMs
  if (!(times >= same)) return t('fleet.same', values)
  return t('fleet.sooner', { ...values, times: digits(times), turns: text(duration(use.roundRobinMs)) })
}

function cached(t: I18n['t'], use: FleetUse): string {
  if (use.hitRate === null || use.blindHitRate === null) return ''
  const hits = t(use.isHitRateTold ? 'fleet.told' : 'fleet.believed', { hits: percent(use.hitRate, 0), blind: percent(use.blindHitRate, 0) })
  if (use.prefillSavedShare === null || use.prefillSavedShare < 0.005) return hits
  return `${hits} ${t('fleet.saved', { share: percent(use.prefillSavedShare, 0) })}`
}

function error(t: I18n['t'], use: FleetUse): string {
  const ratio = use.estimateRatio
  if (ratio === null || ratio <= 0) return ''
  if (ratio > 2) return t('fleet.late', { times: digits(ratio) })
  return ratio < 0.5 ? t('fleet.soon', { times: digits(1 / ratio) }) : t('fleet.right')
}
