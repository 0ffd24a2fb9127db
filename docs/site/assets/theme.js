'use strict';
// Theme and language before the first paint: those that the console keeps. This is a file of
// its own because the policy of the gateway allows no script in a page.
{
  const root = document.documentElement;
  const kept = key => { try { return localStorage.getItem(key); } catch { return null; } };
  const theme = kept('patchbay.theme');
  if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  // An address that names a language is obeyed; else the gateway has chosen by what the
  // browser prefers, which the console's own choice overrides.
  const chosen = kept('patchbay.lang');
  const here = root.dataset.served;
  const isNamed = new URLSearchParams(location.search).has('lang');
  if (here && !isNamed && (chosen === 'en' || chosen === 'zh') && chosen !== here) location.replace('?lang=' + chosen + location.hash);
}
