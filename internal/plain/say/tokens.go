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
	{"token.unknown_issuer", "A valid API key or token is required: no security.jwt has this issuer (claim 'iss' of " +
		"the token). It is compared exactly, a slash at the end included."},
	{"token.audience", "The token is meant for another audience; ask the issuer for one with the claim 'aud' that " +
		"this gateway expects."},
	{"token.expired", "The token has expired; get a new one."},
	{"token.future", "The token is not valid yet: its claim 'iat' or 'nbf' lies in the future. Compare the clocks."},
	{"token.age", "The token is valid for too long: from 'iat' to 'exp' it may be {most} at most."},
	{"token.lacks", "The token has no usable claim '{claim}', which is required."},
	{"token.unusable", "The claim '{claim}' of the token cannot be read."},
	{"token.no_rule", "No rule of this gateway lets the bearer of this token in."},
	{"token.no_tenant", "The token names no tenant that can be used: it needs the claim '{claim}'."},
	{"token.no_id", "The gateway cannot tell the bearer of this token apart from others yet, because its store is " +
		"away; try again shortly."},
	{"token.many", "The gateway counts the use of too many bearers of tokens to let another one in; try again later."},
	{"field.key_id", "must not begin with jwt:, because the subjects of tokens have such ids"},
	{"field.issuer_name", "must consist of letters, digits, - and _"},
	{"field.jwks", "must be set, unless {other} is"},
	{"field.jwks_both", "must not be set beside {other}"},
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
	{"signin.to", "The address asks for a page that is not one of this gateway."},
	{"signin.provider", "There is no such provider; choose one on the sign-in page."},
	{"signin.state", "This sign-in was not begun in this browser, or was used already; begin again."},
	{"signin.code", "The provider does not take this sign-in: it was used already, or took too long; begin again."},
	{"signin.slow", "The sign-in took too long; begin again."},
	{"signin.nonce", "The provider answered another sign-in; begin again."},
	{"signin.no_rule", "You are known as {name} at {provider}, and no rule of this gateway gives you access; ask its " +
		"administrator for a rule or a group."},
	{"signin.failed", "The sign-in at {provider} failed: {why} Try again shortly; who has a management token can log " +
		"in with it."},
	{"signin.away", "The provider cannot be used now."},
	{"signin.not_kept", "The session cannot be kept now; try again shortly."},
	{"signin.refused", "The provider refuses: {error}."},
	{"signin.answer", "The provider's answer cannot be read."},
	{"signin.no_id_token", "The provider's answer has no id token; the scope openid must be allowed for the client."},
	{"signin.userinfo_other", "The provider's answers are about different people."},
	{"signin.no_logout", "The token is not one of a logout."},
	{"signin.metadata", "it is not the settings of a provider (OpenID Connect discovery)"},
	{"signin.issuer", "the provider calls itself {found}, and not {issuer}; write issuer just as the provider does"},
	{"signin.endpoint", "its {name} cannot be used: {fault}"},
	{"field.scope", "must be a word without spaces and quotes"},
	{"field.rules", "is required: without a rule nobody can sign in"},
	{"field.rule_role", "is required: VIEWER, OPERATOR or ADMIN, or TEAM_ADMIN or MEMBER with a tenant"},
	{"field.rule_whole", "does not go with {role}, which is a role of the whole gateway"},
	{"field.rule_tenant", "is required for {role}, which is a role in a tenant"},
	{"field.oidc_security", "needs security.enabled: true"},
	{"field.oidc_url", "is required for security.oidc: the address of this gateway in a browser, such as " +
		"https://ai.example.com"},
	{"field.public_url", "must be an address without a path, such as https://ai.example.com"},
	{"field.url_name", "must not contain a user name or password"},
}
