package sqlstore

import (
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/store"
)

// Kept declares the ledger with the journal of what the database lacks.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "the ledger: what was counted and spent", Part: store.Ledger,
		Files:  []string{quota.JournalDir + "/", "*.db*"},
		Tables: []string{"quota_usage", "quota_schema"},
		Redis:  []string{"quota.distributed.key-prefix"},
		Ends:   "`quota.retention`",
	}}
}
