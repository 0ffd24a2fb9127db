// Package callsearch is the wing that keeps calls on disk, to search the calls of past
// days.
package callsearch

import (
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/callsearch/callfile"
)

// New returns the wing of calls on disk. Where they are off, calls that were kept before are
// left alone.
func New(core *wing.Core) *wing.Wing {
	w := &wing.Wing{Kept: callfile.Kept()}
	w.Open = func() error {
		keys, err := core.Document.Security.MasterKeys()
		if err != nil {
			return err
		}
		file, err := callfile.Open(callfile.Options{
			Dir: core.Store.Data().Path(""), Settings: core.Document.Monitoring.CallsFile, Keys: keys,
			Recorder: core.Recorder,
			IsFull:   core.IsDiskShort,
			Fault:    func(operation, text string) { core.Recorder.NoteFault("calls-file", operation, text) },
			Log:      core.Log,
		})
		if err != nil {
			return err
		}
		w.Doing, w.Run, w.Close = "keeping calls", file.Run, file.Close
		w.Set = func(doc *config.Document) {
			if err := file.Set(doc.Monitoring.CallsFile); err != nil {
				core.Log.Error("calls are not kept on disk", "error", err)
			}
		}
		return nil
	}
	return w
}
