// A real provider of OpenID Connect (oidc-provider) for the tests of sign-in.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import Provider from 'oidc-provider';

export const secret = 'secret-of-the-client-of-the-tests';
export const groups = { ada: ['ops', 'staff'], eve: ['visitors'] };

// newKey is a key with which a provider signs.
export const newKey = (kid = randomUUID()) => ({
  ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256',
});

// newProvider is a provider for the gateway at an address, with a key of its own and further settings.
export function newProvider(issuer, base, { key = newKey(), client = {}, complain = () => {}, ...more } = {}) {
  const made = new Provider(issuer, {
    clients: [
      {
        client_id: 'patchbay',
        client_secret: secret,
        redirect_uris: [`${base}/auth/callback`],
        post_logout_redirect_uris: [`${base}/`],
        backchannel_logout_uri: `${base}/auth/backchannel-logout`,
        backchannel_logout_session_required: true,
        ...client,
      },
    ],
    jwks: { keys: [key] },
    cookies: { keys: ['a key of the tests'] },
    claims: { openid: ['sub'], profile: ['name'], email: ['email'], groups: ['groups'] },
    features: { backchannelLogout: { enabled: true }, devInteractions: { enabled: true } },
    // Without its own dispatcher, which refuses addresses of this machine.
    fetch: (address, { dispatcher, ...options }) => fetch(address, options),
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, name: `${id} of the tests`, groups: groups[id] }) }),
    ...more,
  });
  made.on('backchannel.error', (_, error) => complain(String(error)));
  return made;
}

// settings are those of a gateway that trusts a provider.
export const settings = (base, issuer, dir, hash) => `server: {listen: '${new URL(base).host}', data-dir: '${dir}/data', public-url: '${base}'}
security:
  enabled: true
  tokens: [{name: a, role: ADMIN, token-sha256: ${hash}}]
  oidc:
    - {name: corp, issuer: '${issuer}', client-id: patchbay, client-secret: ${secret}, scopes: [profile, groups],
       rules: [{claim: groups, value: ops, role: OPERATOR}, {claim: groups, value: staff, role: MEMBER, tenant: red}]}
`;
