package control

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// sourceOf identifies the services that a configuration file gives, after
// substitution. Secrets count by their references, so that a rotated key is no
// change. Defaults do not count where it is known what was written: a release that
// adds a setting must not take an old file for a new one.
func sourceOf(doc *config.Document) string {
	if doc.Written != "" {
		return "written:" + doc.Written
	}
	return filledSource(doc)
}

// filledSource is the source of a document by its services with all defaults.
// Releases that did not know what was written kept this one.
func filledSource(doc *config.Document) string {
	// Settings can always be encoded; the error is part of the signature only.
	data, _ := json.Marshal(doc.Services, json.Deterministic(true))
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// isSource tells whether a source that was stored is the one of a document.
func isSource(stored string, doc *config.Document) bool {
	return stored == sourceOf(doc) || stored == filledSource(doc)
}
