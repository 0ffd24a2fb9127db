//go:build unix

package governor

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
)

// conversation is the body of an agent's call with about so many bytes: results of tools, and calls.
func conversation(size, turn int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"fix the test"}`)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":`+
			`{"name":"read","arguments":"{\"path\":\"f%d\"}"}}]},{"role":"tool","tool_call_id":"c%d","content":%q}`,
			i, i, i, strings.Repeat("a line of a file\n", min(40, size/40)))
	}
	fmt.Fprintf(&b, `,{"role":"user","content":"turn %d"}]}`, turn)
	return b.Bytes()
}

// governed returns a governor with limits and rules about loops, and a ledger in a folder.
func governed(b *testing.B) *Governor {
	settings := runs.DefaultSettings()
	settings.Limits = budget.RunLimits{Cost: 1 << 60, Tokens: 1 << 50, Requests: 1 << 50, Time: schema.Duration(time.Hour)}
	counted := quota.DefaultSettings()
	counted.Windows = []quota.Window{quota.BudgetRun}
	dir := b.TempDir()
	open := func(ctx context.Context) (quota.Snapshots, error) { return sqlstore.Open(ctx, "sqlite:totals.db", dir) }
	g := New(Options{
		Settings: settings, Currency: func() string { return "USD" }, Log: slog.New(slog.DiscardHandler),
		Book: func(r *budget.Runs) *budget.Book {
			r.Found = nil
			return budget.New(budget.Options{
				Ledger: quota.New(counted, quota.Options{Dir: filepath.Join(dir, "runs"), OpenSnapshots: open}),
				Runs:   r,
			})
		},
	})
	b.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

// BenchmarkCall is the whole work of a governor for one call of an agent: the run is found, the rules
// about loops read the body, and amounts are reserved, counted in the journal and settled.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10, 100 << 10} {
		for name, repeats := range map[string]int{"loops": 8, "limits": 0} {
			b.Run(fmt.Sprintf("%s/%dKB", name, size>>10), func(b *testing.B) {
				g := governed(b)
				g.options.Settings.Loops.Repeats = repeats
				const bodies = 16
				var requests [bodies]*schema.Request
				for i := range requests {
					requests[i] = &schema.Request{Door: schema.DoorChat}
					if err := requests[i].ParseChat(conversation(size, i)); err != nil {
						b.Fatal(err)
					}
				}
				header := http.Header{"X-Claude-Code-Session-Id": {"0f3a9c52-3b1d-4c57-9a55-bb1f8f4e2d10"}}
				caller := &access.Caller{KeyID: "k", Header: header}
				b.ReportMetric(float64(len(requests[0].Body.Data())), "bytes/call")
				b.ReportAllocs()
				a := &account.Account{Caller: caller, Record: new(calls.Record)} // a request has them anyway
				began := usedTime(b)
				b.ResetTimer()
				for n := range b.N {
					a.Asks = requests[n%bodies]
					turn, err := g.Enter(b.Context(), a)
					if err != nil || turn == nil {
						b.Fatal(turn, err)
					}
					charge := budget.Charge{Run: turn.Account()}
					if refused, err := charge.Reserve(b.Context(), [2]*budget.Account{}, budget.Exactly(budget.Amounts{1, 500, 1000}), time.Now()); refused != nil || err != nil {
						b.Fatal(refused, err)
					}
					charge.Count()
					charge.Settle(schema.Usage{Total: 400, Known: true}, 900)
					turn.Leave(account.End{Model: "m", Input: int64(n), Output: 9})
				}
				// What a call takes of a processor is the same on a busy machine.
				b.ReportMetric(float64(usedTime(b)-began)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// usedTime returns the processor time that this process has taken.
func usedTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
