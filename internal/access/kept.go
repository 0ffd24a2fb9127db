package access

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares the credentials and the key of sessions.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "issued keys and tokens (their hashes) with their terms, teams, the key behind `jwt:` ids",
		Part: store.Configuration, IsSecret: true, Files: []string{credentialsFile, sealedFile},
		Values: []string{"key/", "token/", teamKind, subjectKeyName}, Bound: "what management and self-service allow",
		Ends: "an operator deletes them; what was revoked stays",
	}, {
		Name: "the key that signs sessions of the console", Without: "each restore makes a new one", IsSecret: true,
		Values: []string{sessionKeyName, sealedKind}, Ends: "with a restore",
	}}
}
