package jwt

import (
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Claims are the statements of a token, by their names.
type Claims map[string]any

// ReadClaims reads the payload of a token. Names that occur twice are an error.
func ReadClaims(payload []byte) (Claims, error) {
	var claims Claims
	if err := json.Unmarshal(payload, &claims); err != nil || claims == nil {
		return nil, errForm
	}
	return claims, nil
}

// The claims of a person's e-mail address, and of whether the issuer has verified it.
const (
	Email         = "email"
	EmailVerified = "email_verified"
)

// Verified returns the claims without an e-mail address, unless the issuer states that it has verified
// the address or is trusted with every address. Any other address may be what its owner wrote.
func (c Claims) Verified(trustsEmail bool) Claims {
	if verified := c[EmailVerified]; trustsEmail || verified == true || verified == "true" {
		return c
	}
	c = maps.Clone(c)
	delete(c, Email)
	return c
}

// EmailWarning is logged once for a provider whose rules use the e-mail address.
type EmailWarning struct{ isLogged atomic.Bool }

// Check logs a warning if claims have an e-mail address and no statement of whether it was verified.
// Setting is the section of the provider.
func (w *EmailWarning) Check(log *slog.Logger, setting, provider string, c Claims) {
	_, hasEmail := c[Email]
	if _, isStated := c[EmailVerified]; hasEmail && !isStated && w.isLogged.CompareAndSwap(false, true) {
		log.Warn("e-mail addresses of this provider do not count in rules: its tokens have no claim email_verified; "+
			"if the provider verifies every address, set trust-email", "setting", setting, "provider", provider)
	}
}

// UnverifiedEmail is what check reports of a rule for e-mail addresses.
const UnverifiedEmail = "an e-mail address counts only if the provider states email_verified: true; if it verifies " +
	"every address and does not state so, set trust-email"

// At returns the value of a claim: the claim with this very name, else the one that a path with
// dots leads to, such as realm_access.roles. A step of the path may have dots itself, as in
// kubernetes.io.namespace, where no shorter one leads to a claim.
func (c Claims) At(name string) (value any, found bool) {
	if value, found = c[name]; found {
		return value, true
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if inner, isObject := c[name[:i]].(map[string]any); isObject {
			if value, found = Claims(inner).At(name[i+1:]); found {
				return value, true
			}
		}
	}
	return nil, false
}

// Texts returns the value of a claim as texts: one for a text, a number or a boolean, several for
// a list of these, and none for anything else.
func (c Claims) Texts(name string) []string {
	value, _ := c.At(name)
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	var texts []string
	for _, one := range list {
		switch one := one.(type) {
		case string:
			texts = append(texts, one)
		case bool:
			texts = append(texts, strconv.FormatBool(one))
		case float64:
			texts = append(texts, strconv.FormatFloat(one, 'f', -1, 64))
		}
	}
	return texts
}

// Text returns the value of a claim that is a single text, number or boolean, else "".
func (c Claims) Text(name string) string {
	if value, _ := c.At(name); value != nil {
		if _, isList := value.([]any); isList {
			return ""
		}
	}
	if texts := c.Texts(name); len(texts) == 1 {
		return texts[0]
	}
	return ""
}

// Subject returns the claim sub; empty if there is none.
func (c Claims) Subject() string { return c.own("sub") }

// Issuer returns the claim iss; empty if there is none.
func (c Claims) Issuer() string { return c.own("iss") }

// Expires returns the time of the claim exp; zero if there is none.
func (c Claims) Expires() time.Time { return c.time("exp") }

// own returns a registered claim that is a text. Such names are no paths.
func (c Claims) own(name string) string {
	text, _ := c[name].(string)
	return text
}

func (c Claims) time(name string) time.Time {
	const latest = 1 << 40 // seconds; a later time could not be written as a date
	seconds, isNumber := c[name].(float64)
	if !isNumber || math.IsNaN(seconds) || seconds <= 0 || seconds > latest {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// check returns why a verified token is refused, or nil.
func (c Claims) check(want Expected, now time.Time) error {
	for _, name := range [...]string{"exp", "iat"} {
		if c.time(name).IsZero() {
			return say.Error("token.lacks", "claim", name)
		}
	}
	if c.Subject() == "" && !want.NoSubject {
		return say.Error("token.lacks", "claim", "sub")
	}
	issued, expires := c.time("iat"), c.Expires()
	switch {
	case c.Issuer() != want.Issuer:
		return errIssuer
	case !c.isFor(want.Audience):
		return errAudience
	case !now.Before(expires.Add(Skew)):
		return errExpired
	case issued.After(now.Add(Skew)):
		return errFuture
	case want.MaxAge > 0 && expires.Sub(issued) > want.MaxAge:
		return say.Error("token.age", "most", want.MaxAge)
	}
	return c.checkBeginning(now)
}

// checkBeginning returns an error unless the claim nbf, if there is one, is a time that has come.
func (c Claims) checkBeginning(now time.Time) error {
	begins, hasBeginning := c["nbf"]
	seconds, isNumber := begins.(float64)
	switch {
	case hasBeginning && !isNumber:
		return say.Error("token.unusable", "claim", "nbf")
	case seconds > float64(now.Add(Skew).Unix()):
		return errFuture
	}
	return nil
}

// isFor reports whether the token is meant for one of these names.
func (c Claims) isFor(audience []string) bool {
	if single, isText := c["aud"].(string); isText {
		return slices.Contains(audience, single)
	}
	list, _ := c["aud"].([]any)
	return slices.ContainsFunc(list, func(one any) bool {
		text, isText := one.(string)
		return isText && slices.Contains(audience, text)
	})
}

// Texts are one or more texts of a setting.
type Texts []string

// OneOrMore says that a single value may take the place of a list of one.
func (Texts) OneOrMore() {}

// Match is the condition of a rule: a claim that is, or as a list contains, one of the values.
type Match struct {
	Claim string `json:"claim"`
	Value Texts  `json:"value"`
}

// Check reports every field that has a value it may not have.
func (m Match) Check(report say.Report) {
	if m.Claim == "" {
		report("claim", say.New("field.required"))
	}
	if len(m.Value) == 0 || slices.Contains(m.Value, "") {
		report("value", say.New("field.required"))
	}
}

// Holds reports whether claims meet the condition.
func (m Match) Holds(c Claims) bool {
	return slices.ContainsFunc(c.Texts(m.Claim), func(text string) bool { return slices.Contains(m.Value, text) })
}
