import { useMemo, useState } from 'react'
import { useI18n } from '@/i18n'
import { Bar } from '@/ui/parts'
import { TextArea, TextField } from '@/ui/field'
import { gatewayKey } from './call'
import type { TabProps } from './index'
import { CallError, Meta, RunButton, useCall } from './parts'
import { useKept } from '@/shell/draft'
import { given, givenTexts, useReplay, keptAs } from './replay'

const lines = (text: string) => text.split('\n').map((line) => line.trim()).filter((line) => line !== '').slice(0, 10)

export function cosine(a: readonly number[], b: readonly number[]): number {
  let dot = 0
  let left = 0
  let right = 0
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    dot += a[i]! * b[i]!
    left += a[i]! ** 2
    right += b[i]! ** 2
  }
  return left === 0 || right === 0 ? 0 : dot / Math.sqrt(left * right)
}

interface EmbeddingReply {
  data: { index: number; embedding: number[] }[]
}

/** Embeddings: how alike up to ten texts are. */
export function Embeddings({ model, panel }: TabProps) {
  const { t } = useI18n()
  const replay = useReplay('embedding')
  const [input, setInput] = useKept(keptAs('embedding', replay), givenTexts(replay, 'input') ?? 'A patch bay connects jacks with cables.\nCables connect the jacks of a patch bay.\nThe weather is fine today.')
  const call = useCall(async (reply) => (await reply.response.json()) as EmbeddingReply)
  const texts = useMemo(() => lines(input), [input])
  const [asked, setAsked] = useState<string[]>([])
  const json = { model, input: texts }
  const run = () => {
    setAsked(texts)
    void call.run({ path: '/v1/embeddings', json })
  }
  const vectors = call.result?.data.toSorted((a, b) => a.index - b.index).map((item) => item.embedding) ?? []
  return panel({
    request: { origin: location.origin, path: '/v1/embeddings', json, key: gatewayKey() !== '' },
    raw: call.result === null ? [] : [{ request: json, response: JSON.stringify(call.result, null, 1).slice(0, 20_000) }],
    children: (
      <div className="sheet">
        <TextArea label={t('pg.input')} extra={t('pg.lines')} rows={5} value={input} onChange={setInput} />
        <RunButton busy={call.busy} disabled={texts.length === 0 || model === ''} label={t('pg.embed')} onRun={run} onStop={call.stop} />
        {call.error !== null && <CallError error={call.error} retry={run} />}
        {call.reply !== null && vectors.length > 0 && (
          <>
            <Meta service="embedding" model={model} reply={call.reply}>
              <span>{t('pg.dimensions', { n: vectors[0]!.length })}</span>
            </Meta>
            <div className="sub">{t('pg.similarity')}</div>
            <div className="tw panel" tabIndex={0}>
              <table className="tbl">
                <thead>
                  <tr>
                    <th />
                    {vectors.map((_, i) => (
                      <th key={i} className="num">
                        {i + 1}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {vectors.map((a, i) => (
                    <tr key={i}>
                      <td className="max-w-[300px] overflow-hidden text-ellipsis" title={asked[i]}>
                        <span className="muted">{i + 1}</span> {asked[i]}
                      </td>
                      {vectors.map((b, j) => {
                        const alike = cosine(a, b)
                        return (
                          <td key={j} className="num" style={{ background: i === j ? undefined : `color-mix(in srgb, var(--accent) ${Math.round(Math.max(0, alike) * 32)}%, transparent)` }}>
                            {alike.toFixed(2)}
                          </td>
                        )
                      })}
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </>
        )}
      </div>
    ),
  })
}

interface RerankReply {
  results: { index: number; relevance_score?: number; score?: number }[]
}

/** Rerank: the documents before and after, with their scores. */
export function Rerank({ model, panel }: TabProps) {
  const { t } = useI18n()
  const replay = useReplay('rerank')
  const [query, setQuery] = useKept(keptAs('query', replay), given(replay, 'query', 'which jack carries the signal'))
  const [documents, setDocuments] = useKept(keptAs('documents', replay), givenTexts(replay, 'documents') ?? 'The weather is fine today.\nThe upper jack carries the signal.\nA breaker protects the circuit.\nThis jack is empty.')
  const call = useCall(async (reply) => (await reply.response.json()) as RerankReply)
  const list = useMemo(() => documents.split('\n').map((line) => line.trim()).filter((line) => line !== ''), [documents])
  const [asked, setAsked] = useState<string[]>([])
  const json = { model, query, documents: list }
  const run = () => {
    setAsked(list)
    void call.run({ path: '/v1/rerank', json })
  }
  const ranked = call.result?.results.map((item) => ({ index: item.index, score: item.relevance_score ?? item.score ?? 0 })).sort((a, b) => b.score - a.score) ?? []
  const max = Math.max(0.0001, ...ranked.map((item) => item.score))
  return panel({
    request: { origin: location.origin, path: '/v1/rerank', json, key: gatewayKey() !== '' },
    raw: call.result === null ? [] : [{ request: json, response: JSON.stringify(call.result, null, 1) }],
    children: (
      <div className="sheet">
        <TextField label={t('pg.query')} value={query} onChange={setQuery} />
        <TextArea label={t('pg.documents')} rows={5} value={documents} onChange={setDocuments} />
        <RunButton busy={call.busy} disabled={list.length === 0 || query.trim() === '' || model === ''} label={t('pg.rank')} onRun={run} onStop={call.stop} />
        {call.error !== null && <CallError error={call.error} retry={run} />}
        {call.reply !== null && (
          <>
            <Meta service="rerank" model={model} reply={call.reply} />
            <table className="tbl panel mt-3">
              <thead>
                <tr>
                  <th className="num w-[64px]">{t('pg.after')}</th>
                  <th className="num w-[64px]">{t('pg.before')}</th>
                  <th>{t('pg.input')}</th>
                  <th className="num w-[72px]">{t('pg.score')}</th>
                  <th className="onlydesk w-[96px]" />
                </tr>
              </thead>
              <tbody>
                {ranked.map((item, position) => (
                  <tr key={item.index}>
                    <td className="num font-semibold">{position + 1}</td>
                    <td className="num muted">
                      {item.index + 1} {item.index > position ? '↑' : item.index < position ? '↓' : ''}
                    </td>
                    <td className="cut" title={asked[item.index]}>
                      {asked[item.index]}
                    </td>
                    <td className="num">{item.score.toFixed(3)}</td>
                    <td className="onlydesk">
                      <Bar share={item.score / max} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </>
        )}
      </div>
    ),
  })
}
