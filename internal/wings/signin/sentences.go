package signin

import (
	_ "embed"

	"github.com/patchbay-ai/patchbay/console"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

//go:embed sentences.zh.ts
var chinese string

// Chinese returns the sentence of a code in Chinese, with the names of its values between braces.
func Chinese(code string) string { return console.Chinese(code, chinese) }

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
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
}
