package main

import (
	"cmp"
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

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/governor"
)

func newRuns(env []string, stdout io.Writer) *cobra.Command {
	cmd := newRunsList(env, stdout)
	cmd.Use = "runs"
	cmd.Short = "List, show, raise and end the runs of agents"
	cmd.Long = `Lists the runs of agents that a gateway knows (runs of its configuration file) as list
does, shows one with its calls, raises the limits of one, and ends one.

` + remotePlaces
	cmd.Example = `  patchbay runs --sort cost
  patchbay runs show run_9f2c
  patchbay runs raise run_9f2c --cost 5 --url https://gateway.example --token "$TOKEN"`
	cmd.AddCommand(newRunsList(env, stdout), newRunsShow(env, stdout), newRunsRaise(env, stdout),
		newRunsEnd(env, stdout))
	return cmd
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

// row returns the run as a row of the table.
func (l *runLine) row(now time.Time) string {
	return strings.Join([]string{
		l.ID, string(l.State), l.lasted(now), now.Sub(l.Last).Truncate(time.Second).String() + " ago", l.cost(),
		l.tokens(), l.requests(), orDash(l.Key), orDash(l.Model), orDash(web.CutText(l.Name, 40)),
	}, "\t")
}

func orDash(text string) string { return cmp.Or(oneLine(text), "-") }

// said returns the state of the run as a sentence.
func (l *runLine) said() string {
	return fmt.Sprintf("%s is %s: used %s %s, %s tokens, %s requests\n", l.ID, l.State, l.cost(), l.Currency,
		l.tokens(), l.requests())
}

// writeTo writes the run for people, with its latest calls.
func (l *runLine) writeTo(to io.Writer, now time.Time) error {
	const most = 20
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range [...][2]string{
		{"run", l.ID}, {"name", l.Name}, {"known by", l.Sign}, {"state", string(l.State)}, {"why", l.Reason},
		{"key", l.Key}, {"tenant", l.Tenant}, {"user", l.User}, {"model", l.Model},
		{"began", l.Started.Format(time.RFC3339)}, {"lasts", l.lasted(now)}, {"last call", l.Last.Format(time.RFC3339)},
		{"in progress", strconv.Itoa(l.UnderWay)}, {"sub-agents", strconv.Itoa(l.Agents)},
		{"cost", l.cost() + " " + l.Currency}, {"tokens", l.tokens()}, {"requests", l.requests()}, {"loop", l.loop()},
	} {
		if row[1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", row[0], oneLine(row[1]))
		}
	}
	if err := table.Flush(); err != nil || len(l.Calls) == 0 {
		return err
	}
	fmt.Fprintln(table, "\nTIME\tMODEL\tOUTCOME\tTOOK\tTOKENS\tCOST\tREQUEST")
	for _, c := range l.Calls[:min(most, len(l.Calls))] {
		took := time.Duration(c.DurationMs * float64(time.Millisecond)).Round(time.Millisecond)
		fmt.Fprintln(table, strings.Join([]string{
			c.Time.Format(time.RFC3339), orDash(c.Model), cmp.Or(c.ErrorCode, c.Outcome), took.String(),
			number(c.Usage.TotalTokens), strconv.FormatFloat(float64(c.Cost)/1e6, 'f', -1, 64), oneLine(c.RequestID),
		}, "\t"))
	}
	if more := len(l.Calls) - most; more > 0 {
		fmt.Fprintf(table, "%d more calls: --json has them\n", more)
	}
	return table.Flush()
}

// loop says which rule about loops the latest call broke, and is empty for none.
func (l *runLine) loop() string {
	if l.Loop == nil {
		return ""
	}
	return fmt.Sprintf("%s, %d turns, since %s (%s)", l.Loop.Rule, l.Loop.Count, l.Loop.At.Format(time.RFC3339),
		l.Loop.Action)
}

// runsAsked are the flags that choose runs, as the operation has them.
type runsAsked struct {
	state, key, tenant, search, since, sort string
	page                                    int
}

func (a *runsAsked) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&a.sort, "sort", "", "what the greatest is first of: last, started, cost, tokens or requests "+
		"(default last)")
	flags.StringVar(&a.state, "state", "", "only runs in a state: running, waiting, stopped, ended or over")
	flags.StringVar(&a.since, "since", "", "add runs that are over and began since a time, such as "+
		"2026-11-18T08:00:00Z, or so long ago, such as 24h; 8 days are kept")
	flags.StringVar(&a.key, "owner-key", "", "only runs of the API key with this id")
	flags.StringVar(&a.tenant, "tenant", "", "only runs of a tenant")
	flags.StringVar(&a.search, "search", "", "only runs with this text in their id, name, key, tenant, user or model")
	flags.IntVar(&a.page, "page", 1, "which hundred of the list to show")
}

// query returns the query of the operation.
func (a *runsAsked) query(now time.Time) (string, error) {
	const mostShown = "100"
	query := url.Values{"size": {mostShown}, "page": {strconv.Itoa(a.page)}}
	since := a.since
	if ago, err := time.ParseDuration(since); err == nil {
		since = now.Add(-ago).UTC().Format(time.RFC3339)
	} else if _, err := time.Parse(time.RFC3339, since); err != nil && since != "" {
		return "", errors.New("--since: want a time such as 2026-11-18T08:00:00Z, or how long ago, such as 24h")
	}
	for name, value := range map[string]string{"state": strings.ToUpper(a.state), "key": a.key, "tenant": a.tenant,
		"search": a.search, "since": since, "sort": a.sort} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query.Encode(), nil
}

func newRunsList(env []string, stdout io.Writer) *cobra.Command {
	asked, query := &runsAsked{}, ""
	cmd := newRemoteVerb(env, &cobra.Command{
		Use:   "list",
		Short: "List the runs: their state, what they used of their limits, whose they are",
		Example: `  patchbay runs list --state stopped
  patchbay runs list --since 168h --sort cost
  patchbay runs list --json`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, flags *verbFlags, r *remote, _ []string) error {
		var found web.PageView[jsontext.Value]
		if err := r.ask(ctx, http.MethodGet, "/api/runs?"+query, nil, &found); err != nil {
			return err
		}
		if flags.json {
			return writeJSON(stdout, web.NotNil(found.Content))
		}
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tSTATE\tLASTS\tLAST CALL\tCOST\tTOKENS\tREQUESTS\tKEY\tMODEL\tNAME")
		for _, content := range found.Content {
			var line runLine
			if err := json.Unmarshal(content, &line); err != nil {
				return r.strange(http.StatusOK)
			}
			fmt.Fprintln(table, line.row(time.Now()))
		}
		if page := found.Page; page.Number < page.TotalPages {
			fmt.Fprintf(table, "page %d of %d, %d runs: --page %d shows the next\n", page.Number, page.TotalPages,
				page.TotalElements, page.Number+1)
		}
		return table.Flush()
	})
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		query, err = asked.query(time.Now())
		return err
	}
	asked.register(cmd)
	return cmd
}

// newRunVerb completes a command about one run. The function do returns how the run is asked for.
func newRunVerb(env []string, stdout io.Writer, cmd *cobra.Command,
	do func() (method, action string, wanted any), write func(*runLine) error) *cobra.Command {
	cmd.Args = oneArg("id", "run", "patchbay runs list shows the ids")
	return newRemoteVerb(env, cmd, func(ctx context.Context, flags *verbFlags, r *remote, args []string) error {
		var content jsontext.Value
		method, action, wanted := do()
		if err := r.ask(ctx, method, "/api/runs/"+url.PathEscape(args[0])+action, wanted, &content); err != nil {
			return err
		}
		if flags.json {
			return writeJSON(stdout, content)
		}
		var line runLine
		if err := json.Unmarshal(content, &line); err != nil {
			return r.strange(http.StatusOK)
		}
		return write(&line)
	})
}

func newRunsShow(env []string, stdout io.Writer) *cobra.Command {
	return newRunVerb(env, stdout, &cobra.Command{
		Use:   "show ID",
		Short: "Show a run: its use, its limits, why it is refused, and its latest calls",
		Example: `  patchbay runs show run_9f2c
  patchbay runs show run_9f2c --json`,
	}, func() (method, action string, wanted any) { return http.MethodGet, "", nil },
		func(line *runLine) error { return line.writeTo(stdout, time.Now()) })
}

// tell returns the function that writes the state of a run as a sentence.
func tell(stdout io.Writer) func(*runLine) error {
	return func(line *runLine) error {
		_, err := io.WriteString(stdout, line.said())
		return err
	}
}

func newRunsRaise(env []string, stdout io.Writer) *cobra.Command {
	var by struct {
		Cost     string `json:"cost,omitzero"`
		Tokens   int64  `json:"tokens,omitzero"`
		Requests int64  `json:"requests,omitzero"`
		Time     string `json:"time,omitzero"`
	}
	var longer time.Duration
	cmd := newRunVerb(env, stdout, &cobra.Command{
		Use:   "raise ID",
		Short: "Add amounts to the limits of a run, and let one go on that was stopped or ended",
		Long: `Adds amounts to the limits of a run. A run that was stopped at a limit, for a loop, or
ended goes on with its next call. Without an amount only such a stop is lifted.

` + remotePlaces,
		Example: `  patchbay runs raise run_9f2c --cost 5
  patchbay runs raise run_9f2c --requests 100 --time 1h
  patchbay runs raise run_9f2c`,
	}, func() (method, action string, wanted any) {
		if longer != 0 {
			by.Time = longer.String()
		}
		return http.MethodPost, "/raise", &by
	}, tell(stdout))
	cmd.Flags().StringVar(&by.Cost, "cost", "", "money to add, in the currency of prices, such as 2.50")
	cmd.Flags().Int64Var(&by.Tokens, "tokens", 0, "tokens to add")
	cmd.Flags().Int64Var(&by.Requests, "requests", 0, "requests to add")
	cmd.Flags().DurationVar(&longer, "time", 0, "time to add, such as 1h")
	return cmd
}

func newRunsEnd(env []string, stdout io.Writer) *cobra.Command {
	var isNow bool
	cmd := newRunVerb(env, stdout, &cobra.Command{
		Use:   "end ID",
		Short: "End a run: its next calls are refused",
		Example: `  patchbay runs end run_9f2c
  patchbay runs end run_9f2c --now`,
	}, func() (method, action string, wanted any) {
		return http.MethodPost, "/end?now=" + strconv.FormatBool(isNow), nil
	}, tell(stdout))
	cmd.Flags().BoolVar(&isNow, "now", false, "cut its calls in progress, too")
	return cmd
}
