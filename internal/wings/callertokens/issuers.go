package callertokens

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

// patience is how long the first requests with tokens of a new key wait until it is read. Keys are
// read for that at most once a minute, whatever clients send.
const patience = 3 * time.Second

// Issuers verify tokens and decide the terms of their bearers.
type Issuers struct {
	list    []*issuer
	log     *slog.Logger
	unknown unknown
}

type issuer struct {
	Issuer

	keys    *jwt.Keys
	warning jwt.EmailWarning
}

var _ access.Issuers = (*Issuers)(nil)

// New returns the issuers of settings. changed is called when the keys of one of them have changed.
func New(settings Settings, log *slog.Logger, changed func()) *Issuers {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	all := &Issuers{log: log}
	for _, one := range settings {
		all.list = append(all.list, &issuer{Issuer: one, keys: one.newKeys(log, changed)})
	}
	return all
}

func (i *Issuer) newKeys(log *slog.Logger, changed func()) *jwt.Keys {
	return jwt.NewKeys(jwt.Source{
		Name: i.Name, URL: i.JWKSURL, File: i.JWKSFile, CA: i.CA, Log: log, Changed: changed,
	})
}

// Run keeps the keys fresh until ctx ends.
func (all *Issuers) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, one := range all.list {
		running.Go(func() { logs.Persist(ctx, all.log, "reading the keys of an issuer of tokens", one.keys.Run) })
	}
}

// Close ends the reads that tokens have begun.
func (all *Issuers) Close() {
	for _, one := range all.list {
		one.keys.Close()
	}
}

// Failures returns why the keys of issuers cannot be read, by their names; nil for those that can.
func (all *Issuers) Failures() map[string]*condition.Failure {
	failures := make(map[string]*condition.Failure, len(all.list))
	for _, one := range all.list {
		failures[one.Name] = one.keys.Failure()
	}
	return failures
}

// Has reports whether an issuer of this name is in the settings.
func (all *Issuers) Has(name string) bool { return all.named(name) != nil }

func (all *Issuers) named(name string) *issuer {
	at := slices.IndexFunc(all.list, func(one *issuer) bool { return one.Name == name })
	if at < 0 {
		return nil
	}
	return all.list[at]
}

// Identify returns the bearer of a token, or why it is refused. isToken is false if the text is not
// a token that names its issuer.
func (all *Issuers) Identify(text string, now time.Time) (who *access.Visitor, refusal *schema.Error, isToken bool) {
	name, isToken := jwt.IssuerOf(text)
	if !isToken {
		return nil, nil, false
	}
	at := slices.IndexFunc(all.list, func(one *issuer) bool { return one.Issuer.Issuer == name })
	if at < 0 {
		all.unknown.note(all.log, name, now)
		return nil, schema.CodedError(schema.CodeInvalidAPIKey, "token.unknown_issuer"), true
	}
	one := all.list[at]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	claims, err := one.keys.Verify(ctx, text, jwt.Expected{
		Issuer: one.Issuer.Issuer, Audience: one.Audience, MaxAge: one.MaxAge.Std(),
	}, now)
	switch {
	case errors.Is(err, jwt.ErrNoKeys):
		noKeys := schema.NewError(schema.CodeServiceUnavailable, say.From(err))
		noKeys.RetryAfter = time.Second
		return nil, noKeys, true
	case err != nil:
		return nil, schema.NewError(schema.CodeInvalidToken, say.From(err)), true
	}
	if one.usesEmail() {
		one.warning.Check(all.log, "security.jwt", one.Name, claims)
	}
	who, refusal = one.visitor(claims)
	if refusal == nil {
		who.Until, who.Grace = claims.Expires(), jwt.Skew
	}
	return who, refusal, true
}

// Again returns the visitor with claims of an earlier token by the rules in force, nil if they let
// the visitor in no longer.
func (all *Issuers) Again(name, claims string) *access.Visitor {
	one := all.named(name)
	if one == nil {
		return nil
	}
	read, err := jwt.ReadClaims([]byte(claims))
	if err != nil || read.Issuer() != one.Issuer.Issuer {
		return nil
	}
	who, refusal := one.visitor(read)
	if refusal != nil {
		return nil
	}
	return who
}

// visitor returns the bearer of a token with claims: the tenant and the terms of the first rule that
// holds, completed with those of the claims and of the issuer.
func (i *issuer) visitor(claims jwt.Claims) (*access.Visitor, *schema.Error) {
	who := &access.Visitor{Issuer: i.Name, Subject: claims.Subject(), Terms: i.Terms, Rule: "security.jwt " + i.Name}
	trusted := claims.Verified(i.TrustEmail)
	at := slices.IndexFunc(i.Rules, func(r Rule) bool { return r.Holds(trusted) })
	switch {
	case at >= 0:
		who.Tenant, who.Terms = i.Rules[at].Tenant, i.Rules[at].Terms.Or(i.Terms)
		who.Rule += fmt.Sprintf(" rules[%d]", at)
	case len(i.Rules) > 0:
		return nil, schema.CodedError(schema.CodePermissionDenied, "token.no_rule")
	}
	if who.Tenant == "" && i.Claims.Tenant != "" {
		who.Tenant = trusted.Text(i.Claims.Tenant)
		isBad := who.Tenant == ""
		access.CheckTenant("", who.Tenant, func(string, say.Sentence) { isBad = true })
		if isBad {
			return nil, schema.CodedError(schema.CodePermissionDenied,
				"token.no_tenant", "claim", i.Claims.Tenant)
		}
	}
	named := trusted
	if _, isStated := claims[jwt.EmailVerified]; !isStated {
		named = claims // an address of which the issuer states nothing names the user, and gives no rights
	}
	if i.Claims.User != "" {
		who.User = named.Text(i.Claims.User)
	}
	if i.Claims.Models != "" {
		if _, who.IsNarrowed = claims.At(i.Claims.Models); who.IsNarrowed {
			who.Models = claims.Texts(i.Claims.Models)
		}
	}
	content, err := json.Marshal(claims, json.Deterministic(true))
	if err != nil {
		return nil, schema.CodedError(schema.CodeInvalidToken, "token.form")
	}
	who.Claims = string(content)
	return who, nil
}
