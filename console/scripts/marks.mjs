// What is wrong with what a page shows now. These functions run in the page, each
// by itself, and return a line for each thing that they find.

/** What can be pressed and is not on the screen: a drawer, a dialog or a menu ends where the window ends, and so do its head and foot. */
export function offScreen() {
  const found = []
  const name = (node) => `${node.tagName.toLowerCase()}.${String(node.className).replaceAll(' ', '.')} "${node.textContent.trim().slice(0, 40)}"`
  const [width, height] = [document.documentElement.clientWidth, window.innerHeight]
  const boxes = document.querySelectorAll('.drawer, .drawer > header, .drawer > footer, .drawer > header button, .drawer > footer button, dialog[open], [role=menu]')
  for (const node of boxes) {
    if (!node.checkVisibility()) continue
    const { left, right, top, bottom } = node.getBoundingClientRect()
    if (top < -1 || left < -1 || bottom > height + 1 || right > width + 1) found.push(`off the screen: ${name(node)} at ${Math.round(left)},${Math.round(top)} to ${Math.round(right)},${Math.round(bottom)} of ${width}x${height}`)
  }
  // A note above a list is not below a drawer.
  const drawer = document.querySelector('.drawer')
  const beside = drawer === null ? null : drawer.getBoundingClientRect()
  for (const note of beside === null || width < 1200 ? [] : document.querySelectorAll('main > .note, main .bar')) {
    if (!drawer.contains(note) && note.getBoundingClientRect().right > beside.left + 1) found.push(`covered by the drawer: ${name(note)}`)
  }
  return found
}

/** What is drawn badly: broken buttons, text that is cut without a word, digits that dance. */
export function badlyDrawn() {
  const found = []
  const seen = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && node.getClientRects().length > 0 && node.closest('.sr-only, [aria-hidden=true]') === null
  const name = (node) => `${node.tagName.toLowerCase()}.${String(node.className).replaceAll(' ', '.')} "${node.textContent.trim().slice(0, 40)}"`
  const linesOf = (node) => {
    const range = document.createRange()
    range.selectNodeContents(node)
    return new Set([...range.getClientRects()].filter((rect) => rect.width > 1).map((rect) => Math.round((rect.top + rect.bottom) / 2 / 8))).size
  }
  for (const button of document.querySelectorAll('.btn, .seg button, .tag, [role=tab]')) {
    if (seen(button) && button.scrollWidth > button.clientWidth + 2 && !button.matches('.trunc, :has(.trunc, code)')) found.push(`a button that is too narrow: ${name(button)}`)
    if (seen(button) && linesOf(button) > 1 && button.getBoundingClientRect().height > 48) found.push(`a button of two lines: ${name(button)}`)
  }
  // What is cut off is said in full by a tooltip.
  for (const node of document.querySelectorAll('main *, nav *, header *')) {
    if (!seen(node) || node.scrollWidth - node.clientWidth < 2 || node.clientWidth === 0 || window.getComputedStyle(node).textOverflow !== 'ellipsis' || node.matches('input, textarea, select')) continue
    if (node.closest('[title]') === null && node.querySelector('[title]') === null) found.push(`cut without a tooltip: ${name(node)}`)
  }
  // A list shows what is chosen in it.
  const measure = document.createElement('canvas').getContext('2d')
  for (const select of document.querySelectorAll('select')) {
    if (!seen(select)) continue
    const style = window.getComputedStyle(select)
    measure.font = style.font
    const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)
    const need = measure.measureText(select.selectedOptions[0]?.text ?? '').width
    if (need > room + 1) found.push(`a list that is cut by ${Math.round(need - room)} px: "${select.selectedOptions[0].text}"`)
  }
  // The page has no scroll bar beside that of a drawer.
  const drawer = document.querySelector('.drawer')
  if (drawer !== null && seen(drawer) && window.getComputedStyle(document.documentElement).scrollbarWidth !== 'none') found.push('two scroll bars')
  // No line begins with what ends a sentence.
  const walker = document.createTreeWalker(document.querySelector('#root'), window.NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode
    for (const match of data.matchAll(/[，。；：！？、）」』】]/g)) {
      if (match.index === 0 || !seen(parentElement) || parentElement.closest('pre, code, textarea') !== null) continue
      const range = document.createRange()
      const rect = (at) => {
        range.setStart(walker.currentNode, at)
        range.setEnd(walker.currentNode, at + 1)
        return range.getBoundingClientRect()
      }
      const [before, here] = [rect(match.index - 1), rect(match.index)]
      if (here.width > 0 && here.top > before.bottom - 2) found.push(`a line begins with "${match[0]}": ${name(parentElement)}`)
    }
  }
  for (const node of document.querySelectorAll('.num, .reading, .val, td code')) {
    if (seen(node) && /\d/.test(node.textContent) && !window.getComputedStyle(node).fontVariantNumeric.includes('tabular-nums') && !/mono/i.test(window.getComputedStyle(node).fontFamily)) found.push(`digits of different widths: ${name(node)}`)
  }
  const shown = document.body.innerText
  for (const word of ['NaN', 'undefined', 'Infinity', '[object']) if (shown.includes(word)) found.push(`"${word}" in the text`)
  const scope = document.querySelector('dialog[open]') ?? document
  const primary = [...scope.querySelectorAll('.btn.pri')].filter(seen)
  if (primary.length > 1) found.push(`${primary.length} primary buttons: ${primary.map((node) => node.textContent.trim()).join(', ')}`)
  return [...new Set(found)]
}

/** Columns of which something is cut: readings and headings are whole, and cells end inside of their table. */
export function cutColumns() {
  const found = []
  const seen = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && node.closest('.sr-only') === null && node.getBoundingClientRect().width > 1
  const name = (node) => `${node.tagName.toLowerCase()}.${String(node.className).replaceAll(' ', '.')} "${node.textContent.trim().slice(0, 40)}"`
  for (const cell of document.querySelectorAll('main th, main td, main .crow > *, main .jr > *')) {
    if (!seen(cell) || (cell.closest('thead') !== null && window.getComputedStyle(cell.closest('thead')).clipPath !== 'none')) continue
    const panel = (cell.closest('.tw') ?? cell.closest('.panel') ?? document.body).getBoundingClientRect()
    const { right, left } = cell.getBoundingClientRect()
    if (right > panel.right + 1 || left < panel.left - 1) found.push(`outside of its table: ${name(cell)}`)
    const out = cell.matches('.cut') ? [...cell.children].find((child) => seen(child) && window.getComputedStyle(child).display !== 'inline' && child.getBoundingClientRect().right > right + 1) : undefined
    if (out !== undefined) found.push(`runs out of its cell: ${name(out)}`)
    const isName = cell.matches('.cut, .trunc, .c-inst, .c-model') || cell.querySelector('.name, .trunc') !== null
    if (!isName && cell.scrollWidth > cell.clientWidth + 1 && cell.clientWidth > 0 && !window.getComputedStyle(cell).display.startsWith('inline')) found.push(`cut by ${cell.scrollWidth - cell.clientWidth} px: ${name(cell)}`)
  }
  // A cell that spans more columns than there are leaves room without a head.
  for (const table of document.querySelectorAll('main table')) {
    const heads = [...table.querySelectorAll('thead th')].filter((head) => head.checkVisibility())
    const rest = heads.length === 0 ? 0 : table.getBoundingClientRect().right - Math.max(...heads.map((head) => head.getBoundingClientRect().right))
    if (rest > 2 && window.getComputedStyle(table).display === 'table' && window.getComputedStyle(table.tHead).clipPath === 'none') found.push(`a column of ${Math.round(rest)} px without a head: ${table.className}`)
  }
  return [...new Set(found)]
}

/** What a finger cannot hit: less than 44 px in a direction, unless it is a link in a sentence. */
export function smallTargets() {
  const found = []
  const name = (node) => `${node.tagName.toLowerCase()}.${String(node.className).replaceAll(' ', '.')} "${(node.getAttribute('aria-label') ?? node.textContent).trim().slice(0, 40)}"`
  const targets = 'a[href], button, input, select, textarea, summary, [role=switch], [role=slider], [role=tab], [role=menuitem], [role=option], [role=link]'
  const scope = document.querySelector('dialog[open]') ?? document.body
  for (const node of scope.querySelectorAll(targets)) {
    if (!node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || node.closest('.sr-only, .skip') !== null || node.matches('.skip, [type=hidden], :disabled')) continue
    // A field is hit by its frame, a switch with words by its label, and some have room around them.
    const area = node.matches('input, select, textarea') ? (node.closest('.inp, .q, label') ?? node) : node.matches('[role=slider]') ? node.closest('.slider') : (node.closest('label') ?? node)
    let { width, height } = area.getBoundingClientRect()
    if (width < 2 || height < 2) continue
    const around = window.getComputedStyle(node, '::before')
    if (around.content !== 'none' && around.position === 'absolute') {
      width = Math.max(width, parseFloat(around.width))
      height = Math.max(height, parseFloat(around.height))
    }
    const inSentence = node.matches('a, button.link') && window.getComputedStyle(node).display === 'inline' && [...node.parentElement.childNodes].some((other) => other.nodeType === 3 && other.data.trim() !== '')
    if (!inSentence && (width < 43.5 || height < 43.5)) found.push(`target of ${Math.round(width)} x ${Math.round(height)} px: ${name(node)}`)
  }
  return [...new Set(found)]
}

/** What can be pressed and lies below a toast; what scrolls below it must be able to scroll out. */
export function coveredByToast() {
  const toast = document.querySelector('.toast').getBoundingClientRect()
  const overlaps = (node) => {
    const rect = node.getBoundingClientRect()
    // What a drawer has scrolled out of sight is not below the toast, though its place is.
    const box = node.closest('.drawer .body')?.getBoundingClientRect()
    if (box !== undefined && (rect.top >= box.bottom - 1 || rect.bottom <= box.top + 1 || box.bottom <= toast.top + 1)) return false
    return rect.width > 1 && rect.right > toast.left + 1 && rect.left < toast.right - 1 && rect.bottom > toast.top + 1 && rect.top < toast.bottom - 1
  }
  const covered = () => [...document.querySelectorAll('a[href], button, input, select, textarea, [role=slider]')].filter((node) => node.closest('.toast') === null && node.checkVisibility({ visibilityProperty: true }) && overlaps(node))
  const name = (node) => `${node.tagName.toLowerCase()}.${String(node.className).replaceAll(' ', '.')} "${(node.getAttribute('aria-label') ?? node.textContent).trim().slice(0, 30)}"`
  const first = covered()
  window.scrollTo(0, document.documentElement.scrollHeight)
  const last = new Set(covered())
  return first.filter((node) => last.has(node) || node.closest('.drawer, .top, .tabbar') !== null).map((node) => `the toast covers ${name(node)}`)
}

/**
 * English in a console that speaks another language: words that are not data (names, codes,
 * addresses, settings, which stand in code, or what a backend said) and not on the short list of
 * those that are the same in every language. Tooltips and names for screen readers count too.
 */
export function englishIn(names) {
  const same = new Set([
    ...names,
    // A language is named in itself.
    'english',
    ...'patchbay claude code codex cursor continue api json ndjson yaml csv http https url id ip sha markdown prometheus openapi openai anthropic gemini ollama cohere jina vllm sglang azure redis postgresql sqlite trace usd eur token tokens ctrl esc enter tab shift home end curl python javascript node go top chat embedding rerank tts stt imggen imgedit admin operator viewer get post put delete patch head ok live tls ms min mb kb gb req p50 p95 p99 alloy'.split(' '),
  ])
  const isData = (node) => node.closest('code, pre, kbd, q, samp, textarea, input, .mono, .name, [translate=no], [lang=en], .txt, .md') !== null
  const seen = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && node.getClientRects().length > 0
  // A word is one that begins and ends at a space or at punctuation of prose: parts of names do not.
  const strange = (text) => [...text.matchAll(/(?<![\w@/.:_+-])[A-Za-z][a-z']+(?![\w@/:_+-]|\.\w)/g)].map((match) => match[0]).filter((word) => !same.has(word.toLowerCase()))
  const found = new Set()
  const look = (text, node, what) => {
    const words = strange(text)
    const isMixed = /\p{Script=Han}/u.test(text)
    // Beside Han, a few Latin words are names; on their own one is enough.
    if (words.length >= (isMixed ? 4 : 1)) found.add(`English${what}: ${node.tagName.toLowerCase()}.${String(node.className.baseVal ?? node.className).replaceAll(' ', '.')} "${text.trim().slice(0, 70)}"`)
  }
  const walker = document.createTreeWalker(document.body, window.NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode
    if (data.trim() !== '' && !isData(parentElement) && !parentElement.closest('script, style') && seen(parentElement)) look(data, parentElement, '')
  }
  for (const node of document.querySelectorAll('[title], [aria-label], [placeholder]')) {
    if (!seen(node) || isData(node) || node.querySelector('code') !== null) continue
    for (const name of ['title', 'aria-label', 'placeholder']) if (node.hasAttribute(name)) look(node.getAttribute(name), node, ` in ${name}`)
  }
  return [...found]
}
