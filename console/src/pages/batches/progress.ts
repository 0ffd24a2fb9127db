// How far batches are.
import type { Batch } from '@/api/types'

const ends: readonly Batch['state'][] = ['completed', 'failed', 'expired', 'cancelled']

/** Whether something may still happen to a batch. */
export const isOpen = (batch: Pick<Batch, 'state'>): boolean => !ends.includes(batch.state)

/** Whether stopping a batch would spare lines: one whose results are being written has none left. */
export const mayCancel = (batch: Pick<Batch, 'state'>): boolean => batch.state === 'validating' || batch.state === 'in_progress'

/** The lines that have ended, with an answer or an error. */
export const doneOf = (batch: Pick<Batch, 'completed' | 'failed'>): number => batch.completed + batch.failed
