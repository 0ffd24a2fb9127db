package access_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

func TestTheUserOfATrustedHeader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		trusted string
		header  http.Header
		want    string
		refused bool
	}{
		{"a key that trusts no header", "", http.Header{"X-User": {"ann"}}, "", false},
		{"no header", "X-User", http.Header{}, "", false},
		{"an empty header", "X-User", http.Header{"X-User": {" "}}, "", false},
		{"a header", "X-User", http.Header{"X-User": {" ann "}}, "ann", false},
		{"the name in another case", "x-USER", http.Header{"X-User": {"ann"}}, "ann", false},
		{"another header", "X-User", http.Header{"X-Other": {"ann"}}, "", false},
		{"two values", "X-User", http.Header{"X-User": {"ann", "bob"}}, "", true},
		{"a name of Open WebUI", "X-OpenWebUI-User-Name", http.Header{"X-Openwebui-User-Name": {"Ann%20B%C3%BChler+1"}}, "Ann Bühler+1", false},
		{"a name that is not escaped", "X-OpenWebUI-User-Name", http.Header{"X-Openwebui-User-Name": {"100%"}}, "100%", false},
		{"an address", "X-OpenWebUI-User-Email", http.Header{"X-Openwebui-User-Email": {"a%41@example.com"}}, "a%41@example.com", false},
	} {
		user, err := grantOf(t, access.Settings{Keys: []access.Key{{UserHeader: test.trusted}}}).UserOf(test.header)
		if user != test.want || (err != nil) != test.refused {
			t.Errorf("%s: %q %v", test.name, user, err)
		}
	}
	if user, err := (*access.Grant)(nil).UserOf(http.Header{"X-User": {"ann"}}); user != "" || err != nil {
		t.Errorf("without keys: %q %v", user, err)
	}
}

func TestHeadersThatAKeyMayTrust(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"": true, "X-OpenWebUI-User-Id": true, "remote_user": true, strings.Repeat("x", 64): true,
		strings.Repeat("x", 65): false, "X User": false, "X-Üser": false, "X-User:": false, "X\nY": false,
		"authorization": false, "X-API-Key": false, "cookie": false, "Proxy-Authorization": false,
	} {
		for place, check := range map[string]func(func(path string, fault say.Sentence)){
			"userHeader":         access.Key{ID: "k", UserHeader: name}.Check,
			"keys[0].userHeader": access.Settings{Keys: []access.Key{{ID: "k", KeySHA256: access.HashOf("secret"), UserHeader: name}}}.Check,
		} {
			var found []string
			check(func(path string, _ say.Sentence) { found = append(found, path) })
			if good != (len(found) == 0) || !good && found[0] != place {
				t.Errorf("%q: problems at %v, want %s: %t", name, found, place, !good)
			}
		}
	}
}
