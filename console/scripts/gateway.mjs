// Starts a demo gateway on a free port, for the scripts that look at its pages.
import { spawn } from 'node:child_process'
import { createServer } from 'node:net'

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

/** The address of PATCHBAY_URL, or of a demo of PATCHBAY_BIN that ends with stop(). */
export async function demoGateway() {
  if (process.env.PATCHBAY_URL !== undefined) return { url: process.env.PATCHBAY_URL, stop: () => undefined }
  const url = `http://127.0.0.1:${await freePort()}`
  const child = spawn(process.env.PATCHBAY_BIN ?? '../bin/patchbay', ['demo', '--listen', new URL(url).host], { stdio: 'ignore' })
  process.once('exit', () => child.kill())
  await ready(url)
  return { url, stop: () => child.kill() }
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
