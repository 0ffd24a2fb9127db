package control

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
)

// writtenPrefix begins a source that is made of the written settings.
const writtenPrefix = "written:"

// sourceOf returns a text that identifies the services of a configuration file, and the
// sections that management can change, after substitution. Secrets count by their references:
// a rotated key is no change. Defaults do not count where the written settings are known,
// because a release that adds a setting must not take an old file for a changed one.
func sourceOf(doc *config.Document) string {
	if doc.Written != "" {
		return writtenPrefix + doc.Written
	}
	return filledSource(doc)
}

// filledSource identifies a document by its services with all defaults, as older
// releases did.
func filledSource(doc *config.Document) string {
	// Settings can always be encoded; the error is part of the signature only.
	data, _ := json.Marshal(doc.Services, json.Deterministic(true))
	if managed := doc.Managed(); !settings.Equal(managed, config.Default().Managed()) {
		more, _ := json.Marshal(managed, json.Deterministic(true))
		data = append(data, more...)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// isSource reports whether a stored source identifies the services of a document.
func isSource(stored string, doc *config.Document) bool {
	return stored == sourceOf(doc) || stored == filledSource(doc)
}

// isSourceOf is isSource for the head of a store. Older releases identified the services alone.
func isSourceOf(head Head, doc *config.Document) bool {
	services, _, _ := strings.Cut(doc.Written, ":")
	return isSource(head.Source, doc) ||
		head.FileSettings == nil && services != "" && head.Source == writtenPrefix+services
}
