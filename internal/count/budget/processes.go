package budget

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// processesFile has the names of the processes of this gateway, one in each line, in the
// data directory. A process that was killed may have told other gateways of its
// reservations without having counted anything: the next one must know its name to take
// them back.
const processesFile, runProcessesFile = "budget-processes", "run-processes"

// maxProcesses is how many of the latest processes are remembered: more than are killed
// before one of them reaches the store again.
const maxProcesses = 100

// rememberProcess adds the name of this process to the file, and returns the names of the
// earlier ones.
func (b *Book) rememberProcess() (earlier []string) {
	if b.options.Data == nil || b.options.Shared == nil {
		return nil
	}
	file := processesFile
	if b.options.Runs != nil {
		file = runProcessesFile
	}
	text, err := b.options.Data.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	earlier = strings.Fields(string(text))
	if err == nil {
		names := append(slices.Clone(earlier), b.writer)
		names = names[max(0, len(names)-maxProcesses):]
		err = b.options.Data.Write(file, []byte(strings.Join(names, "\n")+"\n"))
	}
	if err != nil {
		b.options.Log.Warn("the names of the processes that keep budgets cannot be remembered: "+
			"what this one reserves stays reserved if it is killed", "error", err)
	}
	return earlier
}
