// Sets theme and language before the first paint, so that nothing flashes.
// This is a file of its own because the policy allows no inline script.
;(function () {
  var root = document.documentElement
  var read = function (key) {
    try {
      return localStorage.getItem(key)
    } catch {
      return null
    }
  }
  var theme = read('patchbay.theme')
  if (theme !== 'light' && theme !== 'dark') {
    theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
  }
  root.dataset.theme = theme
  var lang = read('patchbay.lang')
  if (lang !== 'en' && lang !== 'zh') {
    lang = (navigator.languages || [navigator.language]).some(function (l) {
      return /^zh/i.test(l)
    })
      ? 'zh'
      : 'en'
  }
  root.lang = lang === 'zh' ? 'zh-CN' : 'en'
})()
