package callertokens

import "github.com/patchbay-ai/patchbay/internal/plain/say"

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
	{"token.unknown_issuer", "A valid API key or token is required: no security.jwt has this issuer (claim 'iss' of " +
		"the token). It is compared exactly, a slash at the end included."},
	{"token.no_rule", "No rule of this gateway lets the bearer of this token in."},
	{"token.no_tenant", "The token names no tenant that can be used: it needs the claim '{claim}'."},
	{"field.issuer_name", "must consist of letters, digits, - and _"},
	{"field.jwks", "must be set, unless {other} is"},
	{"field.jwks_both", "must not be set beside {other}"},
}
