package budget

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares what budgets keep beside the ledger.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "what was spent of budgets and is not in the ledger yet", Part: store.Ledger,
		Files: []string{JournalDir + "/"}, Ends: "when the ledger has it",
	}, {
		Name: "what gateways spend of budgets and runs that they share", Entry: Rekey,
		Redis: []string{"quota.distributed.key-prefix:budget:"}, Without: "the ledger has it",
		Ends: "an hour after the window, or when the run is over",
	}, {
		Name:  "names of the processes that kept budgets and runs",
		Files: []string{processesFile, runProcessesFile}, Without: "they belong to one gateway",
		Bound: "the last 100", Ends: "the oldest make room",
	}}
}
