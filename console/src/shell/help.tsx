import { useI18n } from '@/i18n'
import { DocsLink } from '@/ui/docs'
import { Dialog } from '@/ui/overlay'
import { Kbd } from '@/ui/parts'
import { usePages } from './pages'

export function Shortcuts() {
  const { t } = useI18n()
  return (
    <dl className="dl items-center">
      <dt>
        <Kbd>Ctrl K</Kbd> <Kbd>/</Kbd>
      </dt>
      <dd>{t('keys.palette')}</dd>
      <dt>
        <Kbd>?</Kbd>
      </dt>
      <dd>{t('keys.help')}</dd>
      <dt>
        <Kbd>j</Kbd> <Kbd>k</Kbd>
      </dt>
      <dd>{t('keys.walk')}</dd>
      <dt>
        <Kbd>↑</Kbd> <Kbd>↓</Kbd> <Kbd>←</Kbd> <Kbd>→</Kbd>
      </dt>
      <dd>{t('keys.follow')}</dd>
      <dt>
        <Kbd>Ctrl Enter</Kbd>
      </dt>
      <dd>{t('keys.send')}</dd>
      <dt>
        <Kbd>Esc</Kbd>
      </dt>
      <dd>{t('keys.close')}</dd>
      {usePages().map((page) => [
        <dt key={`${page.path} key`}>
          <Kbd>g</Kbd> <Kbd>{page.letter}</Kbd>
        </dt>,
        <dd key={page.path}>{t(page.title)}</dd>,
      ])}
    </dl>
  )
}

export function Help({ onClose }: { onClose(): void }) {
  const { t } = useI18n()
  return (
    <Dialog open onClose={onClose} label={t('keys.title')}>
      <div className="in">
        <h2>{t('keys.title')}</h2>
        <Shortcuts />
        <div className="acts">
          <DocsLink className="btn ghost">{t('guide.title')}</DocsLink>
          <button type="button" className="btn" onClick={onClose}>
            {t('common.close')}
          </button>
        </div>
      </div>
    </Dialog>
  )
}
