import { TriangleAlert } from 'lucide-react'
import { useI18n } from '@/i18n'

const named = 8

/** Says which models nothing serves any more; nothing where all of them are served. */
export function LeftWithout({ models }: { models: readonly string[] }) {
  const { t } = useI18n()
  if (models.length === 0) return null
  const names = models.slice(0, named).join(t('common.comma'))
  return (
    <p className="note wn my-2" role="alert">
      <TriangleAlert className="ic" aria-hidden />
      <span className="min-w-0 break-words">{t('services.leftWithout', { n: models.length, models: models.length > named ? t('services.andMore', { names, n: models.length - named }) : names })}</span>
    </p>
  )
}
