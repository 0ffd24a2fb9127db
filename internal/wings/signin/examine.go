package signin

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
)

// Lint reports values that are allowed and seldom meant.
func (s Settings) Lint(publicURL string, report func(path, message string)) {
	if len(s) == 0 {
		return
	}
	if host, isPlain := strings.CutPrefix(publicURL, "http://"); isPlain && !strings.HasPrefix(host, "localhost") &&
		!strings.HasPrefix(host, "127.") {
		report("server.public-url", "people sign in without encryption: whoever reads the traffic can take their "+
			"sessions; use https")
	}
	for i, p := range s {
		if isPlain := strings.HasPrefix(p.Issuer, "http:"); isPlain {
			report(fmt.Sprintf("security.oidc[%d].issuer", i), "the provider is asked without encryption: "+
				"whoever is on the way can sign in as anybody; use https")
		}
		for j, rule := range p.Rules {
			at := fmt.Sprintf("security.oidc[%d].rules[%d].claim", i, j)
			isEmail := rule.Claim == jwt.Email
			switch isChosen := isEmail || rule.Claim == "preferred_username"; {
			case isChosen && rule.Role.whole() == access.Admin:
				report(at, rule.Claim+" makes ADMIN: at some providers people choose it themselves; use a group or a "+
					"role")
			case isEmail && p.TrustEmail:
				report(at, "the provider "+p.Name+" decides by e-mail addresses that it may not have verified: at "+
					"some providers people choose them themselves; use a group or a role")
			}
		}
		if p.usesEmail() {
			report(fmt.Sprintf("security.oidc[%d].rules", i), "of "+p.Name+": "+jwt.UnverifiedEmail)
		}
	}
}

// Examine asks every provider and reports what is wrong with it.
func (s Settings) Examine(publicURL string, report func(level, area, message, fix string)) {
	for _, p := range s {
		area := "sign-in " + p.Name
		c := NewClient(p, publicURL, slog.New(slog.DiscardHandler))
		c.examine(context.Background(), func(level, message, fix string) { report(level, area, message, fix) })
		c.Close()
	}
}

func (c *Client) examine(ctx context.Context, report func(level, message, fix string)) {
	meta, keys, err := c.Discover(ctx)
	if err != nil {
		fix := "compare issuer with what the provider has"
		if say.From(err).Code == "issuer.away" {
			fix = "see whether the provider runs and this machine reaches it, and whether ca has the authority " +
				"of its certificate"
		}
		report("fail", "the settings of the provider ("+strings.TrimSuffix(c.Issuer, "/")+wellKnown+"): "+err.Error(),
			fix+"; people with a management token can log in all the same")
		return
	}
	reading, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	if err := keys.Read(reading); err != nil {
		report("fail", "the keys of the provider ("+meta.Keys+"): "+err.Error(),
			"nobody can sign in until they can be read")
		return
	}
	if len(meta.Challenges) > 0 && !slices.Contains(meta.Challenges, "S256") {
		report("warn", "the provider does not say that it supports PKCE with S256", "switch it on for the client")
	}
	if c.ClientSecret != "" && len(meta.AuthMethods) > 0 && !slices.Contains(meta.AuthMethods, "client_secret_basic") &&
		!slices.Contains(meta.AuthMethods, "client_secret_post") {
		report("fail", "the provider takes no client secret: it knows "+strings.Join(meta.AuthMethods, ", "),
			"make a client with a secret, or a public one without")
		return
	}
	ends := "it tells when people sign out there"
	if !meta.BackChannel {
		ends = "it does not tell when people sign out there: security.session.max-age bounds their sessions"
	}
	report("ok", fmt.Sprintf("%s; %s; register %s there", say.Counted(keys.Set().Size(), "key"), ends, c.callback), "")
}
