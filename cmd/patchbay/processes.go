package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
)

func newProcesses(env []string, stdout io.Writer) *cobra.Command {
	cmd := newProcessesList(env, stdout)
	cmd.Use = "processes"
	cmd.Short = "List, start and stop the model servers that a gateway runs, and read their output"
	cmd.Long = `Lists the model servers that a running gateway runs on its own host (processes of its
configuration file) as list does, shows what one of them wrote, starts one, stops one,
and starts one again.

` + remotePlaces
	cmd.Example = `  patchbay processes
  patchbay processes log qwen3
  patchbay processes restart qwen3 --url https://gateway.example --token "$TOKEN"`
	cmd.AddCommand(newProcessesList(env, stdout), newProcessesLog(env, stdout),
		newProcessVerb(env, stdout, &cobra.Command{
			Use:   "start NAME",
			Short: "Start a process, or try one again that has failed, and wait until it is ready",
			Example: `  patchbay processes start qwen3
  patchbay processes start qwen3 --wait 0`,
		}, "start"),
		newProcessVerb(env, stdout, &cobra.Command{
			Use:     "stop NAME",
			Short:   "Stop a process, also one that requests use; the next request starts it again",
			Example: "  patchbay processes stop qwen3",
		}, "stop"),
		newProcessVerb(env, stdout, &cobra.Command{
			Use:     "restart NAME",
			Short:   "Stop a process, start it again, and wait until it is ready",
			Example: "  patchbay processes restart qwen3",
		}, "stop", "start"))
	return cmd
}

// processLine is a process as the gateway shows it, with its output where one is asked for.
type processLine struct {
	processes.View
	Output []processes.Line `json:"output,omitempty"`
}

// row returns the process as a row of the table.
func (l *processLine) row(now time.Time) string {
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
	return strings.Join([]string{l.Name, string(l.State), now.Sub(l.Since).Truncate(time.Second).String(), pid, memory,
		strconv.Itoa(l.Requests), strconv.FormatInt(l.Starts, 10), why}, "\t")
}

// failure says why a process failed, with its last line where the gateway tells it.
func (l *processLine) failure() string {
	if l.Line == "" {
		return l.Reason
	}
	return l.Reason + ": " + l.Line
}

func newProcessesList(env []string, stdout io.Writer) *cobra.Command {
	return newRemoteVerb(env, &cobra.Command{
		Use:   "list",
		Short: "List the processes: their state, since when, and why one failed",
		Example: `  patchbay processes list
  patchbay processes list --json`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, flags *verbFlags, r *remote, _ []string) error {
		lines := []processLine{}
		if err := r.ask(ctx, http.MethodGet, "/api/processes", nil, &lines); err != nil {
			return err
		}
		if flags.json {
			return writeJSON(stdout, lines)
		}
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "NAME\tSTATE\tSINCE\tPID\tMEMORY\tREQUESTS\tSTARTS\tWHY")
		for i := range lines {
			fmt.Fprintln(table, lines[i].row(time.Now()))
		}
		return table.Flush()
	})
}

// oneProcess returns the check that a verb names one process.
func oneProcess() cobra.PositionalArgs {
	return oneArg("name", "process", "patchbay processes list shows the names")
}

func newProcessesLog(env []string, stdout io.Writer) *cobra.Command {
	return newRemoteVerb(env, &cobra.Command{
		Use:     "log NAME",
		Short:   "Print the last 200 lines that a process wrote; needs the role ADMIN",
		Example: "  patchbay processes log qwen3",
		Args:    oneProcess(),
	}, func(ctx context.Context, flags *verbFlags, r *remote, args []string) error {
		line, err := askProcess(ctx, r, http.MethodGet, args[0], "")
		if err != nil {
			return err
		}
		if flags.json {
			return writeJSON(stdout, line)
		}
		for _, wrote := range line.Output {
			fmt.Fprintf(stdout, "%s %s\n", wrote.At.Format(time.RFC3339), wrote.Text)
		}
		if len(line.Output) == 0 {
			return errors.New("no line is known: the process wrote nothing, or the token has not the role ADMIN")
		}
		return nil
	})
}

// askProcess asks for one process, or has something done with it.
func askProcess(ctx context.Context, r *remote, method, name, action string) (line processLine, err error) {
	err = r.ask(ctx, method, "/api/processes/"+url.PathEscape(name)+action, nil, &line)
	return line, err
}

const (
	// lookAgain is the time between two looks at a process that starts or stops.
	lookAgain = 100 * time.Millisecond
	// startPatience is how long a verb waits for a process by default.
	startPatience = 10 * time.Minute
)

// newProcessVerb completes a command that has a gateway do something with a process, one action
// after the other, and waits for the results.
func newProcessVerb(env []string, stdout io.Writer, cmd *cobra.Command, actions ...string) *cobra.Command {
	cmd.Args = oneProcess()
	var patience time.Duration
	cmd = newRemoteVerb(env, cmd, func(ctx context.Context, flags *verbFlags, r *remote, args []string) error {
		bounded, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		var line processLine
		for _, action := range actions {
			var err error
			if line, err = askProcess(ctx, r, http.MethodPost, args[0], "/"+action); err != nil {
				return err
			}
			for line.isOnItsWay(action) && bounded.Err() == nil {
				_ = waiting.Pause(bounded, lookAgain) // its end is looked at above
				if line, err = askProcess(ctx, r, http.MethodGet, args[0], ""); err != nil {
					return err
				}
			}
		}
		switch {
		case line.State == processes.Failed && cmd.Name() != "stop":
			return fmt.Errorf("%s failed: %s; patchbay processes log %[1]s shows its output", line.Name, line.failure())
		case patience > 0 && line.isOnItsWay(actions[len(actions)-1]):
			return fmt.Errorf("%s is still %s after %s; patchbay processes list shows what it waits for", line.Name,
				line.State, patience)
		case flags.json:
			return writeJSON(stdout, line)
		}
		_, err := fmt.Fprintf(stdout, "%s is %s\n", line.Name, line.State)
		return err
	})
	cmd.Flags().DurationVar(&patience, "wait", startPatience, "how long to wait for the result; 0 does not wait")
	return cmd
}

// isOnItsWay reports whether an action with the process has not come to its end. A process that
// failed before and is about to be started has no failures any more.
func (l *processLine) isOnItsWay(action string) bool {
	isAboutTo := l.State == processes.Stopped || l.State == processes.Failed && l.Failures == 0
	return l.State == processes.Starting || l.State == processes.Stopping || isAboutTo && action == "start"
}
