package processes

import (
	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Each process has a supervisor between it and the gateway: the gateway's own program,
// started with supervisorWord as its first argument. It holds one end of a pipe to the
// gateway, and notices the end of that pipe even if the gateway was killed. It is the
// parent, or adopts the children, of everything that the process starts.
const supervisorWord = "supervise-process"

// taskArgument is the number of the argument of the supervisor that has its task.
const taskArgument = 2

// The gateway writes commands into the pipe to a supervisor. The end of the pipe means:
// kill everything.
const commandTerminate = 't'

// task is what a supervisor has to do.
type task struct {
	Directory string          `json:"directory"`
	Patience  schema.Duration `json:"patience"` // with the stop command
	Stop      []string        `json:"stop"`     // ends the process; empty for SIGTERM
	Command   []string        `json:"command"`
}

// arguments returns the task as arguments of a program.
func (t task) arguments() ([]string, error) {
	text, err := json.Marshal(t)
	return []string{"patchbay", supervisorWord, string(text)}, err
}

// Supervise supervises a process if the program was started for that with these arguments,
// beginning with its name. It reports whether it did, which is all that the program has to do.
func Supervise(args []string) bool {
	if len(args) < 2 || args[1] != supervisorWord {
		return false
	}
	supervise(args)
	return true
}

// ending describes the end of a process.
type ending struct {
	// Fault is why it could not be started; it says nothing if it was.
	Fault say.Sentence `json:"fault,omitzero"`
	// IsLost means that its supervisor was ended, which reported no more.
	IsLost bool `json:"isLost,omitzero"`
	// Signal is the name of the signal that it died by, empty if it exited, and Code the number of the signal
	// or of the exit.
	Signal string `json:"signal,omitzero"`
	Code   int    `json:"code,omitzero"`
}

// Said says how the process ended.
func (e ending) Said() say.Sentence {
	switch {
	case e.Fault.Is():
		return e.Fault
	case e.IsLost:
		return say.New("process.supervisor")
	case e.Signal != "":
		return say.New("process.signal", "number", e.Code, "signal", e.Signal)
	}
	return say.New("process.exited", "status", e.Code)
}

// report is a line of JSON in which a supervisor tells the gateway the number of the process, or how it
// ended.
type report struct {
	PID    int     `json:"pid,omitzero"`
	Ending *ending `json:"ending,omitzero"`
}
