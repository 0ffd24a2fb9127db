// Configuration as YAML text, for people to compare. It is not read back.

/** A scalar as YAML writes it: quoted only where it would be misread. */
function scalar(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  if (typeof value !== 'string') return String(value)
  if (value === '') return '""'
  if (/^[\w./@+-][\w ./@:+%=*-]*$/.test(value) && !/^(true|false|null|yes|no|on|off|~|[-+]?[\d.][\d.e+-]*)$/i.test(value) && !/: |\s$|:$/.test(value)) return value
  return JSON.stringify(value)
}

/** Keys as the configuration file has them: load-balancer, not loadBalancer. */
function kebab(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

const isEmpty = (value: unknown) => typeof value === 'object' && value !== null && Object.keys(value).length === 0

/** The lines of a value; maps keep the order of their keys. */
export function yamlLines(value: unknown, indent = 0, keys: (key: string, depth: number) => string = kebab): string[] {
  const pad = '  '.repeat(indent)
  if (Array.isArray(value)) {
    return value.flatMap((item) => {
      if (typeof item !== 'object' || item === null || isEmpty(item)) return [`${pad}- ${isEmpty(item) ? '{}' : scalar(item)}`]
      const lines = yamlLines(item, indent + 1, keys)
      return [`${pad}- ${lines[0]!.trimStart()}`, ...lines.slice(1)]
    })
  }
  return Object.entries(value as Record<string, unknown>).flatMap(([key, item]) => {
    const name = keys(key, indent)
    if (typeof item !== 'object' || item === null) return [`${pad}${name}: ${scalar(item)}`]
    if (isEmpty(item)) return [`${pad}${name}: ${Array.isArray(item) ? '[]' : '{}'}`]
    return [`${pad}${name}:`, ...yamlLines(item, indent + 1, keys)]
  })
}

const secretField = /^(api-?key|password|secret|token|authorization|x-api-key|proxy-authorization)$/i

/** A copy in which secrets show their last four characters at most. */
export function maskSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(maskSecrets)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      if (typeof item !== 'string' || item === '' || !secretField.test(key)) return [key, maskSecrets(item)]
      return [key, item.length > 8 ? `****${item.slice(-4)}` : '****']
    }),
  )
}
