package gateway

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet/redisfleet"
	"github.com/patchbay-ai/patchbay/internal/serve/live"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/cluster/registry"
	"github.com/patchbay-ai/patchbay/internal/store/tally/redistally"
)

// Kept returns the declarations of all that gateways store.
func Kept() []store.Kept {
	all := slices.Concat(files.Kept(), pglog.Kept(), access.Kept(), control.Kept(), sessions.Kept(), sqlstore.Kept(),
		budget.Kept(), registry.Kept(), redistally.Kept(), redisfleet.Kept(), live.Kept(), []store.Kept{{
			Name: "the id of the gateway", Files: []string{idFile}, Without: "a restored gateway is another one",
			Ends: "never",
		}})
	for _, w := range closedWings(config.Default()) {
		all = append(all, w.Kept...)
	}
	return all
}
