package access

// NewKeyText makes the text of an API key and its hash, for a configuration file.
func NewKeyText() (text, hash string) { return newSecret(keyPrefix) }

// NewTokenText makes the text of a management token and its hash, for a configuration
// file.
func NewTokenText() (text, hash string) { return newSecret(tokenPrefix) }
