import { useQuery } from '@tanstack/react-query'
import { Search as SearchIcon } from 'lucide-react'
import { useMemo, useState } from 'react'
import { useI18n } from '@/i18n'
import { usePageFact } from '@/shell/fact'
import { useSearchState } from '@/shell/search'
import { ErrorNote } from '@/ui/feedback'
import { SecretField } from '@/ui/field'
import { gatewayKey, setGatewayKey } from '../playground/call'
import { document, matches, type Document, type Operation } from './document'
import { Try } from './try'

/** Every operation of the gateway, made from its OpenAPI document: to read and to try. */
export default function Docs() {
  const { t } = useI18n()
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
      <div id="operations">
        {data !== undefined && groups.length === 0 && <p className="muted">{t('docs.nothing')}</p>}
        {data !== undefined &&
          groups.map(([tag, operations]) => (
            <section key={tag} className="mb-5">
              <div className="h2">
                <h2>{tag}</h2>
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

/** One operation; what is in it is made when it is opened. */
function Entry({ document: whole, operation }: { document: Document; operation: Operation }) {
  const [open, setOpen] = useState(false)
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <code className={`verb ${operation.method.toLowerCase()}`}>{operation.method}</code>
        <code className="path">{operation.path}</code>
        <span className="soft trunc" title={operation.summary}>{operation.summary}</span>
      </summary>
      {open && <Try document={whole} operation={operation} />}
    </details>
  )
}
