package say

// tokens are the sentences about signed tokens, and about those who issue them.
var tokens = []entry{
	// Why a token is refused, as its bearer reads it.
	{"token.form", "The token is not a JSON Web Token that can be read: three parts with dots between them, " +
		"signed, at most 16 KB."},
	{"token.algorithm", "The token has an algorithm that is not accepted; RS256 to RS512, PS256 to PS512, ES256 to " +
		"ES512 and EdDSA are."},
	{"token.signature", "The signature of the token is wrong."},
	{"token.key", "The token was signed with a key that its issuer does not publish."},
	{"token.no_keys", "The keys of the token's issuer could not be read yet; try again shortly."},
	{"token.issuer", "The token comes from another issuer."},
	{"token.audience", "The token is meant for another audience; ask the issuer for one with the claim 'aud' that " +
		"this gateway expects."},
	{"token.expired", "The token has expired; get a new one."},
	{"token.future", "The token is not valid yet: its claim 'iat' or 'nbf' lies in the future. Compare the clocks."},
	{"token.age", "The token is valid for too long: from 'iat' to 'exp' it may be {most} at most."},
	{"token.lacks", "The token has no usable claim '{claim}', which is required."},
	// Why the documents of an issuer cannot be used, for operators.
	{"issuer.away", "it cannot be read: {why}"},
	{"issuer.status", "it was answered with status {status}"},
	{"issuer.large", "it is larger than {most}"},
	{"issuer.file", "the file cannot be read: {why}"},
	{"issuer.ca", "the file of authorities (ca) cannot be read: {why}"},
	{"issuer.ca_empty", "the file of authorities (ca) holds no certificate (PEM)"},
	{"issuer.no_set", "it is not a set of keys (JWKS)"},
	{"issuer.no_keys", "the set of keys (JWKS) has no public key for signatures of a kind that is accepted: RSA of " +
		"at least 2048 bits, EC or Ed25519"},
	{"issuer.many_keys", "the set of keys (JWKS) has more than {most} keys"},
	{"field.url_name", "must not contain a user name or password"},
}
