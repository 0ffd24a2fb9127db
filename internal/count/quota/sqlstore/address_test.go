package sqlstore_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
)

func TestAddresses(t *testing.T) {
	for address, want := range map[string]struct{ store, server bool }{
		"sqlite:quota.db":                            {true, false},
		"sqlite:/var/lib/hunter2/quota.db":           {true, false},
		"sqlite://quota.db":                          {true, false},
		"sqlite:///var/lib/quota.db":                 {true, false},
		"postgres://u:hunter2@h:5432/db":             {true, true},
		"postgresql://h/db?sslmode=require":          {true, true},
		"postgres://u:hunter2@a:1,b:2/db":            {true, true},
		"postgres://u:p%40hunter2@h/db":              {true, true},
		"postgres://u:hunter2@h:bad/db":              {},
		"postgres://u:hunter2@h:99999/db":            {},
		"postgres://u:hunter2%zz@h/db":               {},
		"postgres://u:hunter2@h/db?sslmode=perhaps":  {},
		"postgres://u:hunter2@[h/db":                 {},
		"postgres://u:hunter2@h/db?connect_timeout=": {},
		"postgres:u:hunter2@h":                       {},
		"mysql://u:hunter2@h":                        {},
		"host=h password=hunter2":                    {},
		"sqlite:":                                    {},
		"sqlite://":                                  {},
		"sqlite:.":                                   {},
		"sqlite:a\x00hunter2":                        {},
		"quota.db":                                   {},
		"":                                           {},
	} {
		store, server := sqlstore.Check(address), sqlstore.CheckServer(address)
		if (store == nil) != want.store || (server == nil) != want.server {
			t.Errorf("%q: %v; %v", address, store, server)
		}
		for _, err := range []error{store, server} {
			if err != nil && (strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 120) {
				t.Errorf("%q: %v", address, err)
			}
		}
	}
}
