package files

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares what the data directory has of the configuration.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "versions of the configuration, and which one is in force", Part: store.Configuration, IsSecret: true,
		Files: []string{versionsDir + "/"}, Bound: "`store.keep-versions`", Ends: "the oldest make room",
	}, {
		Name:  "copies of the versions by `POST /api/config/merge/backup`, or from before a gateway joined others",
		Files: []string{backupPrefix + "*/"}, Without: "they are backups themselves", IsSecret: true,
		Ends: "an operator deletes them",
	}, {
		Name:  "the format of the data, and the id of the master key that signs it",
		Files: []string{markFile}, Without: "a place has its own", Ends: "never",
	}, {
		Name:  "the lock of the data directory, and the mark of a restore that is under way",
		Files: []string{lockFile, restoringFile}, Without: "belongs to a process", Ends: "with the process",
	}}
}
