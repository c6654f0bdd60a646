// Package oidc signs people in to the console with an OpenID Connect provider: the authorization code flow with PKCE
// (RFC 7636). The groups of a person decide the role and the applications of the session. The library go-oidc checks
// the tokens of the provider.
//
//	config.go    the provider, and its check
//	grant.go     which groups get which role
//	attempt.go   a sign-in under way, which the browser keeps in a cookie
//	provider.go  the flow
//
// # Invariants
//
//  1. A response of the provider counts only in the browser that began the sign-in: state, nonce and PKCE verifier are
//     in its cookie. So any node can finish a sign-in, and no node keeps anything about it.
//  2. A role needs a group in the configuration. The first grant with a group of the person applies.
//  3. The time that decides about the provider's token is the database's.
//  4. Only a sign-in asks the provider, at most for requestTimeout. Few sign-ins wait for it at once. clockd starts and
//     serves without it.
//  5. Tokens of the provider are neither stored nor logged.
//
// # Failures, effects and remedies
//
//	provider away             no new sign-in; sessions and tokens work               the person tries again
//	response without its      401: an old tab, a second response, a page of          the person signs in again
//	sign-in                   an attacker
//	no group with a role      403, and the audit has it                              an admin of the provider
//	person loses a group      holds at the next sign-in                              an admin ends the session
package oidc
