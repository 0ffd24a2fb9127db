package config_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
)

func TestAddressOfTheSharedConfiguration(t *testing.T) {
	for address, good := range map[string]bool{
		"": true, "postgres://u:secret@db/patchbay": true, "postgresql://db/patchbay": true,
		"postgres:u:secret@db": false, "mysql://u:secret@db": false, "versions": false,
	} {
		doc := config.Default()
		doc.Store.Config = address
		problems := doc.Validate(nil)
		if good != (len(problems) == 0) {
			t.Errorf("%q: %v", address, problems)
		}
		if len(problems) > 0 && (!strings.Contains(problems.Error(), "store.config") || strings.Contains(problems.Error(), "secret")) {
			t.Errorf("%q: %v", address, problems)
		}
	}
}
