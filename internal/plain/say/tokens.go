package say

// tokens are the sentences about signed tokens, and about those who issue them.
var tokens = []Entry{
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
	{"token.unusable", "The claim '{claim}' of the token cannot be read."},
	{"token.no_id", "The gateway cannot tell the bearer of this token apart from others yet, because its store is " +
		"away; try again shortly."},
	{"token.many", "The gateway counts the use of too many bearers of tokens to let another one in; try again later."},
	{"field.key_id", "must not begin with jwt:, because the subjects of tokens have such ids"},
	// Why the documents of an issuer cannot be used, for operators.
	{"issuer.away", "it cannot be read: {why}"},
	{"issuer.status", "it was answered with status {status}"},
	{"issuer.large", "it is larger than {most}"},
	{"issuer.file", "the file cannot be read: {why}"},
	{"issuer.ca", "the file of authorities (ca) cannot be read: {why}"},
	{"issuer.ca_empty", "it holds no certificate in PEM"},
	{"issuer.no_set", "it is not a set of keys (JWKS)"},
	{"issuer.no_keys", "the set of keys (JWKS) has no public key for signatures of a kind that is accepted: RSA of " +
		"at least 2048 bits, EC or Ed25519"},
	{"issuer.many_keys", "the set of keys (JWKS) has more than {most} keys"},
	// Sign-in with an account of a provider.
	{"field.public_url", "must be an address without a path, such as https://ai.example.com"},
	{"field.url_name", "must not contain a user name or password"},
}
