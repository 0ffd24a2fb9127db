// Package board shows gateways each other's runs of agents: whose each is, when it began, why it is
// stopped and what people decided about it. What a run has used is told by its budget.
package board

import (
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
)

// Run is a run as a gateway shows it to the others.
type Run struct {
	// ID is the public id; the other texts are those of the requests of the run.
	ID     string `json:"id"`
	Owner  string `json:"owner,omitzero"`
	Tenant string `json:"tenant,omitzero"`
	User   string `json:"user,omitzero"`
	Name   string `json:"name"`
	Sign   string `json:"sign,omitzero"`
	Model  string `json:"model,omitzero"`
	// Began and Used are the times of the first and of the latest request.
	Began time.Time `json:"began"`
	Used  time.Time `json:"used"`
	// Limits are those of gateway, tenant and key, and Terms the decisions of people, as
	// budget.Terms writes them.
	Limits budget.RunLimits `json:"limits"`
	Terms  string           `json:"terms"`
	// Code and Reason say why requests of the run are refused.
	Code   string `json:"code,omitzero"`
	Reason string `json:"reason,omitzero"`
}

// Board is where gateways show their runs. It may be used by several goroutines.
type Board interface {
	// Tell shows runs, in place of what was told of them before. It returns how many of them, the first
	// ones, were told.
	Tell(ctx context.Context, runs []Run) (told int, err error)
	// Since returns the runs of which something was told since a moment, and maybe earlier ones.
	Since(ctx context.Context, since time.Time) ([]Run, error)
	// Displaced returns the ids of runs that this gateway has told and that are not found any more,
	// because others have removed or replaced them.
	Displaced(ctx context.Context) ([]string, error)
	// Sweep removes the runs of which nothing was told since a moment.
	Sweep(ctx context.Context, before time.Time) error
	Close()
}

// longestText bounds the texts of a run on the board.
const longestText = 1000

// write returns a run as a text.
func write(r *Run) ([]byte, error) {
	told := *r
	told.Reason = strings.ToValidUTF8(told.Reason[:min(len(told.Reason), longestText)], "")
	return json.Marshal(told, json.Deterministic(true))
}

// read reads a run that write has written.
func read(text []byte) (r Run, ok bool) {
	err := json.Unmarshal(text, &r)
	return r, err == nil && r.ID != "" && r.Name != ""
}
