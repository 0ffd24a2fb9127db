package quota

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Key names the parties and the model that requests and tokens are counted by. Unknown
// parts are empty.
type Key struct {
	Tenant  string
	APIKey  string
	User    string
	Service schema.ServiceType
	Model   string
}

// Subject is the Key of a request that has not been counted yet. User is a slice
// of the request's memory and is not retained.
type Subject struct {
	Tenant  string
	APIKey  string
	User    []byte
	Service schema.ServiceType
	Model   string
}

// Overflow replaces the user, or also the tenant, when there are too many keys to
// count them separately.
const Overflow = "__overflow__"

const (
	// maxText bounds the parts of a key that a client sends.
	maxText = 128
	// maxModel is as long as a configured name can be.
	maxModel = 512
)

// compare orders keys. All writers write their rows in this order.
func (k Key) compare(other Key) int {
	return cmp.Or(
		strings.Compare(k.User, other.User), strings.Compare(k.Tenant, other.Tenant),
		strings.Compare(k.APIKey, other.APIKey), cmp.Compare(k.Service, other.Service),
		strings.Compare(k.Model, other.Model))
}

// key returns the key under which the subject is counted.
func (s *Subject) key() Key {
	return Key{
		Tenant: storable(s.Tenant, maxText), APIKey: storable(s.APIKey, maxText),
		User: storable(string(s.User), maxText), Service: s.Service, Model: storable(s.Model, maxModel),
	}
}

// UserName returns the name under which a user is counted.
func UserName(user string) string { return storable(user, maxText) }

// storable returns a text that every store accepts: valid UTF-8, without zero bytes,
// and short. Any other text is replaced by its hash: different texts stay different.
func storable(text string, longest int) string {
	if len(text) <= longest && utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:16])
}
