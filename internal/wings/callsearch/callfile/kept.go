package callfile

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares the calls on disk.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "calls kept for searches", Files: []string{folder + "/"}, Rekey: rekey,
		Without: "large, and only for looking back",
		Yields:  true, Bound: "`monitoring.calls-file.max-bytes`", Ends: "`monitoring.calls-file.days`",
	}}
}
