import { useNavigate } from '@tanstack/react-router'
import { Activity, BookOpen, Code, Contrast, Globe, List, Search as SearchIcon } from 'lucide-react'
import { useMemo, useState } from 'react'
import { useI18n } from '@/i18n'
import { docsAddress, docsPages, type DocsPage } from '@/lib/docs'
import { useLive } from '@/live/context'
import { Dialog } from '@/ui/overlay'
import { Kbd } from '@/ui/parts'
import { useFinds, useSettings, type Item } from './finds'
import { useOwnPages, usePages } from './pages'
import { useRunFinds } from './run-finds'
import { usePreferences } from './preferences'

/** Jumps to pages, models, instances and calls, and runs actions. */
export function Palette({ onClose, onApi }: { onClose(): void; onApi(): void }) {
  const { t } = useI18n()
  const [query, setQuery] = useState('')
  const [active, setActive] = useState(0)
  const items = useItems(query.trim(), onApi)
  const index = Math.min(active, items.length - 1)
  const run = (item: Item | undefined) => {
    if (item === undefined) return
    onClose()
    item.run()
  }
  return (
    <Dialog open onClose={onClose} label={t('palette.label')} className="palette">
      <div className="q">
        <SearchIcon className="ic" aria-hidden />
        <input
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-items"
          aria-activedescendant={index >= 0 ? `palette-${index}` : undefined}
          aria-label={t('palette.placeholder')}
          placeholder={t('palette.placeholder')}
          value={query}
          onChange={(event) => {
            setQuery(event.target.value)
            setActive(0)
          }}
          onKeyDown={(event) => {
            if (event.key === 'ArrowDown') setActive(Math.min(items.length - 1, index + 1))
            else if (event.key === 'ArrowUp') setActive(Math.max(0, index - 1))
            else if (event.key === 'Enter') run(items[index])
            else return
            event.preventDefault()
          }}
        />
        <Kbd>Esc</Kbd>
      </div>
      <div id="palette-items" role="listbox" aria-label={t('palette.label')} className="max-h-[60vh] overflow-auto pb-2">
        {items.length === 0 && <div className="gr">{t('palette.nothing')}</div>}
        {items.map((item, i) => (
          <div key={i} role="presentation">
            {item.group !== items[i - 1]?.group && (
              <div className="gr" role="presentation">
                {t(item.group)}
              </div>
            )}
            <div
              id={`palette-${i}`}
              role="option"
              aria-selected={i === index}
              className="it"
              onPointerMove={() => setActive(i)}
              onClick={() => run(item)}
            >
              {item.icon}
              <span className="trunc grow">{item.label}</span>
            </div>
          </div>
        ))}
      </div>
    </Dialog>
  )
}

function useItems(query: string, onApi: () => void): Item[] {
  const { t, lang, setLang } = useI18n()
  const { shown, setTheme } = usePreferences()
  const { calls } = useLive()
  const navigate = useNavigate()
  const pages = usePages()
  const own = useOwnPages()
  const found = useFinds(query)
  const ran = useRunFinds(query)
  const objects = useMemo(() => [...found, ...ran], [found, ran])
  const settings = useSettings(query)
  return useMemo(() => {
    const needle = query.toLowerCase()
    const has = (text: string) => text.toLowerCase().includes(needle)
    const go = (to: string, search: Record<string, string> = {}) => void navigate({ to, search: search as never })
    const items: Item[] = []
    for (const page of [...pages, ...own]) {
      if (has(t(page.title)) || has(page.path)) items.push({ group: 'palette.pages', icon: page.icon, label: t(page.title), run: () => go(page.path) })
    }
    for (const [path, title] of [['/tenant', 'wrong.tenants'], ['/gateways', 'wrong.gateways']] as const) {
      if (needle !== '' && (has(t(title)) || has(path))) items.push({ group: 'palette.pages', icon: <List className="ic" aria-hidden />, label: t(title), run: () => go(path) })
    }
    if (needle !== '' && has(t('run.find'))) items.push({ group: 'palette.pages', icon: <Activity className="ic" aria-hidden />, label: t('run.find'), run: () => go('/calls', { show: 'running' }) })
    items.push(...objects)
    if (needle !== '') {
      for (const call of calls.filter((candidate) => has(candidate.requestId)).slice(0, 4)) {
        items.push({ group: 'palette.calls', icon: <List className="ic" aria-hidden />, label: t('palette.call', { id: call.requestId }), run: () => go('/calls', { call: call.requestId }) })
      }
      if (/^req_/i.test(query) && !items.some((item) => item.group === 'palette.calls')) {
        items.push({ group: 'palette.calls', icon: <List className="ic" aria-hidden />, label: t('palette.call', { id: query }), run: () => go('/calls', { call: query }) })
      }
      items.push(...settings)
    }
    const guides = [undefined, ...(Object.keys(docsPages) as DocsPage[])]
    for (const page of guides) {
      const title = t(page === undefined ? 'guide.title' : docsPages[page])
      // All of them are found by what they have in common.
      if (needle !== '' && (has(title) || has(t('guide.title')) || 'docs help'.includes(needle))) {
        items.push({ group: 'guide.title', icon: <BookOpen className="ic" aria-hidden />, label: title, run: () => void window.open(docsAddress(lang, page), '_blank', 'noreferrer') })
      }
    }
    if (has(t('api.title'))) items.push({ group: 'palette.actions', icon: <Code className="ic" aria-hidden />, label: t('api.title'), run: onApi })
    if (has(t('palette.theme'))) {
      items.push({ group: 'palette.actions', icon: <Contrast className="ic" aria-hidden />, label: t('palette.theme'), run: () => setTheme(shown === 'dark' ? 'light' : 'dark') })
    }
    if (has(t('palette.lang'))) {
      items.push({ group: 'palette.actions', icon: <Globe className="ic" aria-hidden />, label: t('palette.lang'), run: () => setLang(lang === 'en' ? 'zh' : 'en') })
    }
    if (needle !== '' && pages.some((page) => page.path === '/calls')) items.push({ group: 'palette.actions', icon: <List className="ic" aria-hidden />, label: t('palette.calls.of', { q: query }), run: () => go('/calls', { q: query }) })
    return inGroups(items)
  }, [query, t, lang, setLang, shown, setTheme, calls, navigate, pages, own, objects, settings, onApi])
}

/** The items with those of a group together, in the order in which the groups come. */
function inGroups(items: Item[]): Item[] {
  const groups = [...new Set(items.map((item) => item.group))]
  return groups.flatMap((group) => items.filter((item) => item.group === group))
}
