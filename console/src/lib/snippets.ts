// The request of the playground as code that can be taken away.

export type SnippetLanguage = 'curl' | 'python' | 'node' | 'go'
export const snippetLanguages: readonly SnippetLanguage[] = ['curl', 'python', 'node', 'go']
export const snippetNames: Record<SnippetLanguage, string> = { curl: 'curl', python: 'Python', node: 'Node', go: 'Go' }

export interface SnippetRequest {
  origin: string
  path: string
  /** A JSON body, or the fields of a form with the names of its files. */
  json?: object
  form?: { name: string; value?: string; file?: string }[]
  /** Whether the caller must send a key; it is never written out. */
  key: boolean
}

/** A text in single quotes for a POSIX shell. */
export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** A line for a POSIX shell, in which every value that is put in is quoted: they may come from anybody. */
export function shell(parts: TemplateStringsArray, ...values: string[]): string {
  return parts.map((part, n) => (n === 0 ? part : shellQuote(values[n - 1]!) + part)).join('')
}

export function snippet(language: SnippetLanguage, request: SnippetRequest): string {
  switch (language) {
    case 'curl':
      return curl(request)
    case 'python':
      return python(request)
    case 'node':
      return node(request)
    case 'go':
      return golang(request)
  }
}

function curl({ origin, path, json, form, key }: SnippetRequest): string {
  const lines = [shell`curl -N ${origin + path}`]
  if (key) lines.push(`-H "Authorization: Bearer $PATCHBAY_KEY"`)
  if (json !== undefined) lines.push(`-H 'Content-Type: application/json'`, shell`-d ${JSON.stringify(json)}`)
  // curl takes a value that begins with @ or < for the name of a file, unless it is a --form-string.
  for (const { name, file, value } of form ?? []) lines.push(file !== undefined ? shell`-F ${`${name}=@${file}`}` : shell`--form-string ${`${name}=${value ?? ''}`}`)
  return lines.join(' \\\n  ')
}

/** JSON with Python's words for true, false and null. */
export function pythonLiteral(value: unknown): string {
  if (value === true) return 'True'
  if (value === false) return 'False'
  if (value === null || value === undefined) return 'None'
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(', ')}]`
  if (typeof value === 'object') return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonLiteral(item)}`).join(', ')}}`
  return JSON.stringify(value)
}

function python({ origin, path, json, form, key }: SnippetRequest): string {
  const header = key ? `, headers={"Authorization": "Bearer " + os.environ["PATCHBAY_KEY"]}` : ''
  const lines = [`import ${key ? 'os, ' : ''}requests`, '']
  const url = JSON.stringify(origin + path)
  if (json !== undefined) {
    lines.push(`reply = requests.post(${url}${header}, stream=True,`, `    json=${pythonLiteral(json)})`)
  } else {
    const fields = (form ?? []).filter((field) => field.file === undefined)
    const files = (form ?? []).filter((field) => field.file !== undefined)
    lines.push(
      `reply = requests.post(${url}${header},`,
      `    data=${pythonLiteral(Object.fromEntries(fields.map((field) => [field.name, field.value])))},`,
      `    files={${files.map((field) => `${JSON.stringify(field.name)}: open(${JSON.stringify(field.file)}, "rb")`).join(', ')}})`,
    )
  }
  lines.push('for line in reply.iter_lines():', '    print(line.decode())')
  return lines.join('\n')
}

function node({ origin, path, json, form, key }: SnippetRequest): string {
  const url = JSON.stringify(origin + path)
  const auth = key ? 'Authorization: `Bearer ${process.env.PATCHBAY_KEY}`' : ''
  if (json !== undefined) {
    return [
      `const reply = await fetch(${url}, {`,
      `  method: 'POST',`,
      `  headers: { 'Content-Type': 'application/json'${auth === '' ? '' : `, ${auth}`} },`,
      `  body: JSON.stringify(${JSON.stringify(json, null, 2).replaceAll('\n', '\n  ')}),`,
      `})`,
      `for await (const chunk of reply.body) process.stdout.write(chunk)`,
    ].join('\n')
  }
  const appends = (form ?? []).map((field) =>
    field.file !== undefined
      ? `form.append(${JSON.stringify(field.name)}, await openAsBlob(${JSON.stringify(field.file)}), ${JSON.stringify(field.file)})`
      : `form.append(${JSON.stringify(field.name)}, ${JSON.stringify(field.value)})`,
  )
  return [
    `import { openAsBlob } from 'node:fs'`,
    `const form = new FormData()`,
    ...appends,
    `const reply = await fetch(${url}, { method: 'POST', body: form${auth === '' ? '' : `, headers: { ${auth} }`} })`,
    `console.log(await reply.text())`,
  ].join('\n')
}

/** A text as a Go string: raw where it can be. */
export function goString(text: string): string {
  return /[`\r\0]/.test(text) ? JSON.stringify(text) : `\`${text}\``
}

function golang({ origin, path, json, form, key }: SnippetRequest): string {
  const auth = key ? `\treq.Header.Set("Authorization", "Bearer "+os.Getenv("PATCHBAY_KEY"))\n` : ''
  const tail = `\treply, err := http.DefaultClient.Do(req)\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tdefer reply.Body.Close()\n\tio.Copy(os.Stdout, reply.Body)\n}\n`
  if (json !== undefined) {
    return (
      `package main\n\nimport (\n\t"io"\n\t"net/http"\n\t"os"\n\t"strings"\n)\n\nfunc main() {\n` +
      `\tbody := strings.NewReader(${goString(JSON.stringify(json))})\n` +
      `\treq, _ := http.NewRequest("POST", ${JSON.stringify(origin + path)}, body)\n` +
      `\treq.Header.Set("Content-Type", "application/json")\n${auth}${tail}`
    )
  }
  const fields = (form ?? [])
    .map((field) =>
      field.file !== undefined
        ? `\tpart, _ := form.CreateFormFile(${JSON.stringify(field.name)}, ${JSON.stringify(field.file)})\n\tfile, _ := os.ReadFile(${JSON.stringify(field.file)})\n\tpart.Write(file)\n`
        : `\tform.WriteField(${JSON.stringify(field.name)}, ${goString(field.value ?? '')})\n`,
    )
    .join('')
  return (
    `package main\n\nimport (\n\t"bytes"\n\t"io"\n\t"mime/multipart"\n\t"net/http"\n\t"os"\n)\n\nfunc main() {\n` +
    `\tvar body bytes.Buffer\n\tform := multipart.NewWriter(&body)\n${fields}\tform.Close()\n` +
    `\treq, _ := http.NewRequest("POST", ${JSON.stringify(origin + path)}, &body)\n` +
    `\treq.Header.Set("Content-Type", form.FormDataContentType())\n${auth}${tail}`
  )
}
