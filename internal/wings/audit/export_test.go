package audit

// HashOf returns the hash of a record that is given by its members.
func HashOf(members map[string]any) string { return digest(canonical(members)) }

// Digest returns the hash of a text.
func Digest(text []byte) string { return digest(text) }

// IntentID returns the id of an operation in progress.
func (w *Writer) IntentID(nonce string, r *Record) string { return w.signer.idOf(nonce, r) }
