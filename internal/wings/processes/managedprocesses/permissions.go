package managedprocesses

import "github.com/patchbay-ai/patchbay/internal/access"

func init() { access.Declare(readProcesses, manageProcesses) }

// readProcesses is for seeing the model servers that the gateway runs, manageProcesses for starting and
// stopping them and for reading their output.
const (
	readProcesses   access.Permission = "process:read"
	manageProcesses access.Permission = "process:manage"
)
