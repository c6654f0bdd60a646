// An OpenID Connect provider that signs everybody in as the same person.

import {createHash, createSign, generateKeyPairSync} from 'node:crypto';
import {createServer} from 'node:http';

const encode = value => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

/** Starts a provider. Its person has the claims of the member person. back is the address of clockd to which it sends browsers. */
export async function startIssuer() {
  const {privateKey, publicKey} = generateKeyPairSync('rsa', {modulusLength: 2048});
  const codes = new Map(); // authorization requests by code
  const issuer = {person: {}, back: ''};
  const server = createServer(async (request, response) => {
    const asked = new URL(request.url, issuer.url);
    const json = (status, value) => response.writeHead(status, {'Content-Type': 'application/json'}).end(JSON.stringify(value));
    switch (asked.pathname) {
      case '/.well-known/openid-configuration':
        return json(200, {issuer: issuer.url, authorization_endpoint: `${issuer.url}/authorize`, token_endpoint: `${issuer.url}/token`, jwks_uri: `${issuer.url}/keys`, id_token_signing_alg_values_supported: ['RS256'], token_endpoint_auth_methods_supported: ['client_secret_post']});
      case '/keys':
        return json(200, {keys: [{...publicKey.export({format: 'jwk'}), kid: 'k', use: 'sig', alg: 'RS256'}]});
      case '/authorize': {
        const code = `code-${codes.size}`;
        codes.set(code, asked.searchParams);
        return response.writeHead(302, {Location: `${issuer.back}/v1/oidc/callback?${new URLSearchParams({code, state: asked.searchParams.get('state')})}`}).end();
      }
      case '/token': {
        let body = '';
        for await (const part of request) body += part;
        const form = new URLSearchParams(body), begun = codes.get(form.get('code'));
        if (!begun || createHash('sha256').update(form.get('code_verifier')).digest('base64url') !== begun.get('code_challenge')) return json(400, {error: 'invalid_grant'});
        const now = Math.floor(Date.now() / 1000);
        const signed = `${encode({alg: 'RS256', kid: 'k'})}.${encode({iss: issuer.url, aud: begun.get('client_id'), nonce: begun.get('nonce'), iat: now, exp: now + 600, ...issuer.person})}`;
        return json(200, {access_token: 'none', token_type: 'Bearer', id_token: `${signed}.${createSign('RSA-SHA256').update(signed).sign(privateKey, 'base64url')}`});
      }
      default:
        return json(404, {});
    }
  });
  await new Promise(done => server.listen(0, '127.0.0.1', done));
  issuer.url = `http://localhost:${server.address().port}`; // another site than that of clockd
  issuer.stop = () => server.close();
  return issuer;
}
