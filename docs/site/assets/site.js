'use strict';
// The theme, the language, and small comforts of the documentation. Nothing is loaded from a network.

const root = document.documentElement;

document.getElementById('theme').addEventListener('click', () => {
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  try { localStorage.setItem('patchbay.theme', root.dataset.theme); } catch { /* it holds for this page */ }
});

// What is chosen here is what the console shows as well, and the section stays.
const language = document.getElementById('language');
language?.addEventListener('click', () => {
  try { localStorage.setItem('patchbay.lang', language.dataset.name); } catch { /* the address says it */ }
  language.href = '?lang=' + language.dataset.name + location.hash;
});

const menu = document.getElementById('menu');
menu.addEventListener('click', () => {
  menu.setAttribute('aria-expanded', String(document.getElementById('pages').classList.toggle('open')));
});

for (const h of document.querySelectorAll('article h2[id], article h3[id]')) {
  const a = Object.assign(document.createElement('a'), { className: 'anchor', href: '#' + h.id, textContent: '#' });
  a.setAttribute('aria-label', root.dataset.section);
  h.append(a);
}
for (const t of document.querySelectorAll('article table')) {
  const box = Object.assign(document.createElement('div'), { className: 'table' + (t.rows[0].cells.length > 3 ? ' wide' : '') });
  t.replaceWith(box);
  box.append(t);
  reachable(box);
}
for (const pre of document.querySelectorAll('article pre')) {
  const box = Object.assign(document.createElement('div'), { className: 'code' });
  pre.replaceWith(box);
  box.append(pre);
  reachable(pre);
  if (pre.querySelector('code[class]') === null) continue; // a drawing
  const copy = Object.assign(document.createElement('button'), { className: 'copy', type: 'button', textContent: root.dataset.copy });
  copy.addEventListener('click', async () => {
    try { await navigator.clipboard.writeText(pre.textContent); copy.textContent = root.dataset.copied; } catch { getSelection().selectAllChildren(pre); }
    setTimeout(() => { copy.textContent = root.dataset.copy; }, 1500);
  });
  box.append(copy);
}

// What is wider than the page is moved by keys as well.
function reachable(box) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}

// The section that is read is marked in the list of contents.
const contents = new Map([...document.querySelectorAll('aside a')].map(a => [a.getAttribute('href').slice(1), a]));
if (contents.size) {
  const watch = new IntersectionObserver(seen => {
    for (const s of seen) if (s.isIntersecting) {
      for (const a of contents.values()) a.classList.remove('here');
      contents.get(s.target.id)?.classList.add('here');
    }
  }, { rootMargin: '-60px 0px -70% 0px' });
  for (const h of document.querySelectorAll('article h2[id], article h3[id]')) watch.observe(h);
}
