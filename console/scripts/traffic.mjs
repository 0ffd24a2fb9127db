// Sends gentle traffic of all kinds to a gateway that runs `patchbay demo`, so
// that pages under development and their screenshots show moving numbers.
//
//   node scripts/traffic.mjs [address] [requests a second] [seconds]
const [base = 'http://127.0.0.1:8080', rate = '5', seconds = '600'] = process.argv.slice(2)

const words = ['patch', 'bay', 'jack', 'cable', 'signal', 'breaker', 'plug', 'line']
const text = () => Array.from({ length: 5 }, () => words[Math.floor(Math.random() * words.length)]).join(' ')
const chat = (model, stream = true) => () => ['/v1/chat/completions', { model, stream, messages: [{ role: 'user', content: text() }] }]

const kinds = [
  [30, chat('demo-chat')], [8, chat('demo-ollama')], [6, chat('demo-claude')], [5, chat('demo-gemini')], [7, chat('demo-flaky', false)],
  [2, chat('demo-slow')], [2, chat('demo-cut')], [4, chat('demo-down')],
  [22, () => ['/v1/embeddings', { model: 'demo-embedding', input: text() }]],
  [6, () => ['/v1/rerank', { model: 'demo-rerank', query: text(), documents: [text(), text(), text()] }]],
  [3, () => ['/v1/audio/speech', { model: 'demo-tts', input: text(), voice: 'alloy' }]],
  [2, () => ['/v1/images/generations', { model: 'demo-image', prompt: text() }]],
]
const total = kinds.reduce((sum, [share]) => sum + share, 0)

function pick() {
  let left = Math.random() * total
  for (const [share, make] of kinds) {
    left -= share
    if (left <= 0) return make()
  }
  return kinds[0][1]()
}

async function send() {
  const [path, body] = pick()
  try {
    const reply = await fetch(base + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
    await reply.arrayBuffer()
  } catch {
    // Broken streams and a gateway that restarts are part of the demonstration.
  }
}

const end = performance.now() + Number(seconds) * 1000
function next() {
  if (performance.now() > end) return
  void send()
  setTimeout(next, (-Math.log(1 - Math.random()) / Number(rate)) * 1000)
}
next()
