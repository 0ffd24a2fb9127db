// Package signin knows the providers where people sign in (OpenID Connect), asks them who a person
// is, and decides by rules what the person may do.
package signin

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
)

// Settings are the providers, in the order of their buttons.
type Settings []Provider

// Provider is a place where people sign in, and what they may do then.
type Provider struct {
	// Name is the name of the provider in addresses and on its button.
	Name string `json:"name"`
	// Issuer is its address, as its tokens have it.
	Issuer string `json:"issuer"`
	// ClientID and ClientSecret are the gateway's account at the provider.
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret"`
	// CA is a file with the certificates that are trusted in place of the system's.
	CA string `json:"ca" doc:"A file (PEM) of certificates that are trusted in place of the system's."`
	// Scopes are asked for beside openid.
	Scopes []string `json:"scopes"`
	// TrustEmail makes e-mail addresses count in rules that the provider does not state as verified.
	TrustEmail bool   `json:"trustEmail"`
	Rules      []Rule `json:"rules"`
}

// Rule gives people with a claim a role.
type Rule struct {
	jwt.Match

	Role Role `json:"role"`
	// Tenant is the tenant of a role in one.
	Tenant string `json:"tenant" doc:"The tenant in which TEAM_ADMIN or MEMBER holds."`
	// Terms bound the keys that such a person may make.
	Terms access.Terms `json:"terms"`
}

// Role is a role of the whole gateway, or of one tenant.
type Role string

// Names returns the name of every role.
func (Role) Names() []string {
	return append(access.Role(0).Names(), access.TeamRole(0).Names()...)
}

// UnmarshalText reads the name of a role in any case.
func (r *Role) UnmarshalText(text []byte) error {
	upper := Role(strings.ToUpper(string(text)))
	if !slices.Contains(upper.Names(), string(upper)) {
		return say.Error("field.unknown_name", "noun", "role", "name", text, "known", strings.Join(r.Names(), ", "))
	}
	*r = upper
	return nil
}

// whole returns the role of the whole gateway, zero for one in a tenant.
func (r Role) whole() (role access.Role) {
	_ = role.UnmarshalText([]byte(r)) // another role leaves it as it is
	return role
}

// team returns the role in a tenant; one that is not written is MEMBER.
func (r Role) team() access.TeamRole {
	role := access.Member
	_ = role.UnmarshalText([]byte(r))
	return role
}

const (
	maxProviders = 20
	maxRules     = 500
	maxScopes    = 20
	maxName      = 63
)

// SetDefaults makes p a provider with the usual scopes.
func (p *Provider) SetDefaults() { *p = Provider{Scopes: []string{"profile", "email"}} }

// Docs describes the members that a tag has no room for.
func (Provider) Docs() map[string]string {
	return map[string]string{
		"issuer": "The address of the provider, exactly as its tokens have it; its settings are read below it " +
			"(/.well-known/openid-configuration).",
		"clientSecret": "The secret of the client, such as ${OIDC_SECRET}; empty for a public client.",
		"scopes":       "What is asked for beside openid.",
		"trustEmail": "Whether e-mail addresses count in rules even if the provider does not state that it has " +
			"verified them.",
		"rules": "What people may do. The first rule that matches with VIEWER, OPERATOR or ADMIN decides the role in " +
			"the whole gateway; all that match with a tenant give a role there. Nobody else gets in.",
	}
}

// Check reports every setting that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if len(s) > maxProviders {
		report("", say.New("field.entries", "most", maxProviders))
	}
	for i, p := range s {
		at := fmt.Sprintf("[%d].", i)
		p.check(say.Under(at, report))
		for j, other := range s[:i] {
			if other.Name == p.Name && p.Name != "" {
				report(at+"name", say.New("field.same_as", "other", fmt.Sprintf("oidc[%d].name", j)))
			}
		}
	}
}

func (p Provider) check(report say.Report) {
	isForeign := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' && r != '-' && r != '.'
	}
	switch {
	case p.Name == "":
		report("name", say.New("field.required"))
	case len(p.Name) > maxName || strings.ContainsFunc(p.Name, isForeign):
		report("name", say.New("field.plain_name"))
	}
	checkIssuer(p.Issuer, report)
	if p.ClientID == "" {
		report("clientId", say.New("field.required"))
	}
	if len(p.Scopes) > maxScopes {
		report("scopes", say.New("field.entries", "most", maxScopes))
	}
	for i, scope := range p.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
			report(fmt.Sprintf("scopes[%d]", i), say.New("field.scope"))
		}
	}
	if len(p.Rules) == 0 {
		report("rules", say.New("field.rules"))
	}
	if len(p.Rules) > maxRules {
		report("rules", say.New("field.entries", "most", maxRules))
	}
	for i, rule := range p.Rules {
		at := fmt.Sprintf("rules[%d].", i)
		rule.check(say.Under(at, report))
	}
}

func checkIssuer(issuer string, report say.Report) {
	if issuer == "" {
		report("issuer", say.New("field.required"))
		return
	}
	if fault := outgoing.AddressFault(issuer); fault.Is() {
		report("issuer", fault)
		return
	}
	if parsed, err := url.Parse(issuer); err != nil || parsed.RawQuery != "" || strings.HasSuffix(issuer, "?") {
		report("issuer", say.New("field.url_query"))
	}
}

func (r Rule) check(report say.Report) {
	r.Match.Check(report)
	switch whole := r.Role.whole(); {
	case r.Role == "" && r.Tenant == "":
		report("role", say.New("field.rule_role"))
	case whole.Valid() && r.Tenant != "":
		report("tenant", say.New("field.rule_whole", "role", r.Role))
	case r.Role != "" && !whole.Valid() && r.Tenant == "":
		report("tenant", say.New("field.rule_tenant", "role", r.Role))
	}
	if len(r.Tenant) > 128 || strings.ContainsFunc(r.Tenant, unicode.IsControl) {
		report("tenant", say.New("field.control_text"))
	}
	r.Terms.CheckAt("terms.", report)
}

// CheckTogether reports what the providers need of other settings.
func (s Settings) CheckTogether(isSecured bool, publicURL string, report say.Report) {
	if len(s) == 0 {
		return
	}
	if !isSecured {
		report("security.oidc", say.New("field.oidc_security"))
	}
	if publicURL == "" {
		report("server.publicUrl", say.New("field.oidc_url"))
	}
}

// Rights returns what the rules give a person with claims: the role and the memberships.
func (p *Provider) Rights(claims jwt.Claims) (who access.Identity) {
	claims = claims.Verified(p.TrustEmail)
	for i := range p.Rules {
		rule := &p.Rules[i]
		if !rule.Holds(claims) {
			continue
		}
		name := fmt.Sprintf("security.oidc %s rules[%d]", p.Name, i)
		if rule.Tenant == "" {
			if !who.Role.Valid() {
				who.Role, who.Rule = rule.Role.whole(), name
			}
			continue
		}
		member := access.Membership{Tenant: rule.Tenant, Role: rule.Role.team(), Terms: rule.Terms, Rule: name}
		at := slices.IndexFunc(who.Memberships, func(m access.Membership) bool { return m.Tenant == rule.Tenant })
		if at < 0 {
			who.Memberships = append(who.Memberships, member)
		} else if known := &who.Memberships[at]; member.Role > known.Role {
			known.Role, known.Rule = member.Role, name // the terms stay those of the first
		}
	}
	return who
}

// Kept returns the part of a person's claims that the rules ask for. Claims of the id token come
// before those of other sources.
func (p *Provider) Kept(sources ...jwt.Claims) map[string][]string {
	kept := map[string][]string{}
	for i := range p.Rules {
		name := p.Rules[i].Claim
		for _, claims := range sources {
			claims = claims.Verified(p.TrustEmail)
			if _, found := claims.At(name); !found {
				continue
			}
			if name == jwt.Email && claims.Verified(false)[name] != nil {
				kept[jwt.EmailVerified] = []string{"true"}
			}
			for _, text := range claims.Texts(name) {
				if slices.Contains(p.Rules[i].Value, text) && !slices.Contains(kept[name], text) {
					kept[name] = append(kept[name], text)
				}
			}
			break
		}
	}
	return kept
}

// usesEmail reports whether rules ask for the e-mail address, and it counts only if it is verified.
func (p *Provider) usesEmail() bool {
	return !p.TrustEmail && slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Claim == jwt.Email })
}

// lacks reports whether rules ask for a claim that is not there.
func (p *Provider) lacks(claims jwt.Claims) bool {
	return slices.ContainsFunc(p.Rules, func(r Rule) bool {
		_, found := claims.At(r.Claim)
		return !found
	})
}

// Restored returns claims that were kept.
func Restored(kept map[string][]string) jwt.Claims {
	claims := jwt.Claims{}
	for name, texts := range kept {
		if len(texts) == 1 {
			claims[name] = texts[0]
			continue
		}
		list := make([]any, len(texts))
		for i, text := range texts {
			list[i] = text
		}
		claims[name] = list
	}
	return claims
}
