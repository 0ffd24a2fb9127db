import { useNavigate } from '@tanstack/react-router'
import { Activity, BookOpen, Code, Contrast, Globe, List, Search as SearchIcon, Server, Terminal } from 'lucide-react'
import { useMemo, useState, type ReactNode } from 'react'
import { useI18n, type Key } from '@/i18n'
import { docsAddress, docsPages, type DocsPage } from '@/lib/docs'
import { shorten } from '@/lib/format'
import { useLive } from '@/live/context'
import { Dialog } from '@/ui/overlay'
import { Kbd } from '@/ui/parts'
import { HealthGlyph } from '@/ui/glyphs'
import { condition } from '@/ui/status'
import { usePages } from './pages'
import { usePreferences } from './preferences'

interface Item {
  group: Key
  icon: ReactNode
  label: ReactNode
  run(): void
}

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
  const { snapshot, calls } = useLive()
  const navigate = useNavigate()
  const pages = usePages()
  return useMemo(() => {
    const needle = query.toLowerCase()
    const has = (text: string) => text.toLowerCase().includes(needle)
    const go = (to: string, search: Record<string, string> = {}) => void navigate({ to, search: search as never })
    const items: Item[] = []
    for (const page of pages) {
      if (has(t(page.title)) || has(page.path)) items.push({ group: 'palette.pages', icon: page.icon, label: t(page.title), run: () => go(page.path) })
    }
    for (const [path, title] of [['/tenant', 'wrong.tenants'], ['/gateways', 'wrong.gateways']] as const) {
      if (needle !== '' && (has(t(title)) || has(path))) items.push({ group: 'palette.pages', icon: <List className="ic" aria-hidden />, label: t(title), run: () => go(path) })
    }
    if (needle !== '' && has(t('run.find'))) items.push({ group: 'palette.pages', icon: <Activity className="ic" aria-hidden />, label: t('run.find'), run: () => go('/calls', { show: 'running' }) })
    if (needle !== '') {
      const found = (snapshot?.instances ?? []).filter((instance) => has(instance.id)).slice(0, 8)
      for (const instance of found) {
        items.push({
          group: 'palette.jacks',
          icon: <HealthGlyph state={condition(instance) === 'ok' ? 'healthy' : condition(instance) === 'disabled' ? 'disabled' : 'unhealthy'} />,
          label: (
            <>
              <code>{shorten(instance.model)}</code> <span className="muted">{instance.host}</span>
            </>
          ),
          run: () => go('/instance', { service: instance.service, id: instance.id }),
        })
      }
      for (const host of [...new Set((snapshot?.instances ?? []).map((instance) => instance.host))].filter(has).slice(0, 4)) {
        items.push({ group: 'palette.jacks', icon: <Server className="ic" aria-hidden />, label: <code>{host}</code>, run: () => go('/host', { id: host }) })
      }
      for (const call of calls.filter((candidate) => has(candidate.requestId)).slice(0, 4)) {
        items.push({
          group: 'palette.calls',
          icon: <List className="ic" aria-hidden />,
          label: t('palette.call', { id: call.requestId }),
          run: () => go('/calls', { call: call.requestId }),
        })
      }
      if (/^req_/i.test(query) && !items.some((item) => item.group === 'palette.calls')) {
        items.push({ group: 'palette.calls', icon: <List className="ic" aria-hidden />, label: t('palette.call', { id: query }), run: () => go('/calls', { call: query }) })
      }
      const models = new Map(found.map((instance) => [`${instance.service} ${instance.model}`, instance]))
      for (const instance of [...models.values()].slice(0, 3)) {
        items.push({
          group: 'palette.actions',
          icon: <Terminal className="ic" aria-hidden />,
          label: t('palette.try', { model: instance.model }),
          run: () => go('/playground', { type: instance.service, model: instance.model }),
        })
        items.push({
          group: 'palette.actions',
          icon: <List className="ic" aria-hidden />,
          label: t('palette.failed', { model: instance.model }),
          run: () => go('/calls', { q: instance.model, show: 'failed' }),
        })
      }
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
    return items
  }, [query, t, lang, setLang, shown, setTheme, snapshot, calls, navigate, pages, onApi])
}
