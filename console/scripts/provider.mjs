// A provider of OpenID Connect on loopback, for looks at what people see who sign in: its
// issuer /NAME signs everybody in at once, as a person of the group NAME.
import { createSign, generateKeyPairSync, randomUUID } from 'node:crypto'
import { createServer } from 'node:http'

const base64 = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

/** Starts it: the issuer of a group, and stop(). */
export async function provider() {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const nonces = new Map()
  let root = ''
  const token = (name, nonce) => {
    const now = Math.floor(Date.now() / 1000)
    const signed = `${base64({ alg: 'RS256', kid: 'k1' })}.${base64({ iss: `${root}/${name}`, aud: 'patchbay', iat: now, exp: now + 600, nonce, sub: `${name}-1`, name: 'Ann', groups: [name] })}`
    return `${signed}.${createSign('RSA-SHA256').update(signed).sign(privateKey, 'base64url')}`
  }
  const server = createServer(async (request, reply) => {
    const at = new URL(request.url, root)
    const [, name, path] = /^\/(\w+)\/(.*)$/.exec(at.pathname) ?? []
    const send = (value) => reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    const issuer = `${root}/${name}`
    if (path === '.well-known/openid-configuration') {
      send({ issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/keys`, response_types_supported: ['code'], subject_types_supported: ['public'], id_token_signing_alg_values_supported: ['RS256'] })
    } else if (path === 'keys') {
      send({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k1', alg: 'RS256', use: 'sig' }] })
    } else if (path === 'authorize') {
      const code = randomUUID()
      nonces.set(code, at.searchParams.get('nonce'))
      const back = new URL(at.searchParams.get('redirect_uri'))
      for (const [key, value] of [['code', code], ['state', at.searchParams.get('state')], ['iss', issuer]]) back.searchParams.set(key, value)
      reply.writeHead(302, { location: back.href }).end()
    } else if (path === 'token') {
      let text = ''
      for await (const part of request) text += part
      send({ access_token: 'a', token_type: 'Bearer', expires_in: 600, id_token: token(name, nonces.get(new URLSearchParams(text).get('code'))) })
    } else reply.writeHead(404).end()
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  root = `http://127.0.0.1:${server.address().port}`
  server.unref()
  return { issuer: (name) => `${root}/${name}`, stop: () => server.close() }
}
