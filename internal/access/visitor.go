package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// visitorPrefix begins the ids of visitors. No key has such an id.
const visitorPrefix = "jwt:"

// Bounds of what is remembered of visitors.
const (
	maxPasses    = 20_000 // verified tokens
	maxPassBytes = 32 << 20
	passShare    = 32      // the part of the memory of the program that they may take
	passBytesOf  = 1 << 10 // what a token takes apart from its claims
	maxVisitors  = 50_000  // visitors with limits or budgets of their own
	// visitorIdle is how long the limits of a visitor are kept at least: they count minutes.
	visitorIdle = 2 * time.Minute
)

// Visitor is a caller who presents the token of an issuer in place of a key.
type Visitor struct {
	// Issuer is the name of the issuer in the settings, and Subject whom the token is about.
	Issuer, Subject string
	Tenant          string
	// Rule is the setting that lets the visitor in, for people.
	Rule string
	// User is the person for whom requests are made; empty leaves it to the request.
	User  string
	Terms Terms
	// Models narrow the terms where IsNarrowed is true.
	Models     []string
	IsNarrowed bool
	// Until is the end of the token, and Grace the time after it for clocks that differ. Zero
	// means no end.
	Until time.Time
	Grace time.Duration
	// Claims is the content of the token, by which Issuers find the visitor again.
	Claims string
}

// Issuers know visitors by their tokens.
type Issuers interface {
	// Identify returns the bearer of a token, or why it is refused. isToken is false if the text
	// is not a token that names its issuer.
	Identify(text string, now time.Time) (who *Visitor, refusal *schema.Error, isToken bool)
	// Again returns the visitor with claims of an earlier token by the rules in force, nil if
	// they let the visitor in no longer.
	Again(issuer, claims string) *Visitor
	// Has reports whether an issuer of this name is in the settings.
	Has(issuer string) bool
}

// SetIssuers lets visitors in, or none if issuers is nil. It is called again when the keys or the rules
// of issuers have changed: everything that was known of tokens is forgotten.
func (c *Credentials) SetIssuers(issuers Issuers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issuers = issuers
	c.rebuild()
}

// visitors are the tokens that a guard has let in, by their hashes.
type visitors struct {
	owner   *Credentials
	issuers Issuers
	grants  *compiler

	mu     sync.RWMutex
	passes map[[sha256.Size]byte]*Grant
	// bytes is about what the passes take, and by has the parts of it by the ids of visitors.
	bytes int
	by    map[string]int
	// swept is when the passes that have ended were last dropped.
	swept time.Time
}

// identify returns the grant of a token. A nil visitors knows no tokens.
func (v *visitors) identify(text string, sum [sha256.Size]byte, now time.Time) (grant *Grant, refusal *schema.Error,
	isToken bool) {
	if v == nil || text == "" {
		return nil, nil, false
	}
	v.mu.RLock()
	grant = v.passes[sum]
	v.mu.RUnlock()
	if grant != nil && !grant.expired(now) {
		return grant, nil, true
	}
	who, refusal, isToken := v.issuers.Identify(text, now)
	if refusal != nil || !isToken {
		return nil, refusal, isToken
	}
	if grant, refusal = v.admit(who, now); refusal != nil {
		return nil, refusal, true
	}
	v.keep(sum, grant, now)
	return grant, nil, true
}

// keep remembers a verified token within the bounds. The visitor with the most gives way.
func (v *visitors) keep(sum [sha256.Size]byte, grant *Grant, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(sum)
	if now.Sub(v.swept) >= passSweep {
		v.sweep(now)
	}
	size, most := sizeOf(grant), v.owner.passBytes()
	for len(v.passes) > 0 && (len(v.passes) >= maxPasses || v.bytes+size > most) {
		v.giveWay(grant.ID)
	}
	if size > most {
		return
	}
	v.passes[sum] = grant
	v.bytes += size
	v.by[grant.ID] += size
}

// passSweep is the time between two looks for passes that have ended.
const passSweep = 10 * time.Second

// sweep drops the passes that have ended; mu is held.
func (v *visitors) sweep(now time.Time) {
	v.swept = now
	for sum, grant := range v.passes {
		if grant.expired(now) {
			v.drop(sum)
		}
	}
}

// giveWay drops passes of the visitor with the most, or of the newcomer if no visitor has more; mu is
// held. It drops several at a time, so that looking for them is seldom.
func (v *visitors) giveWay(newcomer string) {
	id := newcomer
	for other, bytes := range v.by {
		if bytes > v.by[id] {
			id = other
		}
	}
	const atOnce = 64
	dropped := 0
	for sum, grant := range v.passes {
		if grant.ID == id && dropped < atOnce {
			v.drop(sum)
			dropped++
		}
	}
}

// drop forgets a pass; mu is held.
func (v *visitors) drop(sum [sha256.Size]byte) {
	grant := v.passes[sum]
	if grant == nil {
		return
	}
	delete(v.passes, sum)
	size := sizeOf(grant)
	v.bytes -= size
	if v.by[grant.ID] -= size; v.by[grant.ID] <= 0 {
		delete(v.by, grant.ID)
	}
}

// sizeOf returns about how many bytes a pass takes.
func sizeOf(g *Grant) int {
	const entry = 128 // of a list, compiled
	size := passBytesOf + len(g.visitor.Claims) + len(g.visitor.User) +
		entry*(len(g.Terms.Models)+len(g.Terms.Instances)+len(g.Terms.Addresses))
	for _, model := range g.visitor.Models {
		size += 2*len(model) + entry
	}
	return size
}

// SetMemory makes the memory of verified tokens a part of that of the program, whose limit a function
// returns. It must be called before requests are served.
func (c *Credentials) SetMemory(limit func() int64) { c.memory = limit }

func (c *Credentials) passBytes() int {
	if c.memory == nil {
		return maxPassBytes
	}
	return int(min(c.memory()/passShare, maxPassBytes))
}

// admit returns the grant of a visitor.
func (v *visitors) admit(who *Visitor, now time.Time) (*Grant, *schema.Error) {
	id, err := v.owner.visitorID(who.Issuer, who.Subject)
	if err != nil {
		unknown := schema.CodedError(schema.CodeServiceUnavailable, "token.no_id")
		unknown.RetryAfter = time.Second
		return nil, unknown
	}
	v.owner.mu.Lock()
	defer v.owner.mu.Unlock()
	grants := v.grants
	if latest := v.owner.Guard(); latest != nil && latest.visitors != nil {
		grants = latest.visitors.grants // the terms may have changed meanwhile
	}
	key := Key{ID: id, Tenant: who.Tenant, Terms: who.Terms.Or(grants.defaults)}
	if key.Limits != (allowance.Limits{}) || key.Budgets != (budget.Budgets{}) {
		if !v.owner.countVisitor(id, key.Budgets != (budget.Budgets{}), now) {
			full := schema.CodedError(schema.CodeOverloaded, "token.many")
			full.RetryAfter = time.Minute
			return nil, full
		}
	}
	g := grants.compile(key)
	g.visitor = who
	if who.IsNarrowed {
		g.rules = append(g.rules, newNarrowing(who.Models))
	}
	if !who.Until.IsZero() {
		g = g.until(who.Until.Add(who.Grace))
	}
	return g, nil
}

// newNarrowing returns a rule that allows some models only; none if the list is empty.
func newNarrowing(models []string) rule {
	var r rule
	for service := range r.services {
		r.services[service] = len(models) > 0
	}
	for _, model := range models {
		r.models = append(r.models, naming.NewPattern(model))
	}
	return r
}

// counted is a visitor with limits or budgets.
type counted struct {
	last       time.Time
	hasBudgets bool
}

// countVisitor notes a visitor with limits or budgets, and reports whether there is room for one
// more. Visitors without budgets who were not here for some minutes give way to others; mu is held.
func (c *Credentials) countVisitor(id string, hasBudgets bool, now time.Time) bool {
	if _, known := c.visitors[id]; !known && len(c.visitors) >= c.maxVisitors {
		gone := map[string]bool{}
		for old, seen := range c.visitors {
			if !seen.hasBudgets && now.Sub(seen.last) > visitorIdle {
				gone[allowance.KeyName(old)] = true
				delete(c.visitors, old)
			}
		}
		c.accounts.Keep(func(name string) bool { return !gone[name] })
		if len(c.visitors) >= c.maxVisitors {
			return false
		}
	}
	c.visitors[id] = counted{now, hasBudgets || c.visitors[id].hasBudgets}
	return true
}

// isVisited reports whether an account belongs to a visitor; mu is held.
func (c *Credentials) isVisited(account string) bool {
	id, isKey := strings.CutPrefix(account, allowance.KeyName(""))
	_, known := c.visitors[id]
	return isKey && known
}

// visitorID returns the id of a visitor. It does not reveal the subject, and is the same on all
// gateways that have the master key or, without one, share their store.
func (c *Credentials) visitorID(issuer, subject string) (string, error) {
	key := c.subjectKey.Load()
	if key == nil {
		made, err := c.makeSubjectKey()
		if err != nil {
			return "", err
		}
		key = &made
		c.subjectKey.Store(key)
	}
	mac := hmac.New(sha256.New, *key)
	mac.Write([]byte(subject))
	return visitorPrefix + issuer + ":" + hex.EncodeToString(mac.Sum(nil)[:8]), nil
}

// errNoSubjectKey says that the store which has the key is away.
var errNoSubjectKey = errors.New("the key for the ids of tokens' subjects cannot be stored")

// subjectPurpose is the purpose of the key for the ids of tokens' subjects.
const subjectPurpose = "subjects of tokens"

// setSubjectKey takes the stored key for the ids of tokens' subjects.
func (c *Credentials) setSubjectKey(value []byte) error {
	var key session
	err := key.set(value)
	if err == nil {
		c.subjectKey.Store(&key.key)
	}
	return err
}

// subjectKey returns the key for the ids of tokens' subjects of a place without a master key that
// was never restored.
func (s session) subjectKey() []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(subjectPurpose))
	return mac.Sum(nil)
}

func (c *Credentials) makeSubjectKey() ([]byte, error) {
	key := make([]byte, sha256.Size)
	if c.master != nil {
		c.master.Derive(subjectPurpose, key)
		return key, nil
	}
	if err := c.makeSessionKey(context.Background()); err != nil {
		return nil, errors.Join(errNoSubjectKey, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.key == nil {
		return nil, errNoSubjectKey
	}
	return c.session.subjectKey(), nil
}

// IsVisitor reports whether the grant belongs to the bearer of a token. Its credential is never
// passed on.
func (g *Grant) IsVisitor() bool { return g != nil && g.visitor != nil }

// Claims returns the content of the visitor's token, by which Callers.Bearer finds the visitor
// again; empty for a key.
func (g *Grant) Claims() string {
	if !g.IsVisitor() {
		return ""
	}
	return g.visitor.Claims
}

// NamesUser reports whether the user of requests is known or named by a header, and not by the
// body.
func (g *Grant) NamesUser() bool {
	return g != nil && (g.userHeader != "" || g.visitor != nil && g.visitor.User != "")
}

// hasEnded reports whether the token of a visitor has reached its end, without the time for clocks
// that differ.
func (g *Grant) hasEnded(now time.Time) bool {
	return g.IsVisitor() && !g.visitor.Until.IsZero() && now.After(g.visitor.Until)
}

// issuerOf returns the name of the issuer in the id of a visitor.
func issuerOf(id string) (issuer string, isVisitor bool) {
	rest, isVisitor := strings.CutPrefix(id, visitorPrefix)
	issuer, _, _ = strings.Cut(rest, ":")
	return issuer, isVisitor
}

// GroupOf returns the name under which metrics count the account of a key: all visitors of an
// issuer have one, such as key/jwt:entra.
func GroupOf(account string) string {
	if !strings.HasPrefix(account, allowance.KeyName(visitorPrefix)) {
		return account
	}
	return account[:strings.LastIndexByte(account, ':')]
}

// expiredToken says that a connection ends with its token.
func expiredToken() *schema.Error {
	return schema.CodedError(schema.CodeInvalidToken, "token.expired")
}

// bearerOf returns the grant of a visitor identified before.
func (v *visitors) bearerOf(id, claims string, now time.Time) (*Grant, bool) {
	issuer, _ := issuerOf(id)
	if v == nil {
		return nil, false
	}
	who := v.issuers.Again(issuer, claims)
	if who == nil {
		return nil, false
	}
	grant, refusal := v.admit(who, now)
	return grant, refusal == nil && grant.ID == id && !grant.expired(now)
}

// checkKeyID reports an id of a key that belongs to visitors.
func checkKeyID(field, id string, report say.Report) {
	if strings.HasPrefix(id, visitorPrefix) {
		report(field, say.New("field.key_id"))
	}
}
