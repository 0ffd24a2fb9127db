// A gateway in front of many instances, for the scripts that measure its pages:
// backends on loopback, two of which nobody answers for, and calls to all of them.
import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, ready } from './gateway.mjs'

/** How many calls may wait for their answers. */
const mostRunning = 200

/** The names of the models, long ones as they are in use. */
const modelNames = (count) => Array.from({ length: count }, (_, i) => `${['llama-3.3', 'qwen-3', 'mistral-small', 'deepseek-r1-distill', 'gemma-3'][i % 5]}-${8 + i}b-instruct-awq`)

function answer(request, response) {
  let text = ''
  request.on('data', (part) => (text += part))
  request.on('end', () => {
    const model = text === '' ? '' : JSON.parse(text).model
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({
      id: 'x', object: 'chat.completion', created: 1, model, choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }], usage: { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 },
    }))
  })
}

/** A gateway with so many instances; send() begins calls at a rate, until the function that it returns is called. */
export async function fleet(instances) {
  const dir = await mkdtemp(join(tmpdir(), 'patchbay-fleet-'))
  const models = modelNames(Math.max(10, Math.ceil(instances / 20)))
  const hosts = Math.max(6, Math.ceil(instances / 15))
  const servers = await Promise.all(Array.from({ length: hosts - 2 }, () => new Promise((resolve) => {
    const server = createServer(answer).listen(0, '127.0.0.1', () => resolve(server))
  })))
  const addresses = [...servers.map((server) => server.address().port), await freePort(), await freePort()]
  const list = Array.from({ length: instances }, (_, i) => ({ name: models[Math.floor(i / hosts) % models.length], 'base-url': `http://127.0.0.1:${addresses[i % hosts]}`, weight: 1 + (i % 3) }))
  const file = join(dir, 'patchbay.yaml')
  await writeFile(file, JSON.stringify({ services: { chat: { instances: list } } }))
  const url = `http://127.0.0.1:${await freePort()}`
  const child = spawn(process.env.PATCHBAY_BIN ?? '../bin/patchbay', ['serve', file, '--listen', new URL(url).host, '--data-dir', join(dir, 'data')], { stdio: 'ignore' })
  process.once('exit', () => child.kill('SIGKILL'))
  await ready(url)

  const call = (i) => fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model: i % 50 === 49 ? 'no-such-model' : models[i % models.length], messages: [{ role: 'user', content: 'hi' }] }) }).then((reply) => reply.arrayBuffer(), () => undefined)
  const send = (rate) => {
    let sent = 0
    let running = 0
    const began = performance.now()
    const timer = setInterval(() => {
      // A machine that cannot keep up gets fewer calls: the ones that wait would take its time from the page.
      for (const due = ((performance.now() - began) / 1000) * rate; sent < due && running < mostRunning; sent++) {
        running++
        void call(sent).finally(() => running--)
      }
    }, 20)
    const stop = () => {
      clearInterval(timer)
      return sent
    }
    return Object.assign(stop, { sent: () => sent })
  }
  const stop = async () => {
    child.kill('SIGKILL')
    for (const server of servers) {
      server.closeAllConnections()
      server.close()
    }
    await rm(dir, { recursive: true, force: true })
  }
  return { url, models, send, stop }
}
