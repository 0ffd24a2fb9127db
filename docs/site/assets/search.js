'use strict';
// The search of the documentation as a site. Nothing is loaded from a network.

const query = document.getElementById('query');
const results = document.getElementById('results');
let index;
let chosen = -1;

// The index is loaded when the search is used first.
function load() {
  return index ??= new Promise((done, failed) => {
    const s = Object.assign(document.createElement('script'), { src: 'search-index.js', onerror: failed });
    s.onload = () => done(window.searchIndex.map(e => ({ ...e, title: e.t.toLowerCase(), heading: (e.h ?? '').toLowerCase(), text: e.x.toLowerCase() })));
    document.head.append(s);
  });
}

// Every word must be somewhere in the section; headings count more than text.
function find(entries, words) {
  const found = [];
  for (const e of entries) {
    let score = 0;
    for (const w of words) {
      const s = (e.heading === w ? 40 : 0) + (e.heading.includes(w) ? 20 : 0) + (e.title.includes(w) ? (e.h ? 4 : 24) : 0) +
        Math.min(e.text.split(w).length - 1, 4);
      if (!s) { score = 0; break; }
      score += s;
    }
    if (score) found.push([score, e]);
  }
  return found.sort((a, b) => b[0] - a[0]).slice(0, 12).map(f => f[1]);
}

function excerpt(e, words) {
  const at = Math.max(0, Math.min(...words.map(w => e.text.indexOf(w)).filter(i => i >= 0), e.text.length) - 40);
  return (at ? '…' : '') + e.x.slice(at, at + 150) + (at + 150 < e.x.length ? '…' : '');
}

function marked(element, text, words) {
  const lower = text.toLowerCase();
  for (let i = 0; i < text.length;) {
    let next = text.length, length = 0;
    for (const w of words) {
      const at = lower.indexOf(w, i);
      if (at >= 0 && at < next) { next = at; length = w.length; }
    }
    element.append(text.slice(i, next));
    if (length) element.append(Object.assign(document.createElement('mark'), { textContent: text.slice(next, next + length) }));
    i = next + length || text.length;
  }
  return element;
}

async function show() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  results.hidden = !words.length;
  if (!words.length) return;
  const entries = await load();
  if (words.join(' ') !== query.value.toLowerCase().split(/\s+/).filter(Boolean).join(' ')) return;
  chosen = -1;
  const found = find(entries, words);
  results.replaceChildren(...found.map(e => {
    const a = Object.assign(document.createElement('a'), { href: e.p + (e.a ? '#' + e.a : '') });
    a.setAttribute('role', 'option');
    a.append(marked(document.createElement('b'), e.h ?? e.t, words), Object.assign(document.createElement('span'), { textContent: e.h ? ' · ' + e.t : '' }),
      marked(document.createElement('small'), excerpt(e, words), words));
    a.addEventListener('click', () => { results.hidden = true; });
    return a;
  }));
  if (!found.length) results.append(Object.assign(document.createElement('p'), { textContent: 'Nothing found.' }));
}

query.addEventListener('input', show);
query.addEventListener('focus', () => { load(); show(); });
query.addEventListener('keydown', event => {
  const options = results.querySelectorAll('a');
  if (event.key === 'Escape') { query.value = ''; results.hidden = true; query.blur(); }
  if (event.key === 'Enter' && options.length) { event.preventDefault(); options[Math.max(chosen, 0)].click(); }
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp' || !options.length) return;
  event.preventDefault();
  chosen = (chosen + (event.key === 'ArrowDown' ? 1 : options.length - 1) + (chosen < 0 && event.key === 'ArrowUp' ? 1 : 0)) % options.length;
  options.forEach((o, i) => o.setAttribute('aria-selected', String(i === chosen)));
  options[chosen].scrollIntoView({ block: 'nearest' });
});
document.addEventListener('click', event => { if (!event.target.closest('.search')) results.hidden = true; });
document.addEventListener('keydown', event => {
  if (event.key === '/' && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); query.focus(); }
});
// A search can be linked to: index.html?q=breaker
const asked = new URLSearchParams(location.search).get('q');
if (asked) { query.value = asked; query.focus(); show(); }
