import { createContext, useCallback, useContext, useEffect, useLayoutEffect, useMemo, useState, type ReactNode } from 'react'
import { I18nContext, loadTexts, speak, type Language, type Texts } from '@/i18n'
import { usePrinting } from '@/ui/size'

export type Theme = 'system' | 'light' | 'dark'

export const languageNames: Record<Language, string> = { en: 'English', zh: '\u4e2d\u6587' }

interface Preferences {
  theme: Theme
  /** The theme that is shown. */
  shown: 'light' | 'dark'
  setTheme(theme: Theme): void
}

const PreferencesContext = createContext<Preferences | null>(null)

export function usePreferences(): Preferences {
  const context = useContext(PreferencesContext)
  if (context === null) throw new Error('usePreferences needs a PreferencesProvider')
  return context
}

function store(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(key)
    else localStorage.setItem(key, value)
  } catch {
    // A browser that keeps nothing still shows the choice until the reload.
  }
}

function readTheme(): Theme {
  try {
    const value = localStorage.getItem('patchbay.theme')
    return value === 'light' || value === 'dark' ? value : 'system'
  } catch {
    return 'system'
  }
}

const darkQuery = () => matchMedia('(prefers-color-scheme: dark)')

/** The language that theme.js has set before the first paint. */
export function initialLanguage(): Language {
  return document.documentElement.lang === 'zh-CN' ? 'zh' : 'en'
}

/** Theme and language: chosen by the person, otherwise by the browser. */
export function PreferencesProvider({ texts: initial, children }: { texts: Texts; children: ReactNode }) {
  const [theme, setThemeState] = useState(readTheme)
  const [systemDark, setSystemDark] = useState(() => darkQuery().matches)
  const [language, setLanguage] = useState({ lang: initialLanguage(), texts: initial })
  const printing = usePrinting()
  const shown = printing ? 'light' : theme === 'system' ? (systemDark ? 'dark' : 'light') : theme

  useEffect(() => {
    const query = darkQuery()
    const follow = () => setSystemDark(query.matches)
    query.addEventListener('change', follow)
    return () => query.removeEventListener('change', follow)
  }, [])
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = shown
  }, [shown])
  useEffect(() => {
    document.documentElement.lang = language.lang === 'zh' ? 'zh-CN' : 'en'
  }, [language.lang])

  const setTheme = useCallback((next: Theme) => {
    store('patchbay.theme', next === 'system' ? null : next)
    setThemeState(next)
  }, [])
  const setLang = useCallback((lang: Language) => {
    store('patchbay.lang', lang)
    void loadTexts(lang).then((texts) => setLanguage({ lang, texts }))
  }, [])

  const preferences = useMemo(() => ({ theme, shown, setTheme }) satisfies Preferences, [theme, shown, setTheme])
  const i18n = useMemo(
    () => ({
      lang: language.lang,
      locale: language.lang === 'zh' ? 'zh-CN' : 'en',
      dictionary: language.texts.dictionary,
      setLang,
      ...speak(language.texts),
    }),
    [language, setLang],
  )
  return (
    <PreferencesContext.Provider value={preferences}>
      <I18nContext.Provider value={i18n}>{children}</I18nContext.Provider>
    </PreferencesContext.Provider>
  )
}
