// The markdown of answers, as elements: no HTML is made of what a model wrote,
// and nothing is loaded. A picture is a link to it.
import { Fragment, type ReactNode } from 'react'

const inlineParts = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|!?\[([^\]\n]*)\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"\n]*")?\s*\)|(\*\*|__)(?=\S)([\s\S]*?\S)\5|(\*|_)(?=\S)([^*_\n]*?[^\s*_])\7(?!\w)|~~(?=\S)([^~\n]*?\S)~~/

/** Only addresses of the web are links; all others, such as javascript:, stay text. */
const isWeb = (address: string) => /^https?:\/\//i.test(address)

/** The words of a paragraph, line by line: long lines stay as they are, so that no text takes long. */
const words = (text: string): ReactNode[] => text.split('\n').flatMap((line, index) => [...(index > 0 ? ['\n'] : []), ...(line.length > 1000 ? [line] : inline(line).map((part, at) => <Fragment key={`${index} ${at}`}>{part}</Fragment>))])

function inline(text: string, depth = 0): ReactNode[] {
  const out: ReactNode[] = []
  let rest = text
  let key = 0
  while (rest !== '') {
    const found = depth > 8 ? null : inlineParts.exec(rest)
    if (found === null) {
      out.push(rest)
      break
    }
    if (found.index > 0) out.push(rest.slice(0, found.index))
    const [whole, , code, label, address, , strong, , soft, gone] = found
    const inner = (part: string) => inline(part, depth + 1)
    if (code !== undefined) out.push(<code key={key++}>{code}</code>)
    else if (address !== undefined) {
      out.push(
        isWeb(address) ? (
          <a key={key++} href={address} target="_blank" rel="noopener noreferrer nofollow" title={address}>
            {label === '' || label === undefined ? address : inner(label)}
          </a>
        ) : (
          <Fragment key={key++}>{whole}</Fragment>
        ),
      )
    } else if (strong !== undefined) out.push(<strong key={key++}>{inner(strong)}</strong>)
    else if (soft !== undefined) out.push(<em key={key++}>{inner(soft)}</em>)
    else out.push(<s key={key++}>{inner(gone!)}</s>)
    rest = rest.slice(found.index + whole.length)
  }
  return out
}

interface Block {
  kind: 'text' | 'head' | 'code' | 'quote' | 'list' | 'numbers' | 'table' | 'rule'
  lines: string[]
  level?: number
  start?: number
}

const fence = /^\s{0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/
const bullet = /^\s*[-*+]\s+/
const numbered = /^\s*(\d{1,9})[.)]\s+/
const head = /^(#{1,6})\s+(.*?)\s*#*$/
const rule = /^\s*([-*_])(?:\s*\1){2,}\s*$/
const columns = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*$/
const cells = (line: string) => line.trim().replace(/^\||\|$/g, '').split('|').map((cell) => cell.trim())

/** What begins at a line, other than plain text. */
function kindOf(line: string, next: string | undefined): Block['kind'] {
  if (fence.test(line)) return 'code'
  if (head.test(line)) return 'head'
  if (rule.test(line)) return 'rule'
  if (/^\s{0,3}>/.test(line)) return 'quote'
  if (bullet.test(line)) return 'list'
  if (numbered.test(line)) return 'numbers'
  return line.includes('|') && next !== undefined && columns.test(next) ? 'table' : 'text'
}

function blocks(text: string): Block[] {
  const lines = text.split('\n')
  const found: Block[] = []
  let i = 0
  while (i < lines.length) {
    const line = lines[i]!
    if (line.trim() === '') {
      i++
      continue
    }
    const kind = kindOf(line, lines[i + 1])
    const block: Block = { kind, lines: [] }
    found.push(block)
    if (kind === 'code') {
      const mark = fence.exec(line)![1]!
      for (i++; i < lines.length && !lines[i]!.trim().startsWith(mark); i++) block.lines.push(lines[i]!)
      i++
    } else if (kind === 'head' || kind === 'rule') {
      const [, marks = '', words = ''] = head.exec(line) ?? []
      Object.assign(block, { level: marks.length, lines: [words] })
      i++
    } else if (kind === 'list' || kind === 'numbers') {
      block.start = Number(numbered.exec(line)?.[1] ?? 1)
      const item = kind === 'list' ? bullet : numbered
      for (; i < lines.length && lines[i]!.trim() !== ''; i++) {
        if (item.test(lines[i]!)) block.lines.push(lines[i]!.replace(item, ''))
        else if (/^\s/.test(lines[i]!)) block.lines[block.lines.length - 1] += `\n${lines[i]!.trim()}`
        else break
      }
    } else {
      do block.lines.push(kind === 'quote' ? lines[i]!.replace(/^\s{0,3}>\s?/, '') : lines[i]!)
      while (++i < lines.length && lines[i]!.trim() !== '' && (kind !== 'text' || kindOf(lines[i]!, lines[i + 1]) === 'text') && (kind !== 'table' || lines[i]!.includes('|')))
    }
  }
  return found
}

function BlockView({ block, depth }: { block: Block; depth: number }) {
  const { kind, lines } = block
  switch (kind) {
    case 'code':
      return (
        <pre className="code" tabIndex={0}>
          {lines.join('\n')}
        </pre>
      )
    case 'head':
      return <p className={`mdh l${block.level}`}>{words(lines[0]!)}</p>
    case 'rule':
      return <hr />
    case 'quote':
      return (
        <blockquote>
          <Markdown text={lines.join('\n')} depth={depth + 1} />
        </blockquote>
      )
    case 'list':
      return <ul>{lines.map((line, index) => <li key={index}>{words(line)}</li>)}</ul>
    case 'numbers':
      return <ol start={block.start}>{lines.map((line, index) => <li key={index}>{words(line)}</li>)}</ol>
    case 'table':
      return (
        <div className="tw" tabIndex={0}>
          <table className="tbl">
            <thead>
              <tr>{cells(lines[0]!).map((cell, index) => <th key={index}>{words(cell)}</th>)}</tr>
            </thead>
            <tbody>
              {lines.slice(2).map((line, row) => (
                <tr key={row}>{cells(line).map((cell, index) => <td key={index}>{words(cell)}</td>)}</tr>
              ))}
            </tbody>
          </table>
        </div>
      )
    default:
      return <p>{words(lines.join('\n'))}</p>
  }
}

/** Answers beyond this length are shown as they are: nobody reads them, and each event would parse them anew. */
const longest = 60_000

export function Markdown({ text, depth = 0 }: { text: string; depth?: number }) {
  if (text.length > longest || depth > 6) return <span className="plain">{text}</span>
  return blocks(text).map((block, index) => <BlockView key={index} block={block} depth={depth} />)
}
