package watch

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares the alerts that were sent. A backup has none: they describe the place.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "alerts that were sent", Folder: folder, Kinds: []string{documentKind},
		Without: "they are about the place", Ends: "7 days after they are over",
	}}
}
