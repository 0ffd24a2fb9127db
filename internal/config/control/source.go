package control

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// sourceOf returns a text that identifies the services of a configuration file, and the
// sections that management can change, after substitution. Secrets count by their references:
// a rotated key is no change. Defaults do not count where the written settings are known,
// because a release that adds a setting must not take an old file for a changed one.
func sourceOf(doc *config.Document) string {
	if doc.Written != "" {
		return "written:" + doc.Written
	}
	// Settings can always be encoded.
	services, _ := json.Marshal(doc.Services, json.Deterministic(true))
	managed, _ := json.Marshal(doc.Managed(), json.Deterministic(true))
	sum := sha256.Sum256(append(services, managed...))
	return hex.EncodeToString(sum[:])
}
