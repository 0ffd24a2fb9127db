import type { ReactNode } from 'react'
import { Name } from './parts'

export interface Column<T> {
  head: ReactNode
  /** Of the head and of the cells: a width, num, cut, wrap, and lo for a column that gives way where there is little room. */
  className?: string
  cell(row: T): ReactNode
}

/** A column of buttons has a head for screen readers alone. */
export const unseen = (words: string): ReactNode => <span className="sr-only">{words}</span>

/** A list of things, each in a row. */
export function Table<T>({ columns, rows, keyOf, isOff, selected, empty }: {
  columns: readonly (Column<T> | false)[]
  rows: readonly T[]
  keyOf(row: T): string
  isOff?(row: T): boolean
  /** The key of the row that a drawer shows. */
  selected?: string
  /** Said where there is no row. */
  empty?: ReactNode
}) {
  const shown = columns.filter((column) => column !== false)
  if (rows.length === 0 && empty !== undefined) return <div className="panel muted p-4">{empty}</div>
  return (
    <div className="panel">
      <table className="tbl fx kt">
        <thead>
          <tr>
            {shown.map(({ head, className }, i) => (
              <th key={i} className={className}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} className={`${isOff?.(row) === true ? 'off' : ''} ${keyOf(row) === selected ? 'sel' : ''}`} aria-selected={selected === undefined ? undefined : keyOf(row) === selected}>
              {shown.map(({ className, cell }, i) => (
                <Cell key={i} className={className}>
                  {cell(row)}
                </Cell>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** A text that may be cut is told in full by a tooltip. */
function Cell({ className = '', children }: { className?: string; children: ReactNode }) {
  return (
    <td className={className} title={typeof children === 'string' && className.includes('cut') ? children : undefined}>
      {children}
    </td>
  )
}

/** A name above what tells more of it; it opens something where it can. */
export function Named({ name, title, below, isData = false, onOpen }: {
  name: string
  title?: string
  below: string
  /** Whether the second line is no text of the console, but a name or a record, which no language changes. */
  isData?: boolean
  onOpen?(): void
}) {
  const lines = (
    <>
      <Name className="font-medium" title={title}>{name}</Name>
      <span className="muted trunc" title={below} translate={isData ? 'no' : undefined}>
        {below}
      </span>
    </>
  )
  if (onOpen === undefined) return <span className="nmad">{lines}</span>
  return (
    <button type="button" className="nmad" onClick={onOpen}>
      {lines}
    </button>
  )
}
