// Package access says who may do what: the text of an access token, its role, its applications, its stored record, and
// the caller of a request. A Watch keeps all tokens in memory. The interfaces (clockhttp, clockgrpc) ask it for the
// caller of each request.
//
//	text.go          the text of a token, and the hash of its secret
//	token.go         the record of a token: its validity, rotation and end
//	role.go          needs and roles
//	applications.go  the applications of a token
//	caller.go        the caller of a request, and what it may do
//	mode.go          when a request needs a token
//	session.go       sessions of people in a browser
//	watch.go         all tokens in memory, current within 2 s
//	limit.go         operations of a token, and failed authentications of an address
//	trail.go         refusals and logins, for the audit
//
// # Invariants
//
//  1. The text of a token is shown once, when it is made. A record has the SHA-256 of the secret alone. The secret has
//     256 random bits, so its hash needs no stretching.
//  2. A secret is compared with the record in constant time.
//  3. Everything that is not allowed is refused: a zero Role allows nothing, a record without applications covers no
//     application, and a record that cannot be read is an error.
//  4. No instant comes from this process's clock: the time is the database's. While it is not known, it goes on from
//     the last known time.
//  5. A change of a token in the database holds within 2 s, for new requests, for lines of streams that go on
//     (Watch.Check), and for streams of rings (Watch.Keep).
//  6. A session is open only in a cookie, and a token only in the header. A session ends with the secret of the token
//     that started it, its parent, and shares its operations. A provider may have proven a person instead.
//  7. An unknown token may be new, so its request waits for a poll, at most renewalWait. Such requests share polls.
//  8. The requests of a service that needs no token are those of Anyone. They end when a token is needed.
//  9. An address with too many failed authentications may still send valid tokens. The memory for addresses is bounded.
//  10. Refusals and logins are acts of the audit, written within some seconds. Their number is bounded: a flood of
//     refused requests neither fills the database nor delays a request.
//
// # Failures, effects and remedies
//
//	database away                   the known tokens work; a revocation does not hold yet    it is read when the database is back
//	token cannot be read            it opens nothing; the others work                        clockd token list says why
//	many sign-ins at once           two at a time use the database                           the person tries again
//	last uses cannot be written     they are written with the next                           no action needed
//	refusals cannot be written      the first of them are written later, others are counted  no action needed
package access
