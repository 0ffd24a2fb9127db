// Package callertokens decides which callers of the unified API are let in by tokens that others
// issue (security.jwt), and with which terms.
package callertokens

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
)

// Settings are the issuers of tokens that callers may present in place of keys.
type Settings []Issuer

// Issuer is one issuer: how its tokens are verified, and the terms of their bearers.
type Issuer struct {
	Name     string    `json:"name"`
	Issuer   string    `json:"issuer"`
	Audience jwt.Texts `json:"audience"`
	// JWKSURL is the address of the issuer's keys, and JWKSFile a file with them.
	JWKSURL  string `json:"jwksUrl"`
	JWKSFile string `json:"jwksFile"`
	// CA is a file with the certificates that are trusted in place of the system's.
	CA string `json:"ca"`
	// MaxAge is the longest time from the issue of a token to its end.
	MaxAge schema.Duration `json:"maxAge"`
	Claims Claims          `json:"claims"`
	// TrustEmail makes e-mail addresses count in rules that the issuer does not state as verified.
	TrustEmail bool `json:"trustEmail"`
	// Rules decide who is let in; without any, the bearer of every good token is.
	Rules []Rule       `json:"rules"`
	Terms access.Terms `json:"terms"`
}

// Claims are the names of claims that say more about the bearer; empty means that none does.
type Claims struct {
	Tenant string `json:"tenant"`
	User   string `json:"user"`
	Models string `json:"models"`
}

// Rule gives the bearers of some tokens a tenant and terms.
type Rule struct {
	jwt.Match

	Tenant string       `json:"tenant"`
	Terms  access.Terms `json:"terms"`
}

// usesEmail reports whether rules or the tenant depend on the e-mail address, and it counts only if it
// is verified.
func (i *Issuer) usesEmail() bool {
	return !i.TrustEmail && (i.Claims.Tenant == jwt.Email ||
		slices.ContainsFunc(i.Rules, func(r Rule) bool { return r.Claim == jwt.Email }))
}

const (
	defaultMaxAge = 24 * time.Hour
	maxIssuers    = 100
	maxRules      = 1000
	maxName       = 40
)

// Count returns how many issuers there are.
func (s Settings) Count() int { return len(s) }

// SetDefaults makes i the settings of an issuer that says nothing.
func (i *Issuer) SetDefaults() { *i = Issuer{MaxAge: schema.Duration(defaultMaxAge)} }

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if len(s) > maxIssuers {
		report("", say.New("field.entries", "most", maxIssuers))
	}
	for i := range s {
		at := fmt.Sprintf("[%d].", i)
		s[i].check(say.Under(at, report))
		for n := range s[:i] {
			if s[n].Name == s[i].Name && s[i].Name != "" {
				report(at+"name", say.New("field.same_as", "other", fmt.Sprintf("[%d]", n)))
			}
			if s[n].Issuer == s[i].Issuer && s[i].Issuer != "" {
				report(at+"issuer", say.New("field.same_as", "other", fmt.Sprintf("[%d]", n)))
			}
		}
	}
}

func (i *Issuer) check(report say.Report) {
	isForeign := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	}
	if i.Name == "" || len(i.Name) > maxName || strings.ContainsFunc(i.Name, isForeign) {
		report("name", say.New("field.issuer_name"))
	}
	if i.Issuer == "" {
		report("issuer", say.New("field.required"))
	}
	if len(i.Audience) == 0 || slices.Contains(i.Audience, "") {
		report("audience", say.New("field.required"))
	}
	switch {
	case i.JWKSURL == "" && i.JWKSFile == "":
		report("jwksUrl", say.New("field.jwks", "other", "jwks-file"))
	case i.JWKSURL != "" && i.JWKSFile != "":
		report("jwksFile", say.New("field.jwks_both", "other", "jwks-url"))
	case i.JWKSURL != "":
		if fault := outgoing.AddressFault(i.JWKSURL); fault.Is() {
			report("jwksUrl", fault)
		}
	}
	if i.MaxAge <= 0 {
		report("maxAge", say.New("field.longer"))
	}
	if len(i.Rules) > maxRules {
		report("rules", say.New("field.entries", "most", maxRules))
	}
	for n := range i.Rules {
		at := fmt.Sprintf("rules[%d].", n)
		i.Rules[n].Match.Check(say.Under(at, report))
		access.CheckTenant(at+"tenant", i.Rules[n].Tenant, report)
		i.Rules[n].Terms.CheckAt(at+"terms.", report)
	}
	i.Terms.CheckAt("terms.", report)
}

// Lint reports settings that are allowed and seldom meant. forwards are the instances that get the
// caller's own credential.
func (s Settings) Lint(forwards []string, report func(path, message string)) {
	for i := range s {
		address, err := url.Parse(s[i].JWKSURL)
		if err == nil && address.Scheme == "http" && !isHere(address.Hostname()) {
			report(fmt.Sprintf("security.jwt[%d].jwks-url", i),
				"is not encrypted: whoever is on the way can put in keys of their own; use https")
		}
		if s[i].usesEmail() {
			report(fmt.Sprintf("security.jwt[%d].rules", i), "of "+s[i].Name+": "+jwt.UnverifiedEmail)
		}
	}
	if len(s) > 0 && len(forwards) > 0 {
		report(forwards[0]+".forward-authorization",
			"tokens of security.jwt are not passed on: their bearers reach this instance with its own api-key, or "+
				"with none")
	}
}

// Examine reports the findings of doctor: whether the keys of each issuer can be read from here.
func (s Settings) Examine(report func(level, area, message, fix string)) {
	for i := range s {
		keys := s[i].newKeys(nil, nil)
		area := "tokens of " + s[i].Name
		if err := keys.Read(context.Background()); err != nil {
			report("fail", area, "the keys ("+cmp.Or(s[i].JWKSURL, s[i].JWKSFile)+"): "+err.Error(),
				"compare the address with what the issuer says (jwks_uri in its discovery document), and set ca where "+
					"its certificate is of a private authority; API keys work all the same")
		} else {
			report("ok", area, say.Counted(keys.Set().Size(), "key"), "")
		}
		keys.Close()
	}
}

func isHere(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback()
	}
	return host == "localhost"
}
