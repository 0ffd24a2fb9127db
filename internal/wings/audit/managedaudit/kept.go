package managedaudit

import (
	"context"
	"database/sql"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
	"github.com/patchbay-ai/patchbay/internal/wings/audit/pgaudit"
)

// kept declares the audit. A restore begins new chains.
func kept() []store.Kept {
	return []store.Kept{{
		Name: "the audit, and the key that signs it", IsSecret: true,
		Files:    []string{Folder + "/"},
		Restored: noteRestore, Rekey: func(r *store.Rekeying) error { return audit.Rekey(r, Folder) },
		Tables: []string{"patchbay_audit", "patchbay_audit_intents", "patchbay_audit_heads", "patchbay_audit_keys",
			"patchbay_audit_restores", "patchbay_audit_marks"},
		Without: "its records are about the place, where they stay", Bound: "`audit.max-bytes`", Ends: "`audit.keep`",
	}}
}

// noteRestore leaves a note of a restore, so that the gateway begins new chains.
func noteRestore(ctx context.Context, dataDir string, tx *sql.Tx, at, made string) error {
	note := audit.Restored{Time: at, Made: made}
	if tx != nil {
		return pgaudit.NoteRestore(ctx, tx, note)
	}
	text, err := json.Marshal(note, json.Deterministic(true))
	if err != nil {
		return err
	}
	folder := durable.At(filepath.Join(dataDir, Folder))
	if err := folder.Make(); err != nil {
		return err
	}
	return folder.Write(audit.RestoredFile, text)
}
