// The difference of two texts by lines: Myers' algorithm.

export interface DiffLine {
  kind: 'same' | 'add' | 'del'
  text: string
  /** The numbers of the line on the left and on the right, from 1. */
  left: number | null
  right: number | null
}

export function diffLines(a: readonly string[], b: readonly string[]): DiffLine[] {
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  const lines: DiffLine[] = []
  const same = (i: number, j: number) => lines.push({ kind: 'same', text: a[i]!, left: i + 1, right: j + 1 })
  for (let i = 0; i < start; i++) same(i, i)
  let i = start
  let j = start
  for (const step of myers(a.slice(start, a.length - end), b.slice(start, b.length - end))) {
    if (step === 'same') same(i++, j++)
    else if (step === 'del') lines.push({ kind: 'del', text: a[i]!, left: ++i, right: null })
    else lines.push({ kind: 'add', text: b[j]!, left: null, right: ++j })
  }
  for (let k = end; k > 0; k--) same(a.length - k, b.length - k)
  return lines
}

/** The shortest script of steps; deletions come before additions. */
function myers(a: readonly string[], b: readonly string[]): DiffLine['kind'][] {
  const max = a.length + b.length
  const reach: Record<number, number> = { 1: 0 }
  const trace: Record<number, number>[] = []
  outer: for (let d = 0; d <= max; d++) {
    trace.push({ ...reach })
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && (reach[k - 1] ?? -1) < (reach[k + 1] ?? -1)) ? (reach[k + 1] ?? 0) : (reach[k - 1] ?? 0) + 1
      let y = x - k
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++
        y++
      }
      reach[k] = x
      if (x >= a.length && y >= b.length) break outer
    }
  }
  const steps: DiffLine['kind'][] = []
  let x = a.length
  let y = b.length
  for (let d = trace.length - 1; d > 0; d--) {
    const before = trace[d]!
    const k = x - y
    const down = k === -d || (k !== d && (before[k - 1] ?? -1) < (before[k + 1] ?? -1))
    const fromK = down ? k + 1 : k - 1
    const fromX = before[fromK] ?? 0
    const fromY = fromX - fromK
    while (x > fromX + (down ? 0 : 1) && y > fromY + (down ? 1 : 0)) {
      steps.push('same')
      x--
      y--
    }
    steps.push(down ? 'add' : 'del')
    x = fromX
    y = fromY
  }
  while (x > 0 && y > 0) {
    steps.push('same')
    x--
    y--
  }
  return steps.reverse()
}

export type Hunk = { kind: 'lines'; lines: DiffLine[] } | { kind: 'gap'; count: number }

/** Changes with some lines around them; longer spans of equal lines fold. */
export function hunks(lines: readonly DiffLine[], around = 3): Hunk[] {
  const keep = lines.map(() => false)
  lines.forEach((line, index) => {
    if (line.kind === 'same') return
    for (let i = Math.max(0, index - around); i <= Math.min(lines.length - 1, index + around); i++) keep[i] = true
  })
  const result: Hunk[] = []
  for (let i = 0; i < lines.length; ) {
    let end = i
    while (end < lines.length && keep[end] === keep[i]) end++
    result.push(keep[i] ? { kind: 'lines', lines: lines.slice(i, end) } : { kind: 'gap', count: end - i })
    i = end
  }
  return result
}

/** The parts of two lines that differ, between an equal head and tail. */
export function changedPart(a: string, b: string): { head: number; tailA: number; tailB: number } {
  let head = 0
  while (head < a.length && head < b.length && a[head] === b[head]) head++
  // Whole words read better than single letters.
  while (head > 0 && /[\w.-]/.test(a[head - 1]!)) head--
  let tail = 0
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail] && !/[\w.-]/.test(a[a.length - 1 - tail]!)) tail++
  return { head, tailA: a.length - tail, tailB: b.length - tail }
}
