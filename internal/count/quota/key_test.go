package quota

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// TestTextsThatStoresDoNotAcceptAreReplaced by their hash: those that are too long or
// that a database cannot hold. All others are stored as they are.
func TestTextsThatStoresDoNotAcceptAreReplaced(t *testing.T) {
	for text, isKept := range map[string]bool{
		"":                       true,
		"ann":                    true,
		"zażółć":                 true,
		strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false,
		"\x00ann":                false,
		"ann\x00":                false,
		"\xff":                   false,
	} {
		who := Subject{Tenant: text, APIKey: text, User: []byte(text), Service: schema.Chat, Model: text}
		b := newCellMap("w")
		day := [WindowCount]bool{Day: true}
		counted := func() Key {
			var cells [WindowCount]*cell
			b.acquire(&who, &day, 0, &cells)
			return cells[Day].owner.key
		}
		key := counted()
		for _, stored := range []string{key.Tenant, key.APIKey, key.User} {
			if (stored == text) != isKept || !isKept && (len(stored) != len("sha256:")+32 || !strings.HasPrefix(stored, "sha256:")) {
				t.Errorf("%q is stored as %q", text, stored)
			}
		}
		if again := counted(); again != key {
			t.Errorf("%q is counted as %+v and as %+v", text, key, again)
		}
	}
	for length, isKept := range map[int]bool{512: true, 513: false} {
		who := Subject{Model: strings.Repeat("m", length)}
		if stored := who.key().Model; (stored == who.Model) != isKept {
			t.Errorf("a model of %d bytes is stored as %q", length, stored)
		}
	}
	long, longer := Subject{User: []byte(strings.Repeat("x", 129))}, Subject{User: []byte(strings.Repeat("x", 130))}
	if long.key() == longer.key() {
		t.Error("different texts are counted as one")
	}
}
