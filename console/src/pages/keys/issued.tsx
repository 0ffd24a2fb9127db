import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ask, fieldErrors } from '@/api/client'
import type { Key } from '@/api/types'
import { useI18n } from '@/i18n'
import { shell } from '@/lib/snippets'
import { ErrorNote } from '@/ui/feedback'
import { SelectField } from '@/ui/field'
import { Dialog } from '@/ui/overlay'
import { CodeBox } from '@/ui/parts'

/** A new text for a key; the old one stays good for a while, so that programs can be changed one by one. */
export function RotateKey({ rotating, at, queries, onClose, onIssued }: {
  rotating: Key
  /** The operation that lists such keys. */
  at: string
  /** Of what is asked anew afterwards. */
  queries: readonly string[]
  onClose(): void
  onIssued(key: Key): void
}) {
  const { t, said } = useI18n()
  const client = useQueryClient()
  const [overlap, setOverlap] = useState<Overlap>('24h')
  const rotate = useMutation({
    mutationFn: () => ask<Key>(`${at}/${encodeURIComponent(rotating.id)}/rotate`, 'POST', { overlap }),
    onSuccess: async (key) => {
      await client.invalidateQueries({ queryKey: queries })
      onIssued(key)
    },
  })
  const title = t('key.rotateTitle', { id: rotating.name ?? rotating.id })
  return (
    <Dialog open onClose={onClose} label={title}>
      <form
        className="in"
        onSubmit={(event) => {
          event.preventDefault()
          rotate.mutate()
        }}
      >
        <h2>{title}</h2>
        <p className="soft">{t('key.rotateText')}</p>
        <SelectField<Overlap> label={t('key.overlap')} name="overlap" value={overlap} error={fieldErrors(rotate.error, said).overlap} options={overlaps.map((value) => ({ value, label: t(`key.overlap.${value}`) }))} onChange={setOverlap} />
        {rotate.error !== null && fieldErrors(rotate.error, said).overlap === undefined && <ErrorNote error={rotate.error} />}
        <div className="acts">
          <button type="button" className="btn ghost" onClick={onClose}>
            {t('common.cancel')}
          </button>
          <button type="submit" className="btn pri" disabled={rotate.isPending}>
            {t('key.rotate')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

const overlaps = ['0s', '1h', '24h', '168h', '720h'] as const
type Overlap = (typeof overlaps)[number]

/** The key is shown this once; it stays in this dialog only. */
export function IssuedKey({ issued, onClose }: { issued: Key; onClose(): void }) {
  const { t } = useI18n()
  const title = t(issued.rotatedAt === undefined ? 'key.made' : 'key.isRotated', { id: issued.name ?? issued.id })
  return (
    <Dialog open onClose={() => undefined} label={title}>
      <div className="in">
        <h2>{title}</h2>
        <p className="soft">{t('key.once')}</p>
        <CodeBox fold text={issued.key ?? ''} />
        <p className="soft">{t('key.use')}</p>
        <CodeBox fold text={shell`curl ${`${location.origin}/v1/models`} -H ${`Authorization: Bearer ${issued.key ?? ''}`}`} />
        <div className="acts">
          <button type="button" className="btn pri" onClick={onClose}>
            {t('key.done')}
          </button>
        </div>
      </div>
    </Dialog>
  )
}
