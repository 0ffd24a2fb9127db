import { useEffect, useMemo, useRef, useState, type FormEvent } from 'react'
import { minimal } from '@/api/probe'
import { useI18n } from '@/i18n'
import { shell } from '@/lib/snippets'
import { useLive } from '@/live/context'
import { TextArea, TextField } from '@/ui/field'
import { CopyButton } from '@/ui/parts'
import { gatewayKey } from '../playground/call'
import { addressOf, sample, serviceOf, shape, type Document, type Operation } from './document'

const json = 'application/json'
const longest = 40_000

interface Answer {
  status: string
  text: string
}

/** What an operation takes and answers, and a form that sends it. */
export function Try({ document, operation }: { document: Document; operation: Operation }) {
  const { t } = useI18n()
  const { snapshot } = useLive()
  const [values, setValues] = useState<Record<string, string>>({})
  const [answer, setAnswer] = useState<Answer | null>(null)
  const [busy, setBusy] = useState(false)
  const abort = useRef<AbortController | null>(null)
  useEffect(() => () => abort.current?.abort(), [])
  const service = serviceOf(operation)
  const model = snapshot?.instances.find((instance) => instance.service === service && instance.enabled)?.model ?? 'demo-chat'
  const content = operation.requestBody?.content
  const isForm = content !== undefined && content[json] === undefined
  const schema = content?.[json]?.schema
  const example = useExample(document, operation, model)
  const [typed, setTyped] = useState<string | null>(null)
  const text = typed ?? example
  const parameters = operation.parameters ?? []
  const bearer = operation.path.startsWith('/api') || operation.path.startsWith('/actuator') ? '' : gatewayKey()

  const send = async (event: FormEvent) => {
    event.preventDefault()
    abort.current?.abort()
    const controller = new AbortController()
    abort.current = controller
    setBusy(true)
    setAnswer(null)
    try {
      const headers: Record<string, string> = { accept: '*/*' }
      for (const parameter of parameters) if (parameter.in === 'header' && values[parameter.name]) headers[parameter.name] = values[parameter.name]!
      if (bearer !== '') headers.authorization = `Bearer ${bearer}`
      let body: BodyInit | undefined
      if (isForm && service !== undefined) body = (await minimal(service, model)) as FormData
      else if (schema !== undefined) {
        headers['content-type'] = json
        body = text
      }
      const began = performance.now()
      const reply = await fetch(addressOf(operation, values), { method: operation.method, headers, body, signal: controller.signal })
      await show(reply, began, setAnswer)
    } catch (error) {
      if (!controller.signal.aborted) setAnswer({ status: t('error.title'), text: String(error) })
    } finally {
      if (abort.current === controller) setBusy(false)
    }
  }
  const command = [
    (operation.method === 'GET' ? 'curl' : `curl -X ${operation.method}`) + shell` ${location.origin + addressOf(operation, values)}`,
    bearer === '' ? '' : '-H "Authorization: Bearer $KEY"',
    schema === undefined ? '' : shell`-H 'Content-Type: application/json' -d ${text}`,
  ].filter((part) => part !== '').join(' \\\n  ')
  return (
    <form className="op" onSubmit={(event) => void send(event)}>
      {operation['x-permission'] !== undefined && (
        <p className="soft">
          {t('docs.needs')} <code>{operation['x-permission']}</code>
        </p>
      )}
      {parameters.map((parameter) => (
        <TextField
          key={parameter.name}
          label={<code>{parameter.name}</code>}
          extra={`${parameter.in}${parameter.required ? '' : `, ${t('common.optional')}`}`}
          mono
          hint={parameter.description ?? shape(parameter.schema, document.schemas)}
          value={values[parameter.name] ?? ''}
          onChange={(next) => setValues({ ...values, [parameter.name]: next })}
        />
      ))}
      {schema !== undefined && <TextArea label={t('docs.body')} mono rows={Math.min(12, Math.max(3, text.split('\n').length))} value={text} onChange={setTyped} />}
      {isForm && <p className="soft">{t('docs.form')}</p>}
      <div className="row flex-wrap">
        <button type="submit" className="btn pri">
          {t('docs.send')}
        </button>
        {busy && (
          <span className="row">
            <a
              className="soft"
              href="#stop"
              role="button"
              onClick={(event) => {
                event.preventDefault()
                abort.current?.abort()
              }}
            >
              {t('pg.stop')}
            </a>
          </span>
        )}
      </div>
      {answer !== null && (
        <pre className="code fold mt-3" tabIndex={0} aria-live="polite">
          {`${answer.status}\n\n${answer.text}`}
        </pre>
      )}
      <div className="shapes">
        <div>
          <div className="flab">curl</div>
          <div className="codebox">
            <code className="code fold">{command}</code>
            <CopyButton text={command} />
          </div>
        </div>
        {schema !== undefined && (
          <div>
            <div className="flab">{t('docs.takes')}</div>
            <code className="code">{shape(schema, document.schemas)}</code>
          </div>
        )}
        <div>
          <div className="flab">{t('docs.answers')}</div>
          <code className="code">
            {Object.entries(operation.responses)
              .map(([status, response]) => {
                const [type, media] = Object.entries(response.content ?? {})[0] ?? []
                return status.startsWith('2') && media !== undefined ? `${status} ${type} ${shape(media.schema, document.schemas)}` : `${status} ${response.description}`
              })
              .join('\n')}
          </code>
        </div>
      </div>
    </form>
  )
}

/** A body that works: of the unified API with a model that is there. */
function useExample(document: Document, operation: Operation, model: string): string {
  const [known, setKnown] = useState<string | null>(null)
  const service = serviceOf(operation)
  const schema = operation.requestBody?.content[json]?.schema
  useEffect(() => {
    let gone = false
    if (service !== undefined && schema !== undefined) void minimal(service, model).then((body) => !gone && setKnown(JSON.stringify(body, null, 2)))
    return () => {
      gone = true
    }
  }, [service, schema, model])
  return useMemo(() => known ?? (schema === undefined ? '' : JSON.stringify(sample(schema, document.schemas), null, 2)), [known, schema, document])
}

/** Shows an answer as it comes: JSON in lines, text as text, other things by their size. */
async function show(reply: Response, began: number, set: (answer: Answer) => void): Promise<void> {
  const type = reply.headers.get('content-type') ?? ''
  const status = () => `${reply.status} ${reply.statusText} · ${Math.round(performance.now() - began)} ms · ${reply.headers.get('x-request-id') ?? ''}`
  if (!/json|text|event-stream/.test(type)) {
    set({ status: status(), text: `${type}, ${(await reply.arrayBuffer()).byteLength} bytes` })
    return
  }
  let text = ''
  const reader = reply.body?.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const next = await reader?.read()
    if (next === undefined || next.done) break
    text = (text + next.value).slice(0, longest)
    if (type.includes('event-stream')) set({ status: status(), text })
  }
  if (type.includes('json') && text.length < longest) {
    try {
      text = JSON.stringify(JSON.parse(text), null, 2)
    } catch {
      // What is no JSON is shown as it came.
    }
  }
  set({ status: status(), text })
}
