package access

import (
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Sender is a caller of the unified API as an explanation tells of it.
type Sender struct {
	KeyID, Tenant string
	// Status is that of a key: ACTIVE, EXPIRED, DISABLED, REVOKED, SLEEPING or UNREADABLE. It is empty for
	// the bearer of a token, and for whom nobody knows.
	Status string
	// Issuer, User and Rule tell who the bearer of a token is: the issuer in the settings, the
	// person, and the setting that lets the bearer in.
	Issuer, User, Rule string
	// Owner is the person who made the key.
	Owner Owner
	// Grant holds the permissions, nil where the caller is refused whatever is asked.
	Grant *Grant
	// Refusal is why the caller is refused whatever is asked, else nil.
	Refusal *schema.Error
}

// SenderOf returns the caller of the unified API whose key or token a request has in a header for
// keys, else the one with the id of a key. It is nil where neither is given, and where callers need no
// key. It counts nothing, and a bearer of a token is known by the id only who was here lately.
func (c *Credentials) SenderOf(id string, h http.Header, now time.Time) *Sender {
	guard := c.Guard()
	text := KeyIn(h)
	if guard == nil || text == "" && id == "" {
		return nil
	}
	s := &Sender{KeyID: id}
	switch {
	case text != "":
		s.KeyID = ""
		s.Grant, s.Refusal = guard.Identify(http.Header{"X-Api-Key": {text}}, now)
	case guard.byID[id] != nil:
		s.Grant = guard.byID[id]
	default:
		s.Grant = guard.visitors.known(id, now)
	}
	if s.Grant != nil {
		s.KeyID, s.Tenant, s.Owner = s.Grant.ID, s.Grant.Tenant, s.Grant.owner
	}
	if s.Grant.IsVisitor() {
		who := s.Grant.visitor
		s.Issuer, s.User, s.Rule = who.Issuer, who.User, who.Rule
		return s
	}
	s.Status = c.statusOf(s.KeyID, now)
	if s.Refusal == nil {
		s.Refusal = s.refusal(now)
	}
	if s.Refusal != nil {
		s.Grant = nil
	}
	return s
}

// refusal returns why a key is refused whatever is asked, nil where it is not.
func (s *Sender) refusal(now time.Time) *schema.Error {
	switch {
	case s.Grant != nil && !s.Grant.expired(now):
		return s.Grant.refuseAsleep(now)
	case s.Grant == nil && s.Status == "" && isVisitorID(s.KeyID):
		return nil // nobody knows
	}
	return schema.CodedError(schema.CodeInvalidAPIKey, "call.no_key_any")
}

func isVisitorID(id string) bool {
	_, isVisitor := issuerOf(id)
	return isVisitor
}

// statusOf returns the status of the key with an id, empty where there is none.
func (c *Credentials) statusOf(id string, now time.Time) string {
	for _, key := range c.Keys.List() {
		if key.ID == id && id != "" {
			return c.KeyStatus(key, now)
		}
	}
	return ""
}

// known returns the grant of a visitor who was let in, by the id; nil where nobody is remembered.
func (v *visitors) known(id string, now time.Time) *Grant {
	if v == nil || !isVisitorID(id) {
		return nil
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, grant := range v.passes {
		if grant.ID == id && !grant.expired(now) {
			return grant
		}
	}
	return nil
}
