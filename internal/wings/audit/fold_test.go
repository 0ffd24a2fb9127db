package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/wings/audit"
)

// running runs a function while a writer works in a directory, in a bubble, and returns the records.
func running(t *testing.T, do func(ctx context.Context, w *audit.Writer)) (all []audit.Record) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := open(t, dir)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { w.Run(ctx); close(done) }()
		do(ctx, w)
		cancel()
		<-done
		w.Close()
		all = records(t, dir)
		holds(t, dir)
	})
	return all
}

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of a synctest bubble
}

// act is an operation of a caller with a role; without one it is a stranger at the address who.
func act(who, role, action, object, result string) audit.Act {
	a := audit.Act{Record: audit.Record{Time: audit.Stamp(time.Now()), Who: who, Role: role, Address: "10.0.0.1", Action: action, Object: object, Result: result},
		Caller: who, IsLimited: role != "ADMIN" && role != "OPERATOR"}
	if role == "" {
		a.Who, a.Address, a.IsStranger = "", who, true
	}
	return a
}

// linesOf returns the records in a form to compare; count and last belong together.
func linesOf(t *testing.T, all []audit.Record) (lines []string) {
	t.Helper()
	for _, r := range all {
		line := strings.Join([]string{r.Gateway, r.Who, r.Address, r.Action, r.Object, r.Result}, "|")
		if r.Count > 0 {
			line += fmt.Sprint("|", r.Count)
		}
		if (r.Count > 0) != (r.Last != "") || r.Last != "" && r.Last < r.Time {
			t.Errorf("got %+v, want a last one not before the first one", r)
		}
		lines = append(lines, line)
	}
	return lines
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Of equal operations within a minute the first is a record at once, and the others are one more.
func TestEqualOperationsAreFolded(t *testing.T) {
	t.Parallel()
	all := running(t, func(ctx context.Context, w *audit.Writer) {
		end := func(a audit.Act, change ...func(*audit.Act)) {
			for _, c := range change {
				c(&a)
			}
			id := ""
			if a.SignsIn || a.Folds {
				var err error
				if id, err = w.Begin(ctx, a); err != nil {
					t.Fatal(err)
				}
			}
			w.End(ctx, id, a)
		}
		for range 3 {
			end(act("10.0.0.1", "", "GET /api/x", "/api/x", "401 refused"))
			end(act("10.0.0.1", "", "GET /api/z", "/api/z", "401 refused"))
			end(act("10.0.0.2", "", "POST /api/y", "/api/y", "401 refused"))
			end(act("viewer", "VIEWER", "POST /api/y", "/api/y", "403 refused"))
			end(act("viewer", "VIEWER", "POST /api/y", "/api/other", "403 refused"))
			end(act("adm", "ADMIN", "POST /api/auth/session", "s", "201 done"), func(a *audit.Act) { a.SignsIn = true })
			end(act("ann", "MEMBER", "POST /api/me/keys/{id}/rotate", "me-1", "200 done"), func(a *audit.Act) { a.Folds = true })
			end(act("ann", "MEMBER", "POST /api/me/keys", "me-2", "201 done"))
		}
		w.Fold(ctx, false)
		pass(70 * time.Second)
		end(act("10.0.0.1", "", "GET /api/x", "/api/x", "401 refused"))
		pass(70 * time.Second)
	})
	compare(t, linesOf(t, all), []string{
		"g1/low||10.0.0.1|sign-in||refused", "g1/low||10.0.0.2|sign-in||refused",
		"g1/low|viewer|10.0.0.1|POST /api/y|/api/y|403 refused", "g1/low|viewer|10.0.0.1|POST /api/y|/api/other|403 refused",
		"g1/low|adm|10.0.0.1|POST /api/auth/session|s|201 done", "g1/low|ann|10.0.0.1|POST /api/me/keys/{id}/rotate|me-1|200 done",
		"g1/low|ann|10.0.0.1|POST /api/me/keys|me-2|201 done", "g1/low|ann|10.0.0.1|POST /api/me/keys|me-2|201 done", "g1/low|ann|10.0.0.1|POST /api/me/keys|me-2|201 done",
		"g1/low|viewer|10.0.0.1|POST /api/y|/api/other|403 refused|2", "g1/low|viewer|10.0.0.1|POST /api/y|/api/y|403 refused|2",
		"g1/low||10.0.0.1|sign-in||refused|5", "g1/low||10.0.0.2|sign-in||refused|2",
		"g1/low|ann|10.0.0.1|POST /api/me/keys/{id}/rotate|me-1|200 done|2", "g1/low|adm|10.0.0.1|POST /api/auth/session|s|201 done|2",
		"g1/low||10.0.0.1|sign-in||refused",
	})
}

// A caller below OPERATOR has at most 60 records of refused operations within a minute, and one of all others.
func TestACallerHasABoundedNumberOfRecords(t *testing.T) {
	t.Parallel()
	for role, want := range map[string]int{"VIEWER": 61, "MEMBER": 61, "OPERATOR": 500, "ADMIN": 500} {
		all := running(t, func(ctx context.Context, w *audit.Writer) {
			for i := range 500 {
				w.End(ctx, "", act("caller", role, "POST /api/y", fmt.Sprint("/api/", i), "403 refused"))
				if i%50 == 0 {
					w.Fold(ctx, false) // a reader looks
				}
			}
			w.End(ctx, "", act("another", "VIEWER", "POST /api/y", "/api/y", "403 refused"))
		})
		if len(all) != want+1 || all[len(all)-1].Gateway != "g1/low" {
			t.Errorf("%s: got %d records, want %d", role, len(all)-1, want)
		}
		if last := all[len(all)-1]; want == 61 && (last.Action != audit.Folded || last.Count != 440 || last.Who != "caller") {
			t.Errorf("%s: got %+v, want the rest in one record", role, last)
		}
	}
}

// At most 64 callers without a credential are told apart, by IPv4 address or IPv6 network.
func TestStrangersAreBounded(t *testing.T) {
	t.Parallel()
	all := running(t, func(ctx context.Context, w *audit.Writer) {
		for i := range 50_000 {
			w.End(ctx, "", act(fmt.Sprint("many", i), "", "GET /api/x", "/api/x", "401 refused"))
		}
	})
	if last := all[len(all)-1]; len(all) != 66 || last.Object != "several addresses" || last.Address != "" || last.Count != 50_000-65 {
		t.Errorf("got %d records and at last %+v, want 64 addresses and all others", len(all), last)
	}
	all = running(t, func(ctx context.Context, w *audit.Writer) {
		for i := range 100 {
			a := act(fmt.Sprintf("2001:db8::%x", i+1), "", "GET /api/x", "/api/x", "401 refused")
			a.Caller = "2001:db8::/64"
			w.End(ctx, "", a)
		}
	})
	compare(t, linesOf(t, all), []string{"g1/low||2001:db8::1|sign-in||refused", "g1/low||2001:db8::/64|sign-in||refused|99"})
}

// A caller below OPERATOR makes at most 60 changes that are recorded within a minute.
func TestChangesAreLimited(t *testing.T) {
	t.Parallel()
	for role, want := range map[string]int{"VIEWER": 60, "TEAM_ADMIN": 60, "OPERATOR": 200, "ADMIN": 200} {
		running(t, func(ctx context.Context, w *audit.Writer) {
			made := 0
			change := func(result string) error {
				a := act("caller", role, "POST /api/y", "/api/y", "")
				id, err := w.Begin(ctx, a)
				if err != nil {
					return err
				}
				if a.Result = result; result == "" {
					w.Drop(ctx, id, a)
				} else {
					w.End(ctx, id, a)
				}
				return nil
			}
			for range 100 { // neither is recorded as a change
				if err := errors.Join(change("400 refused"), change("")); err != nil {
					t.Errorf("%s: a change that is none is refused: %v", role, err)
				}
			}
			for range 200 {
				if change("200 done") == nil {
					made++
				}
			}
			var many *audit.TooMany
			if err := change("200 done"); made != want || errors.As(err, &many) != (want == 60) {
				t.Errorf("%s: made %d changes, want %d; %v", role, made, want, err)
			}
			if want == 60 {
				pass(many.Wait)
				if err := change("200 done"); err != nil {
					t.Errorf("%s: after the time to wait: %v", role, err)
				}
			}
		})
	}
}

// The last one of folded operations is known after a kill.
func TestAFoldedOperationIsKnownAfterAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, dir)
	for range 5 {
		a := act("ann", "MEMBER", "POST /api/me/keys/{id}/rotate", "me-1", "200 done")
		a.Folds = true
		id, err := w.Begin(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		w.End(t.Context(), id, a)
	}
	next := open(t, dir) // the first one did not close
	do(t, next, "after")
	next.Close()
	var got []string
	for _, r := range records(t, dir) {
		got = append(got, r.Action+" "+r.Result)
	}
	compare(t, got, []string{"after 200 done", "POST /api/me/keys/{id}/rotate 200 done", "POST /api/me/keys/{id}/rotate unknown: the gateway stopped before the end"})
	holds(t, dir)
}
