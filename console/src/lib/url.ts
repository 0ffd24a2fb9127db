// What a page shows is in its URL, as plain readable parameters: the state of
// a page can be shared, survives a reload, and is what the back button walks.

export type Search = Record<string, string>

/** "?a=1&b=x" to an object of texts; the first of two equal names wins. */
export function parseSearch(query: string): Search {
  const result: Search = {}
  for (const [key, value] of new URLSearchParams(query)) {
    if (!(key in result)) result[key] = value
  }
  return result
}

/** The reverse of parseSearch; empty and absent values leave no trace. */
export function stringifySearch(search: Record<string, unknown>): string {
  const params = new URLSearchParams()
  for (const [key, value] of Object.entries(search)) {
    if (value === undefined || value === null || value === '') continue
    params.set(key, String(value))
  }
  const query = params.toString()
  return query === '' ? '' : `?${query}`
}

/** The address of a page after an instance got another id: what shows or edits it goes on to do so. */
export function renamed(search: Search, service: string, from: string, to: string): Search {
  const isShown = search.service === service && search.id === from
  const isEdited = search.edit === `${service}/${from}`
  return { ...search, ...(isShown ? { id: to } : {}), ...(isEdited ? { edit: `${service}/${to}` } : {}) }
}

/** The value if it is one of the allowed ones, otherwise the first of them. */
export function oneOf<T extends string>(value: unknown, allowed: readonly T[]): T {
  return allowed.includes(value as T) ? (value as T) : allowed[0]!
}

/** A list in one parameter; names may hold commas, so each item is escaped. */
export function parseList(value: string | undefined): string[] {
  return value === undefined || value === '' ? [] : value.split(',').map(unescapeItem)
}

export function stringifyList(items: Iterable<string>): string {
  return [...items].map((item) => item.replaceAll('~', '~0').replaceAll(',', '~1')).join(',')
}

function unescapeItem(item: string): string {
  return item.replaceAll('~1', ',').replaceAll('~0', '~')
}
