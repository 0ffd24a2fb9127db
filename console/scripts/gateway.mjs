// Starts gateways on free ports, for the scripts that look at their pages.
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { provider } from './provider.mjs'

export const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })

/** Waits until the gateway answers. */
export async function ready(url) {
  for (let i = 0; i < 600; i++) {
    if (await fetch(`${url}/actuator/health/readiness`).then((reply) => reply.ok, () => false)) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('the gateway does not start')
}

/** What Chromium is started with: no sandbox in containers, and nothing that asks the network. */
export const chromiumArgs = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage']

/** Starts a gateway; an argument may be a function of its address. */
async function gateway(verb, ...args) {
  const url = `http://127.0.0.1:${await freePort()}`
  const child = spawn(process.env.PATCHBAY_BIN ?? '../bin/patchbay', [verb, '--listen', new URL(url).host, ...args.map((arg) => (typeof arg === 'function' ? arg(url) : arg))], { stdio: 'ignore' })
  process.once('exit', () => child.kill())
  await ready(url)
  return { url, stop: () => child.kill() }
}

/** The address of PATCHBAY_URL, or of a demo of PATCHBAY_BIN that ends with stop(). */
export async function demoGateway(...args) {
  return process.env.PATCHBAY_URL !== undefined ? { url: process.env.PATCHBAY_URL, stop: () => undefined } : gateway('demo', ...args)
}

/** A file of settings, for those that are read from a file only. */
export async function fileOf(text) {
  const folder = await mkdtemp(join(tmpdir(), 'patchbay-look-'))
  process.once('exit', () => rmSync(folder, { recursive: true }))
  await writeFile(join(folder, 'patchbay.yaml'), text)
  return join(folder, 'patchbay.yaml')
}

/** The roles of the whole gateway, which tokens have, and those in a tenant, which people have who sign in. */
export const tokenRoles = ['ADMIN', 'OPERATOR', 'VIEWER']
export const peopleRoles = ['MEMBER', 'TEAM_ADMIN']

/** A gateway that asks who looks at it, with a token or an account for each role, a key, prices and calls. */
export async function guardedGateway() {
  const tokens = Object.fromEntries(tokenRoles.map((role) => [role, randomBytes(24).toString('hex')]))
  const sum = (text) => createHash('sha256').update(text).digest('hex')
  const list = Object.entries(tokens).map(([role, token]) => `{name: ${role.toLowerCase()}, role: ${role}, token-sha256: "${sum(token)}"}`)
  const accounts = await provider()
  const dir = await mkdtemp(join(tmpdir(), 'patchbay-guarded-'))
  const file = join(dir, 'patchbay.yaml') // providers are read from a file only
  await writeFile(file, JSON.stringify({ security: { enabled: true, oidc: peopleRoles.map((role) => ({ name: role, issuer: accounts.issuer(role), 'client-id': 'patchbay', 'client-secret': 's', rules: [{ claim: 'groups', value: role, role, tenant: 'acme' }] })) } }))
  const started = await gateway('demo', '--traffic=false', '--set', 'batches.enabled=true', '--set', 'quota.enabled=true', '--set', 'prices.models=[{model: "*", input: 300, output: 900}]',
    '--set', (url) => `server.public-url=${url}`, '--config', file, '--set', `security.tokens=[${list.join(', ')}]`, '--set', `security.keys=[{id: team-a, tenant: acme, key-sha256: "${sum('sk-look')}"}]`)
  await fetch(`${started.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', authorization: 'Bearer sk-look' }, body: JSON.stringify({ model: 'demo-chat', messages: [{ role: 'user', content: 'hi' }] }) }).then((reply) => reply.arrayBuffer())
  return { ...started, tokens, stop: () => (started.stop(), accounts.stop(), rmSync(dir, { recursive: true, force: true })) }
}

/** A gateway that nobody has set up yet. */
export async function emptyGateway() {
  const dir = await mkdtemp(join(tmpdir(), 'patchbay-empty-'))
  const { url, stop } = await gateway('serve', '--config', '/dev/null', '--data-dir', dir)
  const end = () => {
    stop()
    rmSync(dir, { recursive: true, force: true })
  }
  return { url, stop: end }
}

/** Keys with budgets, tenants that have spent something, and a batch. */
export async function someData(url) {
  const send = (path, body, headers = {}) => fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) }).then((reply) => reply.json(), () => undefined)
  const chat = { model: 'demo-chat', messages: [{ role: 'user', content: 'hi' }] }
  for (const [id, tenant, cost] of [['team-a', 'acme', 20], ['team-b-with-a-long-name', 'initech', 0.0001], ['nightly', 'acme', 5]]) {
    const issued = await send('/api/auth/keys', { id, tenant, budgets: { month: { cost } } })
    const headers = { authorization: `Bearer ${issued?.data?.key}`, 'x-tenant-id': tenant }
    for (let i = 0; i < 4; i++) await send('/v1/chat/completions', { ...chat, user: i % 2 === 0 ? 'ann' : 'bob' }, headers)
  }
  await send('/v1/chat/completions', { ...chat, model: 'gpt-5o' })
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob(Array.from({ length: 200 }, (_, n) => `${JSON.stringify({ custom_id: `${n}`, method: 'POST', url: '/v1/chat/completions', body: chat })}\n`)), 'in.jsonl')
  const file = await fetch(`${url}/v1/files`, { method: 'POST', body: form }).then((reply) => reply.json(), () => undefined)
  await send('/v1/batches', { input_file_id: file?.id, endpoint: '/v1/chat/completions', completion_window: '24h' })
}

/** A few calls of every kind, so that the pages have something to show. */
export async function someCalls(url, rounds = 6) {
  const post = (path, body) => fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }).then((reply) => reply.arrayBuffer(), () => undefined)
  for (let i = 0; i < rounds; i++) {
    await Promise.all([
      ...['demo-chat', 'demo-claude', 'demo-gemini', 'demo-ollama', 'demo-flaky'].map((model) => post('/v1/chat/completions', { model, stream: i % 2 === 0, messages: [{ role: 'user', content: 'Tell me about patch bays' }] })),
      post('/v1/chat/completions', { model: 'demo-down', messages: [{ role: 'user', content: 'hi' }] }),
      post('/v1/embeddings', { model: 'demo-embedding', input: ['one', 'two'] }),
      post('/v1/rerank', { model: 'demo-rerank', query: 'cable', documents: ['a patch cable', 'a fish'] }),
    ])
  }
}
