package audit

// HashOf returns the hash of a record that is given by its members.
func HashOf(members map[string]any) string { return digest(canonical(members)) }

// Digest returns the hash of a text.
func Digest(text []byte) string { return digest(text) }
