// The OpenAPI document as the page shows it.
import { queryOptions } from '@tanstack/react-query'
import { paths as unified } from '@/api/probe'
import { toError } from '@/api/client'
import type { ServiceType } from '@/api/types'

export interface Schema {
  $ref?: string
  type?: string | string[]
  properties?: Record<string, Schema>
  additionalProperties?: Schema | boolean
  items?: Schema
  required?: string[]
  enum?: unknown[]
  allOf?: Schema[]
  anyOf?: Schema[]
  oneOf?: Schema[]
  example?: unknown
  examples?: unknown[]
  format?: string
  description?: string
}

export interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required?: boolean
  description?: string
  schema: Schema
}

interface RawOperation {
  operationId: string
  tags: string[]
  summary: string
  parameters?: Parameter[]
  requestBody?: { content: Record<string, { schema: Schema }> }
  responses: Record<string, { description: string; content?: Record<string, { schema: Schema }> }>
  'x-permission'?: string
}

export interface Operation extends RawOperation {
  method: string
  path: string
}

export interface Document {
  operations: Operation[]
  schemas: Record<string, Schema>
}

export const document = queryOptions({
  queryKey: ['openapi'],
  staleTime: Number.POSITIVE_INFINITY,
  queryFn: async ({ signal }): Promise<Document> => {
    const reply = await fetch('/openapi.json', { signal })
    if (!reply.ok) throw toError(reply.status, await reply.text(), reply.headers.get('x-request-id') ?? '')
    const raw = (await reply.json()) as { paths: Record<string, Record<string, RawOperation>>; components: { schemas: Record<string, Schema> } }
    return {
      schemas: raw.components.schemas,
      // The order is the gateway's: the unified API comes first.
      operations: Object.entries(raw.paths).flatMap(([path, item]) => Object.entries(item).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path }))),
    }
  },
})

/** Every word of the search must be in the method, the path, the tag or the summary. */
export function matches(operation: Operation, words: string): boolean {
  const text = `${operation.method} ${operation.path} ${operation.summary} ${operation.tags.join(' ')}`.toLowerCase()
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word))
}

const deepest = 6

/** Follows a reference and joins the parts of a schema. */
function flat(schema: Schema, schemas: Document['schemas']): Schema {
  if (schema.$ref !== undefined) return flat(schemas[schema.$ref.replace('#/components/schemas/', '')] ?? {}, schemas)
  if (schema.allOf === undefined) return schema
  return schema.allOf.map((part) => flat(part, schemas)).reduce((whole, part) => ({
    ...whole, ...part, properties: { ...whole.properties, ...part.properties }, required: [...(whole.required ?? []), ...(part.required ?? [])],
  }), { ...schema, allOf: undefined })
}

/** The shape of a value, one line for each member. */
export function shape(given: Schema, schemas: Document['schemas'], depth = 0): string {
  const schema = flat(given, schemas)
  const pad = '  '.repeat(depth + 1)
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) return choices.map((choice) => shape(choice, schemas, depth)).join(' | ')
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
  if (schema.items !== undefined) return `[${shape(schema.items, schemas, depth)}]`
  if (schema.properties !== undefined && depth < deepest) {
    const lines = Object.entries(schema.properties).map(([name, member]) => `${pad}${name}${schema.required?.includes(name) ? '' : '?'}: ${shape(member, schemas, depth + 1)}`)
    return `{\n${lines.join('\n')}\n${'  '.repeat(depth)}}`
  }
  const type = Array.isArray(schema.type) ? schema.type.join(' | ') : (schema.type ?? 'any')
  return schema.format === undefined ? type : `${type} (${schema.format})`
}

/** A value to begin with: examples, and what the gateway asks for at least. */
export function sample(given: Schema, schemas: Document['schemas'], depth = 0): unknown {
  const schema = flat(given, schemas)
  if (schema.example !== undefined) return schema.example
  if (schema.examples?.[0] !== undefined) return schema.examples[0]
  if (schema.enum !== undefined) return schema.enum[0]
  const choice = (schema.anyOf ?? schema.oneOf)?.[0]
  if (choice !== undefined) return sample(choice, schemas, depth)
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type
  if (type === 'array') return schema.items === undefined || depth > 2 ? [] : [sample(schema.items, schemas, depth + 1)]
  if (type === 'object' || schema.properties !== undefined) {
    const wanted = Object.entries(schema.properties ?? {}).filter(([name, member]) => schema.required?.includes(name) || member.example !== undefined)
    return Object.fromEntries(wanted.map(([name, member]) => [name, sample(member, schemas, depth + 1)]))
  }
  return { string: '', integer: 0, number: 0, boolean: true }[type ?? ''] ?? null
}

/** The service type that an operation of the unified API is for. */
export function serviceOf(operation: Operation): ServiceType | undefined {
  if (operation.method !== 'POST') return undefined
  return (Object.keys(unified) as ServiceType[]).find((service) => unified[service] === operation.path || unified[service] === `/v1${operation.path}`)
}

/** The address of an operation with its parameters filled in. */
export function addressOf(operation: Operation, values: Record<string, string>): string {
  let path = operation.path
  const query = new URLSearchParams()
  for (const parameter of operation.parameters ?? []) {
    const value = values[parameter.name] ?? ''
    if (parameter.in === 'path') path = path.replace(`{${parameter.name}}`, value.split('/').map(encodeURIComponent).join('/'))
    else if (parameter.in === 'query' && value !== '') query.set(parameter.name, value)
  }
  return query.size === 0 ? path : `${path}?${query}`
}
