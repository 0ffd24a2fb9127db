import { useQuery } from '@tanstack/react-query'
import { health, info } from '@/api/queries'
import { useI18n, type Key, type Language } from '@/i18n'
import { docsAddress } from '@/lib/docs'
import { stamp } from '@/lib/format'
import { usePageCalls } from '@/shell/api-calls'
import { usePageFact } from '@/shell/fact'
import { Shortcuts } from '@/shell/help'
import { languageNames, usePreferences, type Theme } from '@/shell/preferences'
import { Part } from '@/ui/feedback'
import { Segments } from '@/ui/parts'
import { HealthGlyph } from '@/ui/glyphs'
import { Alerts } from './alerts'
import { Degradation } from './degradation'
import { Downloads } from './downloads'
import { AnswerCache, CallsFile, ServiceFeatures } from './features'
import { Loggers } from './loggers'
import { Monitoring } from './monitoring'

export default function Settings() {
  const { t } = useI18n()
  usePageFact(t('set.sum'))
  usePageCalls([{ path: '/api/monitoring/config' }, { path: '/api/config/answer-cache' }, { path: '/api/config/calls-file' }, { path: '/api/config/alerts' }, { path: '/api/alerts' }, { path: '/actuator/loggers' }, { path: '/actuator/info' }, { path: '/actuator/health' }])
  return (
    <div className="cols even">
      <div>
        <Appearance />
        <Part>
          <ServiceFeatures />
        </Part>
        <Part>
          <AnswerCache />
        </Part>
        <Part>
          <Monitoring />
        </Part>
        <Part>
          <CallsFile />
        </Part>
        <Part>
          <Degradation />
        </Part>
        <Part>
          <Loggers />
        </Part>
      </div>
      <div>
        <Part>
          <About />
        </Part>
        <Part>
          <Alerts />
        </Part>
        <Part>
          <Health />
        </Part>
        <Links />
        <Downloads />
        <div className="h2">
          <h2>{t('set.shortcuts')}</h2>
        </div>
        <div className="panel p-4">
          <Shortcuts />
        </div>
      </div>
    </div>
  )
}

function Appearance() {
  const { t, lang, setLang } = useI18n()
  const { theme, setTheme } = usePreferences()
  const themes: Theme[] = ['system', 'light', 'dark']
  return (
    <>
      <div className="h2 !mt-0">
        <h2>{t('set.appearance')}</h2>
      </div>
      <div className="panel p-4">
        <dl className="dl items-center !gap-y-3">
          <dt>{t('set.language')}</dt>
          <dd>
            <Segments label={t('set.language')} value={lang} options={(Object.keys(languageNames) as Language[]).map((value) => ({ value, label: languageNames[value] }))} onChange={setLang} />
          </dd>
          <dt>{t('set.theme')}</dt>
          <dd>
            <Segments label={t('set.theme')} value={theme} options={themes.map((value) => ({ value, label: t(`theme.${value}`) }))} onChange={setTheme} />
          </dd>
        </dl>
      </div>
    </>
  )
}

function About() {
  const { t } = useI18n()
  const { data } = useQuery(info)
  const raw = data?.raw as Record<string, Record<string, unknown>> | undefined
  const commit = (raw?.git?.commit as { id?: string } | undefined)?.id
  const rows: [Key, string][] = [
    ['set.address', location.host],
    ['set.version', data?.version ?? '–'],
    ['set.commit', commit ?? '–'],
    ['set.built', raw?.build?.time === undefined ? '–' : stamp(String(raw.build.time))],
    ['set.go', String(raw?.go?.version ?? '–')],
    ['set.system', `${String(raw?.os?.name ?? '–')} ${String(raw?.os?.arch ?? '')}`],
    ['set.process', `pid ${String(raw?.process?.pid ?? '–')}, ${String(raw?.process?.cpus ?? '–')} cpu`],
  ]
  return (
    <>
      <div className="h2 !mt-0 about-h">
        <h2>{t('set.about')}</h2>
      </div>
      <div className="panel p-4">
        <dl className="dl">
          {rows.map(([key, value]) => [
            <dt key={`${key} name`}>{t(key)}</dt>,
            <dd key={key}>
              <code>{value}</code>
            </dd>,
          ])}
        </dl>
      </div>
    </>
  )
}

function Health() {
  const { t } = useI18n()
  const { data } = useQuery(health)
  return (
    <>
      <div className="h2">
        <h2>{t('set.health')}</h2>
      </div>
      <div className="panel p-4">
        <dl className="dl">
          {Object.entries(data?.components ?? {}).map(([name, component]) => [
            <dt key={`${name} name`}>
              <code>{name}</code>
            </dt>,
            <dd key={name}>
              <span className={`pill ${component.status === 'UP' ? 'ok' : 'bd'}`}>
                <HealthGlyph state={component.status === 'UP' ? 'healthy' : 'unhealthy'} />
                {component.status}
              </span>
            </dd>,
          ])}
        </dl>
      </div>
    </>
  )
}

const links: [Key, string][] = [
  ['set.link.openapi', '/openapi.json'],
  ['guide.title', '/docs'],
  ['set.link.docs', '/docs/api'],
  ['set.link.health', '/actuator/health'],
  ['set.link.prometheus', '/actuator/prometheus'],
  ['set.link.models', '/v1/models'],
]

function Links() {
  const { t, lang } = useI18n()
  return (
    <>
      <div className="h2">
        <h2>{t('set.links')}</h2>
      </div>
      <div className="panel p-4">
        <ul className="grid gap-1">
          {links.map(([key, path]) => (
            <li key={path} className="row flex-wrap">
              <a href={path === '/docs' ? docsAddress(lang) : path} target="_blank" rel="noreferrer">
                {t(key)}
              </a>
              <code className="muted">{path}</code>
            </li>
          ))}
        </ul>
      </div>
    </>
  )
}
