package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
)

func newProcesses(env []string) *cobra.Command {
	return newFamily(flagsIn(env), "process", true, remoteVerb{
		use:   "processes",
		short: "List, start and stop the model servers that a gateway runs, and read their output",
		long: `Lists the model servers that a running gateway runs on its own host (processes of its
configuration file) as list does, shows what one of them wrote, starts one, stops one,
and starts one again.

` + remotePlaces,
		example: `  patchbay processes
  patchbay processes log qwen3
  patchbay processes restart qwen3 --url https://gateway.example --token "$TOKEN"`,
	}, remoteVerb{
		use: "list", asks: "GET /api/processes",
		short: "List the processes: their state, since when, and why one failed",
		example: `  patchbay processes list
  patchbay processes list --json`,
		prints: table("NAME\tSTATE\tSINCE\tPID\tMEMORY\tREQUESTS\tSTARTS\tWHY", (*processLine).row),
	}, remoteVerb{
		use: "log NAME", asks: "GET /api/processes/{name}", prints: reply(printLog),
		short:   "Print the last 200 lines that a process wrote; needs the role ADMIN",
		example: "  patchbay processes log qwen3",
	}, moveProcess(remoteVerb{
		use:   "start NAME",
		short: "Start a process, or try one again that has failed, and wait until it is ready",
		example: `  patchbay processes start qwen3
  patchbay processes start qwen3 --wait 0`,
	}, "start"), moveProcess(remoteVerb{
		use:     "stop NAME",
		short:   "Stop a process, also one that requests use; the next request starts it again",
		example: "  patchbay processes stop qwen3",
	}, "stop"), moveProcess(remoteVerb{
		use:     "restart NAME",
		short:   "Stop a process, start it again, and wait until it is ready",
		example: "  patchbay processes restart qwen3",
	}, "stop", "start"))
}

// processLine is a process as the gateway shows it, with its output where one is asked for.
type processLine struct {
	processes.View
	Output []processes.Line `json:"output,omitempty"`
}

// row returns the process as a row of the table.
func (l *processLine) row() []string {
	pid, memory, why := "-", "-", "-"
	if l.PID != 0 {
		pid = strconv.Itoa(l.PID)
	}
	if l.Memory > 0 {
		memory = l.Memory.String()
	}
	if l.State == processes.Failed {
		why = l.failure()
	}
	return []string{l.Name, string(l.State), time.Since(l.Since).Truncate(time.Second).String(), pid, memory,
		strconv.Itoa(l.Requests), strconv.FormatInt(l.Starts, 10), why}
}

// failure says why a process failed, with its last line where the gateway tells it.
func (l *processLine) failure() string {
	if l.Line == "" {
		return l.Reason
	}
	return l.Reason + ": " + l.Line
}

// printLog prints the output of a process.
func printLog(a *asking, line *processLine) error {
	if a.json {
		return writeJSON(a.out(), line)
	}
	for _, wrote := range line.Output {
		fmt.Fprintf(a.out(), "%s %s\n", wrote.At.Format(time.RFC3339), wrote.Text)
	}
	if len(line.Output) == 0 {
		return errors.New("no line is known: the process wrote nothing, or the token has not the role ADMIN")
	}
	return nil
}

const (
	// lookAgain is the time between two looks at a process that starts or stops.
	lookAgain = 100 * time.Millisecond
	// startPatience is how long a verb waits for a process by default.
	startPatience = 10 * time.Minute
)

// moveProcess completes a verb that has a gateway do something with a process, one action after the
// other, and waits for the results.
func moveProcess(v remoteVerb, actions ...string) remoteVerb {
	v.flags = []flag{{"wait", "", startPatience, "how long to wait for the result; 0 does not wait", nil}}
	v.does = func(a *asking) error {
		patience, _ := a.cmd.Flags().GetDuration("wait")
		bounded, cancel := context.WithTimeout(a.ctx, patience)
		defer cancel()
		var line processLine
		for _, action := range actions {
			line = processLine{}
			err := a.do("POST /api/processes/{name}/"+action, &line)
			for err == nil && line.isOnItsWay(action) && bounded.Err() == nil {
				_ = waiting.Pause(bounded, lookAgain) // its end is looked at above
				line = processLine{}
				err = a.do("GET /api/processes/{name}", &line)
			}
			if err != nil {
				return err
			}
		}
		switch {
		case line.State == processes.Failed && a.cmd.Name() != "stop":
			return fmt.Errorf("%s failed: %s; patchbay processes log %[1]s shows its output", line.Name, line.failure())
		case patience > 0 && line.isOnItsWay(actions[len(actions)-1]):
			return fmt.Errorf("%s is still %s after %s; patchbay processes list shows what it waits for", line.Name,
				line.State, patience)
		}
		return a.printf(line, "%s is %s\n", line.Name, line.State)
	}
	return v
}

// isOnItsWay reports whether an action with the process has not come to its end. A process that
// failed before and is about to be started has no failures any more.
func (l *processLine) isOnItsWay(action string) bool {
	isAboutTo := l.State == processes.Stopped || l.State == processes.Failed && l.Failures == 0
	return l.State == processes.Starting || l.State == processes.Stopping || isAboutTo && action == "start"
}
