package backend_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

func isGood(s backend.Settings) bool {
	good := true
	s.Check(func(string, say.Sentence) { good = false })
	return good
}

func TestAddressesThatNobodyCanDialAreRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"http://\u00fcn\u00ef.example", "http://h:", "http://h*", "http://.h"} {
		s := backend.DefaultSettings()
		s.Name, s.BaseURL = "m", address
		if isGood(s) {
			t.Errorf("%s is taken", address)
		}
	}
}

// An identifier leads to one instance: two instances that pass the checks have
// the same one only if both name and address are the same.
func TestPropertyIdentifiersLeadToOneInstance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"/p", "@http://h", "@HTTPS://h:9", "@", "m"}), 0, 5).Draw(t, "parts")
		joined := "m@http://h" + strings.Join(parts, "")
		var found []backend.Settings
		for i := range len(joined) {
			s := backend.DefaultSettings()
			s.Name, s.BaseURL = joined[:i], joined[i+1:]
			if joined[i] == '@' && isGood(s) {
				found = append(found, s)
			}
		}
		if len(found) > 1 {
			t.Fatalf("%s is %+v", joined, found)
		}
	})
}
