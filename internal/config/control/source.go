package control

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// sourceOf returns a text that identifies the services of a configuration file, after
// substitution. Secrets count by their references: a rotated key is no change. Defaults
// do not count where the written settings are known, because a release that adds a
// setting must not take an old file for a changed one.
func sourceOf(doc *config.Document) string {
	if doc.Written != "" {
		return "written:" + doc.Written
	}
	return filledSource(doc)
}

// filledSource identifies a document by its services with all defaults, as older
// releases did.
func filledSource(doc *config.Document) string {
	// Settings can always be encoded; the error is part of the signature only.
	data, _ := json.Marshal(doc.Services, json.Deterministic(true))
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// isSource reports whether a stored source identifies the services of a document.
func isSource(stored string, doc *config.Document) bool {
	return stored == sourceOf(doc) || stored == filledSource(doc)
}
