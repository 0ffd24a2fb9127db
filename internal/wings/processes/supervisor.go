package processes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Each process has a supervisor between it and the gateway: the gateway's own program,
// started with supervisorWord as its first argument. It holds one end of a pipe to the
// gateway, and notices the end of that pipe even if the gateway was killed. It is the
// parent, or adopts the children, of everything that the process starts.
const supervisorWord = "supervise-process"

// The gateway writes commands into the pipe to a supervisor. The end of the pipe means:
// kill everything.
const commandTerminate = 't'

// task is what a supervisor has to do.
type task struct {
	directory string
	patience  time.Duration // with the stop command
	stop      []string      // ends the process; empty for SIGTERM
	command   []string
}

// arguments returns the task as arguments of a program.
func (t task) arguments() []string {
	return slices.Concat([]string{"patchbay", supervisorWord, t.directory, t.patience.String(),
		strconv.Itoa(len(t.stop))}, t.stop, t.command)
}

// taskIn returns the task that arguments returned.
func taskIn(args []string) (t task, ok bool) {
	const head = 5
	if len(args) <= head {
		return t, false
	}
	patience, err := time.ParseDuration(args[3])
	words, countErr := strconv.Atoi(args[4])
	if err != nil || countErr != nil || words < 0 || words >= len(args)-head {
		return t, false
	}
	return task{args[2], patience, args[head : head+words], args[head+words:]}, true
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
	// fault is why it could not be started; it says nothing where it could.
	fault say.Sentence
	// isLost says that its supervisor was ended, which could not tell more.
	isLost bool
	isDead bool // by a signal
	code   int  // of the exit, or of the signal
	// signal is the name of the signal.
	signal string
}

// Said says how the process ended.
func (e ending) Said() say.Sentence {
	switch {
	case e.fault.Is():
		return e.fault
	case e.isLost:
		return say.New("process.supervisor")
	case e.isDead:
		return say.New("process.signal", "number", e.code, "signal", e.signal)
	}
	return say.New("process.exited", "status", e.code)
}

// A supervisor reports the state of the process to the gateway in lines. A fault is a
// sentence in JSON.
const (
	newsStarted = "started"
	newsFault   = "fault"
	newsExited  = "exited"
	newsDied    = "died"
)

// parseNews reads a line of a supervisor.
func parseNews(line string) (pid int, end *ending) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case newsStarted:
		pid, _ = strconv.Atoi(rest)
	case newsFault:
		var why say.Sentence
		_ = json.Unmarshal([]byte(rest), &why)
		end = &ending{fault: say.New("process.unstarted", "why", why)}
	case newsExited:
		code, _ := strconv.Atoi(rest)
		end = &ending{code: code}
	case newsDied:
		number, name, _ := strings.Cut(rest, " ")
		code, _ := strconv.Atoi(number)
		end = &ending{isDead: true, code: code, signal: name}
	}
	return pid, end
}

func formatNews(word string, values ...any) string {
	return strings.TrimSpace(word+" "+fmt.Sprintln(values...)) + "\n"
}
