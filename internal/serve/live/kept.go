package live

import "github.com/patchbay-ai/patchbay/internal/store"

// folder is the folder of the history, below the data directory.
const folder = "history"

// Kept declares the history on disk.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "history for the console", Files: []string{folder + "/"}, Rekey: rekey,
		Without: "it is about the place, and only for looking back",
		Yields:  true, Bound: "`monitoring.history.max-bytes`", Ends: "`monitoring.history.retention`",
	}}
}
