package governor

import "github.com/patchbay-ai/patchbay/internal/access"

func init() { access.Declare(readRuns, writeRuns) }

// readRuns is for seeing the runs of agents, writeRuns for raising their limits and for ending them.
const (
	readRuns  access.Permission = "run:read"
	writeRuns access.Permission = "run:write"
)
