import { useEdit } from '@/api/mutations'
import { useI18n } from '@/i18n'
import { rate } from '@/lib/format'
import { useStats } from '@/live/context'
import { Confirm } from '@/ui/overlay'
import { LeftWithout } from './last'
import type { Row } from './row'
import { idsOf, rateOf, type Serving } from './rows'

/** What is done to several instances at once. */
export interface Many {
  act: 'enable' | 'disable' | 'remove'
  rows: Row[]
}

/** Asks before several instances are changed, and names the models that nothing serves then. */
export function ManyConfirm({ many, serving, version, onClose }: { many: Many; serving: readonly Serving[]; version: number; onClose(): void }) {
  const { t } = useI18n()
  const edit = useEdit()
  const stats = useStats('5m')
  const n = many.rows.length
  return (
    <Confirm
      title={t(`services.${many.act}All`, { n })}
      action={t(`services.${many.act}All`, { n })}
      onClose={onClose}
      onConfirm={async () => {
        // The last change of the row says so, and its undo takes all of them back.
        for (const [index, row] of many.rows.entries()) {
          await edit.mutateAsync({
            edit: many.act === 'remove' ? { kind: 'remove', service: row.service, instance: row.instance } : { kind: 'update', service: row.service, id: row.id, instance: { enabled: many.act === 'enable' } },
            undoTo: version,
            said: index === n - 1 ? t('services.bulkDone', { n }) : undefined,
          })
        }
      }}
    >
      <p className="mb-2">{t('services.bulkText', { rate: rate(rateOf(many.rows, stats)), n })}</p>
      {many.act !== 'enable' && <LeftWithout serving={serving} out={many.rows.flatMap(idsOf)} />}
      <ul className="max-h-[160px] overflow-auto text-[12px]">
        {many.rows.map((row) => (
          <li key={`${row.service} ${row.id}`} className="trunc">
            <code>{row.id}</code>
          </li>
        ))}
      </ul>
    </Confirm>
  )
}
