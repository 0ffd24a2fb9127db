package gateway

import (
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/alerts/watch"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache/managedcache"
	"github.com/patchbay-ai/patchbay/internal/wings/answers/keeper"
	"github.com/patchbay-ai/patchbay/internal/wings/audit/managedaudit"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/managedbatches"
	"github.com/patchbay-ai/patchbay/internal/wings/callertokens/issuers"
	"github.com/patchbay-ai/patchbay/internal/wings/callsearch"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
	"github.com/patchbay-ai/patchbay/internal/wings/processes/managedprocesses"
	"github.com/patchbay-ai/patchbay/internal/wings/realtime/socket"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/governor"
	"github.com/patchbay-ai/patchbay/internal/wings/selfservice/desk"
	"github.com/patchbay-ai/patchbay/internal/wings/signin/entry"
	"github.com/patchbay-ai/patchbay/internal/wings/spend"
)

// newWings makes the wings of a gateway, and more; internal/wings lists their settings. A line
// belongs to the wing with the package that it names.
func newWings(core *wing.Core, more ...wing.New) []*wing.Wing {
	return wing.Make(core, append([]wing.New{
		keeper.New,
		managedcache.New,
		socket.NewWing,
		managedbatches.New,
		managedprocesses.New,
		callsearch.New,
		issuers.New,
		spend.NewWing,
		watch.New,
		entry.New,
		desk.New,
		governor.NewWing,
		managedaudit.New,
	}, more...)...)
}

// RunInstead does the work that a wing has started this program anew for, in place of all
// other work, and reports whether there was such work.
func RunInstead(args []string) bool {
	for _, run := range []func(args []string) bool{
		processes.Supervise,
	} {
		if run(args) {
			return true
		}
	}
	return false
}
