import { renderToStaticMarkup } from 'react-dom/server'
import { createElement } from 'react'
import { expect, it } from 'vitest'
import { Markdown } from '@/pages/playground/markdown'

const html = (text: string) => renderToStaticMarkup(createElement(Markdown, { text }))

it('draws what models write', () => {
  expect(html('# Title\n\nSome **bold**, *soft*, `a < b` and ~~gone~~.')).toBe('<p class="mdh l1">Title</p><p>Some <strong>bold</strong>, <em>soft</em>, <code>a &lt; b</code> and <s>gone</s>.</p>')
  expect(html('- one\n- two\n  more\n\n3. three\n4. four')).toBe('<ul><li>one</li><li>two\nmore</li></ul><ol start="3"><li>three</li><li>four</li></ol>')
  expect(html('```go\nfunc f() {}\n\n# not a title\n```\nafter')).toBe('<pre class="code" tabindex="0">func f() {}\n\n# not a title</pre><p>after</p>')
  expect(html('| a | b |\n|---|:-:|\n| 1 | **2** |')).toContain('<th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><strong>2</strong></td>')
  expect(html('> said\n\n---')).toBe('<blockquote><p>said</p></blockquote><hr/>')
  expect(html('snake_case_name and 2*3*4')).toBe('<p>snake_case_name and 2*3*4</p>')
})

it('shows a fence that is not closed yet, as it comes', () => {
  expect(html('text\n```\nx = 1')).toBe('<p>text</p><pre class="code" tabindex="0">x = 1</pre>')
})

it('loads nothing and runs nothing', () => {
  for (const text of [
    '![x](http://evil.test/p.png)', '<img src=x onerror=alert(1)>', '<script>alert(1)</script>', '[x](javascript:alert(1))', '[x](data:text/html,<script>1</script>)', '![x](data:image/png;base64,AA)',
    '<iframe src="http://evil.test"></iframe>', '[x]( JaVaScRiPt:alert(1))', '[a](vbscript:x)',
  ]) {
    const made = html(text)
    expect(made, text).not.toMatch(/<(img|script|iframe|style|link|object)|href="(?!https?:)/i)
  }
  expect(html('[docs](https://example.org/a)')).toBe('<p><a href="https://example.org/a" target="_blank" rel="noopener noreferrer nofollow" title="https://example.org/a">docs</a></p>')
})

it('takes no time for what is made to take long', () => {
  const began = performance.now()
  for (const text of ['*'.repeat(20_000), '['.repeat(20_000), '`'.repeat(20_001), '**a'.repeat(5_000), '_a '.repeat(8_000), '> '.repeat(2_000), '[a]('.repeat(5_000)]) html(text)
  expect(performance.now() - began).toBeLessThan(4000)
})
