package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/patchbay-ai/patchbay/internal/wings/terminal"
)

func newTail(env []string, stdout, stderr io.Writer) *cobra.Command {
	flags := new(flagsIn(env))
	var only callFilter
	var asJSON bool
	var count int
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show the calls of a running gateway as they end",
		Long: `Shows the calls of a running gateway as they end, one line each, until Ctrl-C. A
gateway that is restarted is followed further. Of busy gateways some calls may be
left out, which is told.

` + remotePlaces,
		Example: `  patchbay tail
  patchbay tail --errors --service chat
  patchbay tail --json --url https://gateway.example --token "$TOKEN"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			style := terminal.Style{Colour: isColourful(stdout, env)}
			shown := 0
			return followGateway(cmd.Context(), flags, "call", stderr, func(e terminal.Event) error {
				if e.Dropped != nil {
					fmt.Fprintf(stderr, "%d calls were left out\n", e.Dropped.Count)
					return nil
				}
				if e.Call == nil || !only.matches(e.Call) {
					return nil
				}
				line := style.Call(e.Call)
				if asJSON {
					line = string(e.Data)
				}
				if _, err := fmt.Fprintln(stdout, line); err != nil {
					return err
				}
				if shown++; shown == count {
					return terminal.ErrStop
				}
				return nil
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&only.service, "service", "", "only calls of this service type")
	cmd.Flags().StringVar(&only.model, "model", "", "only calls of this model")
	cmd.Flags().StringVar(&only.key, "key", "", "only calls with the key of this id")
	cmd.Flags().BoolVar(&only.errors, "errors", false, "only calls that failed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each call as one line of JSON, with all that is known of it")
	cmd.Flags().IntVarP(&count, "count", "n", 0, "end after this many calls (default: do not end)")
	return cmd
}

// callFilter says which calls are shown.
type callFilter struct {
	service, model, key string
	errors              bool
}

func (f *callFilter) matches(c *terminal.Call) bool {
	return (f.service == "" || strings.EqualFold(f.service, c.Service)) && (f.model == "" || f.model == c.Model) &&
		(f.key == "" || f.key == c.KeyID) && (!f.errors || c.Failed())
}

func newTop(env []string, stdout, stderr io.Writer) *cobra.Command {
	flags := new(flagsIn(env))
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch traffic, instances, breakers and the last calls of a running gateway",
		Long: `Shows the traffic of a running gateway, its instances with their health and circuit
breakers (* is one that an operator holds), and the last changes and calls, renewed
each second until Ctrl-C. Where standard output is no terminal, it is shown once.

` + remotePlaces,
		Example: `  patchbay top
  patchbay top --url https://gateway.example --token "$TOKEN"
  patchbay top --once > state.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := flags.remote()
			if err != nil {
				return err
			}
			screen := &terminal.Screen{Style: terminal.Style{Colour: isColourful(stdout, env)}, Name: at.shown}
			tty, isTerminal := terminalOf(stdout)
			if once || !isTerminal {
				return followGateway(cmd.Context(), flags, "snapshot", stderr, func(e terminal.Event) error {
					screen.Take(e)
					if !screen.Known() {
						return nil
					}
					fmt.Fprintln(stdout, strings.Join(screen.Lines(0, 0), "\n"))
					return terminal.ErrStop
				})
			}
			return drawScreen(cmd.Context(), flags, screen, tty)
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "show the state once and end")
	return cmd
}

// drawScreen draws the screen at each snapshot, on the terminal's second page. The first
// page comes back afterwards.
func drawScreen(ctx context.Context, flags *remoteFlags, screen *terminal.Screen, tty *os.File) error {
	const open, home, closed = "\x1b[?1049h\x1b[?25l", "\x1b[H", "\x1b[?25h\x1b[?1049l"
	opened := false
	defer func() {
		if opened {
			_, _ = io.WriteString(tty, closed)
		}
	}()
	draw := func(notice string) {
		width, height, err := term.GetSize(int(tty.Fd()))
		if err != nil {
			width, height = 80, 24
		}
		lines := screen.Lines(width, height-1)
		if notice != "" {
			lines = append([]string{notice}, lines[:min(len(lines), height-2)]...)
		}
		var page strings.Builder
		if !opened {
			page.WriteString(open)
			opened = true
		}
		page.WriteString(home)
		for _, line := range lines {
			page.WriteString(line + "\x1b[K\r\n")
		}
		page.WriteString("\x1b[J")
		_, _ = io.WriteString(tty, page.String())
	}
	return follow(ctx, flags, "snapshot,change,call", func(e terminal.Event) error {
		screen.Take(e)
		if e.Snapshot != nil {
			draw("")
		}
		return nil
	}, func(err error) { draw(err.Error() + "; trying again") })
}

// followGateway passes on the events of topics of the live feed, and writes to stderr
// when the feed is interrupted.
func followGateway(ctx context.Context, flags *remoteFlags, topics string, stderr io.Writer,
	on func(terminal.Event) error) error {
	return follow(ctx, flags, topics, on, func(err error) { fmt.Fprintf(stderr, "%v; trying again\n", err) })
}

func follow(ctx context.Context, flags *remoteFlags, topics string, on func(terminal.Event) error,
	lost func(error)) error {
	at, err := flags.remote()
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	open := func(ctx context.Context, lastID string) (io.ReadCloser, error) {
		query := url.Values{"topics": {topics}}
		if lastID != "" {
			query.Set("lastEventId", lastID)
		}
		response, err := at.open(ctx, http.MethodGet, "/api/monitoring/live?"+query.Encode(), nil, "")
		if err != nil {
			return nil, err
		}
		return response.Body, nil
	}
	err = terminal.Follow(ctx, open, on, lost)
	if errors.Is(err, context.Canceled) {
		return nil // a signal is the usual end
	}
	return failed(err)
}

// isColourful reports whether text may be coloured: on a terminal, unless the environment
// forbids it.
func isColourful(w io.Writer, env []string) bool {
	_, isTerminal := terminalOf(w)
	return isTerminal && mayColour(env)
}
