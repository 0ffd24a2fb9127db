package managedbatches

import "github.com/patchbay-ai/patchbay/internal/access"

func init() { access.Declare(readBatches, writeBatches) }

// readBatches is for seeing the batches of clients, writeBatches for pausing and cancelling them.
const (
	readBatches  access.Permission = "batch:read"
	writeBatches access.Permission = "batch:write"
)
