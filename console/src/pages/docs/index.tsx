import { useQuery } from '@tanstack/react-query'
import { Search as SearchIcon } from 'lucide-react'
import { useMemo, useState } from 'react'
import { useI18n, type Key } from '@/i18n'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { SecretField } from '@/ui/field'
import { gatewayKey, setGatewayKey } from '../playground/call'
import { document, matches, type Document, type Operation } from './document'
import { Try } from './try'

/** Every operation of the gateway, made from its OpenAPI document: to read and to try. */
export default function Docs() {
  const { t, lang } = useI18n()
  const { data, error, refetch } = useQuery(document)
  const [search, setSearch] = useSearchState()
  const [key, setKey] = useState(gatewayKey)
  const find = search.find ?? ''
  usePageFact(t('docs.sum'))
  const groups = useMemo(() => {
    const found = new Map<string, Operation[]>()
    for (const operation of data?.operations ?? []) {
      if (!matches(operation, find)) continue
      const tag = operation.tags[0] ?? ''
      found.set(tag, [...(found.get(tag) ?? []), operation])
    }
    return [...found]
  }, [data, find])
  if (error !== null) return <ErrorNote error={error} title={t('error.load')} retry={() => void refetch()} />
  return (
    <>
      <div className="bar items-end">
        <div className="inp min-w-0 max-w-[420px] grow">
          <SearchIcon className="ic s14" aria-hidden />
          <input id="find" type="search" aria-label={t('docs.find')} placeholder={t('docs.find')} value={find} onChange={(event) => setSearch({ find: event.target.value === '' ? undefined : event.target.value })} />
        </div>
        <a className="btn" href="/openapi.json" target="_blank" rel="noreferrer">
          openapi.json
        </a>
      </div>
      <div className="max-w-[420px]">
        <SecretField
          label={t('docs.key')}
          hint={t('docs.keyHint')}
          value={key}
          onChange={(next) => {
            setKey(next)
            setGatewayKey(next)
          }}
        />
      </div>
      {lang !== 'en' && <p className="hint">{t('docs.english')}</p>}
      <div id="operations">
        {data !== undefined && groups.length === 0 && <p className="muted">{t('docs.nothing')}</p>}
        {data !== undefined &&
          groups.map(([tag, operations]) => (
            <section key={tag} className="mb-5">
              <div className="h2">
                <h2>{tagNames[tag] === undefined ? <span lang="en">{tag}</span> : t(tagNames[tag])}</h2>
                <span className="muted">{operations.length}</span>
              </div>
              <div className="panel ops">
                {operations.map((operation) => (
                  <Entry key={operation.operationId} document={data} operation={operation} />
                ))}
              </div>
            </section>
          ))}
      </div>
    </>
  )
}

// The groups of operations that have a name in every language.
const tagNames: Record<string, Key> = {
  'Unified API': 'docs.tag.unified',
  'Files and batches': 'docs.tag.files',
  Batches: 'docs.tag.batches',
  'Service types': 'docs.tag.types',
  Instances: 'docs.tag.instances',
  Versions: 'docs.tag.versions',
  'Terms of keys': 'docs.tag.terms',
  Settings: 'docs.tag.settings',
  Quota: 'docs.tag.quota',
  Sessions: 'docs.tag.sessions',
  'API keys': 'docs.tag.keys',
  'Management tokens': 'docs.tag.tokens',
  Processes: 'docs.tag.processes',
  'Sign-in': 'docs.tag.signin',
  'Self-service': 'docs.tag.self',
  Teams: 'docs.tag.teams',
  Audit: 'docs.tag.audit',
  Monitoring: 'docs.tag.monitoring',
  Gateways: 'docs.tag.gateways',
  Operation: 'docs.tag.operation',
  'This document': 'docs.tag.document',
  Demo: 'docs.tag.demo',
}

/** One operation; what is in it is made when it is opened. */
function Entry({ document: whole, operation }: { document: Document; operation: Operation }) {
  const [open, setOpen] = useState(false)
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <code className={`verb ${operation.method.toLowerCase()}`}>{operation.method}</code>
        <code className="path">{operation.path}</code>
        <span className="soft trunc" lang="en" title={operation.summary}>{operation.summary}</span>
      </summary>
      {open && <Try document={whole} operation={operation} />}
    </details>
  )
}
