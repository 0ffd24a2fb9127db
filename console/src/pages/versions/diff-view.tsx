import { useMemo, type ReactNode } from 'react'
import { useI18n } from '@/i18n'
import { changedPart, diffLines, hunks, type DiffLine } from '@/lib/diff'

function Marked({ text, from, to }: { text: string; from: number; to: number }): ReactNode {
  if (from >= to) return text
  return (
    <>
      {text.slice(0, from)}
      <mark>{text.slice(from, to)}</mark>
      {text.slice(to)}
    </>
  )
}

interface Pair {
  left: DiffLine | null
  right: DiffLine | null
}

/** Deleted and added lines that stand in for each other. */
function pairs(lines: readonly DiffLine[]): Pair[] {
  const result: Pair[] = []
  for (let i = 0; i < lines.length; ) {
    const line = lines[i]!
    if (line.kind === 'same') {
      result.push({ left: line, right: line })
      i++
      continue
    }
    const block: DiffLine[] = []
    while (i < lines.length && lines[i]!.kind !== 'same') block.push(lines[i++]!)
    const removed = block.filter((one) => one.kind === 'del')
    const added = block.filter((one) => one.kind === 'add')
    for (let k = 0; k < Math.max(removed.length, added.length); k++) result.push({ left: removed[k] ?? null, right: added[k] ?? null })
  }
  return result
}

const key = (text: string) => text.split(':')[0]

function content(pair: Pair, side: 'left' | 'right'): ReactNode {
  const line = pair[side]
  if (line === null) return ''
  if (line.kind === 'same' || pair.left === null || pair.right === null || key(pair.left.text) !== key(pair.right.text)) return line.text
  const part = changedPart(pair.left.text, pair.right.text)
  return <Marked text={line.text} from={part.head} to={side === 'left' ? part.tailA : part.tailB} />
}

/** Two texts line by line, in one column or side by side. */
export function DiffView({ before, after, sideBySide }: { before: string[]; after: string[]; sideBySide: boolean }) {
  const { t } = useI18n()
  const parts = useMemo(() => hunks(diffLines(before, after)), [before, after])
  return (
    <div className={`diff ${sideBySide ? 'sbs' : ''}`} tabIndex={0}>
      <div>
        {parts.map((part, index) =>
          part.kind === 'gap' ? (
            <div key={index} className="hunk px-3">
              {t('ver.unchangedLines', { n: part.count })}
            </div>
          ) : sideBySide ? (
            pairs(part.lines).map((pair, row) => (
              <div key={`${index} ${row}`} className="l">
                <span className="n">{pair.left?.left ?? ''}</span>
                <span className={`s ${pair.left?.kind === 'del' ? 'rd bad' : ''}`}>{pair.left?.kind === 'del' ? '−' : ''}</span>
                <span className={pair.left?.kind === 'del' ? 'rd' : ''}>{content(pair, 'left')}</span>
                <span className="n">{pair.right?.right ?? ''}</span>
                <span className={`s ${pair.right?.kind === 'add' ? 'ra' : ''}`}>{pair.right?.kind === 'add' ? '+' : ''}</span>
                <span className={pair.right?.kind === 'add' ? 'ra' : ''}>{content(pair, 'right')}</span>
              </div>
            ))
          ) : (
            unified(part.lines).map(({ line, pair }, row) => (
              <div key={`${index} ${row}`} className={`l ${line.kind === 'same' ? '' : line.kind}`}>
                <span>{line.left ?? ''}</span>
                <span>{line.right ?? ''}</span>
                <span className="s">{line.kind === 'add' ? '+' : line.kind === 'del' ? '−' : ''}</span>
                <span>{content(pair, line.kind === 'add' ? 'right' : 'left')}</span>
              </div>
            ))
          ),
        )}
      </div>
    </div>
  )
}

function unified(lines: readonly DiffLine[]): { line: DiffLine; pair: Pair }[] {
  const of = new Map<DiffLine, Pair>()
  for (const pair of pairs(lines)) {
    if (pair.left !== null) of.set(pair.left, pair)
    if (pair.right !== null) of.set(pair.right, pair)
  }
  return lines.map((line) => ({ line, pair: of.get(line)! }))
}
