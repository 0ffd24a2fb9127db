package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/governor"
)

func newRuns(env []string) *cobra.Command {
	return newFamily(flagsIn(env), "run", true, remoteVerb{
		use:   "runs",
		short: "List, show, raise and end the runs of agents",
		long: `Lists the runs of agents that a gateway knows (runs of its configuration file) as list
does, shows one with its calls, raises the limits of one, and ends one.

` + remotePlaces,
		example: `  patchbay runs --sort cost
  patchbay runs show run_9f2c
  patchbay runs raise run_9f2c --cost 5 --url https://gateway.example --token "$TOKEN"`,
	}, remoteVerb{
		use: "list", asks: "GET /api/runs?size=100", prints: reply(printRuns),
		short: "List the runs: their state, what they used of their limits, whose they are",
		example: `  patchbay runs list --state stopped
  patchbay runs list --since 168h --sort cost
  patchbay runs list --json`,
		flags: []flag{
			{"sort", "?sort", "", "what the greatest is first of: last, started, cost, tokens or requests " +
				"(default last)", nil},
			{"state", "?state", "", "only runs in a state: running, waiting, stopped, ended or over",
				func(values []string) (any, error) { return strings.ToUpper(values[0]), nil }},
			{"since", "?since", "", "add runs that are over and began since a time, such as " +
				"2026-11-18T08:00:00Z, or so long ago, such as 24h; 8 days are kept", readSince},
			{"owner-key", "?key", "", "only runs of the API key with this id", nil},
			{"tenant", "?tenant", "", "only runs of a tenant", nil},
			{"search", "?search", "", "only runs with this text in their id, name, key, tenant, user or model", nil},
			{"page", "?page", 1, "which hundred of the list to show", nil},
		},
	}, remoteVerb{
		use: "show ID", asks: "GET /api/runs/{id}", prints: printRun((*runLine).writeTo),
		short: "Show a run: its use, its limits, why it is refused, and its latest calls",
		example: `  patchbay runs show run_9f2c
  patchbay runs show run_9f2c --json`,
	}, remoteVerb{
		use: "raise ID", asks: "POST /api/runs/{id}/raise", prints: printRun((*runLine).say),
		short: "Add amounts to the limits of a run, and let one go on that was stopped or ended",
		long: `Adds amounts to the limits of a run. A run that was stopped at a limit, for a loop, or
ended goes on with its next call. Without an amount only such a stop is lifted.

` + remotePlaces,
		example: `  patchbay runs raise run_9f2c --cost 5
  patchbay runs raise run_9f2c --requests 100 --time 1h
  patchbay runs raise run_9f2c`,
		flags: []flag{
			{"cost", "cost", "", "money to add, in the currency of prices, such as 2.50", nil},
			{"tokens", "tokens", int64(0), "tokens to add", nil},
			{"requests", "requests", int64(0), "requests to add", nil},
			{"time", "time", time.Duration(0), "time to add, such as 1h", nil},
		},
	}, remoteVerb{
		use: "end ID", asks: "POST /api/runs/{id}/end", prints: printRun((*runLine).say),
		short: "End a run: its next calls are refused",
		example: `  patchbay runs end run_9f2c
  patchbay runs end run_9f2c --now`,
		flags: []flag{{"now", "?now", false, "cut its calls in progress, too", nil}},
	})
}

// readSince reads a time, or how long ago it is.
func readSince(values []string) (any, error) {
	if ago, err := time.ParseDuration(values[0]); err == nil {
		return time.Now().Add(-ago).UTC().Format(time.RFC3339), nil
	}
	if _, err := time.Parse(time.RFC3339, values[0]); err != nil && values[0] != "" {
		return nil, errors.New("--since: want a time such as 2026-11-18T08:00:00Z, or how long ago, such as 24h")
	}
	return values[0], nil
}

// printRuns prints a page of the list of runs.
func printRuns(a *asking, found *web.PageView[jsontext.Value]) error {
	if a.json {
		return writeJSON(a.out(), web.NotNil(found.Content))
	}
	now, rows := time.Now(), [][]string{{"ID\tSTATE\tLASTS\tLAST CALL\tCOST\tTOKENS\tREQUESTS\tKEY\tMODEL\tNAME"}}
	for _, content := range found.Content {
		var l runLine
		if json.Unmarshal(content, &l) != nil {
			return a.strange(http.StatusOK)
		}
		rows = append(rows, []string{
			l.ID, string(l.State), l.lasted(now), now.Sub(l.Last).Truncate(time.Second).String() + " ago", l.cost(),
			l.tokens(), l.requests(), orDash(l.Key), orDash(l.Model), orDash(web.CutText(l.Name, 40)),
		})
	}
	if page := found.Page; page.Number < page.TotalPages {
		rows = append(rows, []string{fmt.Sprintf("page %d of %d, %d runs: --page %d shows the next", page.Number,
			page.TotalPages, page.TotalElements, page.Number+1)})
	}
	return writeTable(a.out(), rows)
}

// printRun prints one run.
func printRun(write func(*runLine, io.Writer) error) func(*asking) error {
	return reply(func(a *asking, line *runLine) error {
		if a.json {
			return writeJSON(a.out(), a.data)
		}
		return write(line, a.out())
	})
}

// runLine is a run as the gateway shows it, with its calls where they are asked for.
type runLine struct {
	governor.RunView
	Calls []runCall `json:"calls"`
}

// runCall is the part of a call that is shown with its run.
type runCall struct {
	RequestID  string    `json:"requestId"`
	Time       time.Time `json:"time"`
	Model      string    `json:"model"`
	Outcome    string    `json:"outcome"`
	ErrorCode  string    `json:"errorCode"`
	DurationMs float64   `json:"durationMs"`
	Usage      struct {
		TotalTokens int64 `json:"totalTokens"`
	} `json:"usage"`
	Cost int64 `json:"cost"`
}

// usedOf returns an amount that was used, with its limit where there is one.
func usedOf(used, limit string) string {
	if limit == "0" {
		return used
	}
	return used + " of " + limit
}

func (l *runLine) requests() string {
	return usedOf(number(l.Used.Requests), number(l.Limits.Requests))
}
func (l *runLine) tokens() string { return usedOf(number(l.Used.Tokens), number(l.Limits.Tokens)) }
func (l *runLine) cost() string   { return usedOf(l.Used.Cost.Money(), l.Limits.Cost.Money()) }

func number(n int64) string { return strconv.FormatInt(n, 10) }

// lasted returns the time since the first call of the run, with its limit where there is one.
func (l *runLine) lasted(now time.Time) string {
	text := now.Sub(l.Started).Truncate(time.Second).String()
	if limit := l.Limits.Time; limit > 0 {
		return usedOf(text, limit.String())
	}
	return text
}

func orDash(text string) string { return cmp.Or(oneLine(text), "-") }

// say writes the state of the run as a sentence.
func (l *runLine) say(to io.Writer) error {
	_, err := fmt.Fprintf(to, "%s is %s: used %s %s, %s tokens, %s requests\n", l.ID, l.State, l.cost(), l.Currency,
		l.tokens(), l.requests())
	return err
}

// writeTo writes the run for people, with its latest calls.
func (l *runLine) writeTo(to io.Writer) error {
	const most = 20
	var rows [][]string
	for _, row := range [][]string{
		{"run", l.ID}, {"name", l.Name}, {"known by", l.Sign}, {"state", string(l.State)}, {"why", l.Reason},
		{"key", l.Key}, {"tenant", l.Tenant}, {"user", l.User}, {"model", l.Model},
		{"began", l.Started.Format(time.RFC3339)}, {"lasts", l.lasted(time.Now())},
		{"last call", l.Last.Format(time.RFC3339)},
		{"in progress", strconv.Itoa(l.UnderWay)}, {"sub-agents", strconv.Itoa(l.Agents)},
		{"cost", l.cost() + " " + l.Currency}, {"tokens", l.tokens()}, {"requests", l.requests()}, {"loop", l.loop()},
	} {
		if row[1] = oneLine(row[1]); row[1] != "" {
			rows = append(rows, row)
		}
	}
	if err := writeTable(to, rows); err != nil || len(l.Calls) == 0 {
		return err
	}
	rows = [][]string{{"\nTIME\tMODEL\tOUTCOME\tTOOK\tTOKENS\tCOST\tREQUEST"}}
	for _, c := range l.Calls[:min(most, len(l.Calls))] {
		took := time.Duration(c.DurationMs * float64(time.Millisecond)).Round(time.Millisecond)
		rows = append(rows, []string{
			c.Time.Format(time.RFC3339), orDash(c.Model), cmp.Or(c.ErrorCode, c.Outcome), took.String(),
			number(c.Usage.TotalTokens), strconv.FormatFloat(float64(c.Cost)/1e6, 'f', -1, 64), oneLine(c.RequestID),
		})
	}
	if more := len(l.Calls) - most; more > 0 {
		rows = append(rows, []string{fmt.Sprintf("%d more calls: --json has them", more)})
	}
	return writeTable(to, rows)
}

// loop says which rule about loops the latest call broke, and is empty for none.
func (l *runLine) loop() string {
	if l.Loop == nil {
		return ""
	}
	return fmt.Sprintf("%s, %d turns, since %s (%s)", l.Loop.Rule, l.Loop.Count, l.Loop.At.Format(time.RFC3339),
		l.Loop.Action)
}
