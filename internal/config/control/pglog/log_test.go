package pglog_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// How several gateways behave on one log is tested in internal/config/control; here is
// what the log itself promises them. The tests share a server, and each has
// tables of its own.
func TestLog(t *testing.T) {
	server := storetest.Postgres(t)
	for name, test := range map[string]func(t *testing.T, address string){
		"an empty log":                 emptyLog,
		"versions":                     versionsAreKept,
		"the head":                     head,
		"values":                       values,
		"what is not committed":        notCommitted,
		"one writer at a time":         oneWriter,
		"a reader sees one moment":     oneMoment,
		"listeners":                    listeners,
		"a connection that was broken": brokenConnection,
		"tables made by another":       tablesOfAnother,
		"a version of a newer release": newerVersion,
	} {
		t.Run(name, func(t *testing.T) { test(t, newSchema(t, server)) })
	}
}

// newSchema makes a schema for the test and returns the address that leads there.
func newSchema(t *testing.T, server *storetest.Server) string {
	t.Helper()
	name := "s" + strings.ToLower(rand.Text())
	execute(t, server.URL, "CREATE SCHEMA "+name)
	return server.URL + "&search_path=" + name
}

func execute(t *testing.T, address string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func open(t *testing.T, address string) *pglog.Log {
	t.Helper()
	log, err := pglog.New(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}

// begin begins a transaction. The first one makes the tables, for which a busy machine
// may need longer than a gateway waits; it asks again, as a gateway does.
func begin(t *testing.T, log *pglog.Log, writes bool) control.Transaction {
	t.Helper()
	for {
		tx, err := log.Begin(t.Context(), writes)
		if err == nil {
			return tx
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
}

// write does something in a transaction and commits it.
func write(t *testing.T, log *pglog.Log, do func(control.Transaction) error) {
	t.Helper()
	tx := begin(t, log, true)
	defer tx.End()
	if err := errors.Join(do(tx), tx.Commit()); err != nil {
		t.Fatal(err)
	}
}

// read does something in a transaction that only reads.
func read(t *testing.T, log *pglog.Log, do func(control.Transaction)) {
	t.Helper()
	tx := begin(t, log, false)
	defer tx.End()
	do(tx)
}

func headOf(t *testing.T, tx control.Transaction) control.Head {
	t.Helper()
	h, err := tx.Head()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func numbersOf(t *testing.T, tx control.Transaction) []int {
	t.Helper()
	numbers, err := tx.Versions()
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

func version(number int, summary string) *control.Version {
	return &control.Version{
		Number: number, CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Origin: control.FromAPI, Author: "a\x00b", Summary: summary,
		Services: control.Services{schema.Chat: config.DefaultService()},
	}
}

func emptyLog(t *testing.T, address string) {
	log := open(t, address)
	read(t, log, func(tx control.Transaction) {
		if h := headOf(t, tx); h.Version != 0 || h.Newest != 0 || h.Log != "" || h.Revision != 0 {
			t.Errorf("head %+v", h)
		}
		if numbers := numbersOf(t, tx); len(numbers) != 0 {
			t.Errorf("versions %v", numbers)
		}
		if _, err := tx.Load(1); !errors.Is(err, versions.ErrNoVersion) {
			t.Errorf("%v", err)
		}
		if newest, err := tx.NewestValue(); newest != 0 || err != nil {
			t.Errorf("newest value %d, %v", newest, err)
		}
	})
}

func versionsAreKept(t *testing.T, address string) {
	log := open(t, address)
	write(t, log, func(tx control.Transaction) error {
		return errors.Join(tx.Save(version(3, "three")), tx.Save(version(1, "one \x00")), tx.Save(version(2, "two")))
	})
	write(t, log, func(tx control.Transaction) error { return tx.Remove(2, 77) })
	read(t, log, func(tx control.Transaction) {
		if numbers := numbersOf(t, tx); !slices.Equal(numbers, []int{1, 3}) {
			t.Errorf("versions %v", numbers)
		}
		if _, err := tx.Load(2); !errors.Is(err, versions.ErrNoVersion) {
			t.Errorf("a version that was removed: %v", err)
		}
		got, err := tx.Load(3)
		if err != nil {
			t.Fatal(err)
		}
		want := version(3, "three")
		if got.Author != want.Author || got.Summary != want.Summary || !got.CreatedAt.Equal(want.CreatedAt) || len(got.Services) != 1 {
			t.Errorf("%+v", got)
		}
	})
	// A number is given once: whoever writes it again goes by a head that is wrong.
	tx, err := log.Begin(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.End()
	if err := tx.Save(version(3, "again")); err == nil {
		t.Error("the version was replaced")
	}
}

func head(t *testing.T, address string) {
	log, other := open(t, address), open(t, address)
	first := control.Head{Version: 1, Newest: 1, Source: "s", Position: control.Position{Log: "l", Revision: 1}}
	write(t, log, func(tx control.Transaction) error {
		if err := tx.SetHead(first); err == nil {
			return errors.New("a head was moved that is not there")
		}
		return nil
	})
	for _, row := range []struct {
		log   *pglog.Log
		first bool
	}{{log, true}, {other, false}} {
		write(t, row.log, func(tx control.Transaction) error {
			if made, err := tx.Initialise(first); made != row.first || err != nil {
				t.Errorf("made %t, %v", made, err)
			}
			return nil
		})
	}
	next := control.Head{Version: 1, Newest: 4, Source: "t", Position: control.Position{Log: "l", Revision: 2}}
	write(t, log, func(tx control.Transaction) error { return tx.SetHead(next) })
	read(t, other, func(tx control.Transaction) {
		if h := headOf(t, tx); h.Version != 1 || h.Newest != 4 || h.Source != "t" || h.Position != next.Position {
			t.Errorf("%+v", h)
		}
	})
}

func values(t *testing.T, address string) {
	log := open(t, address)
	write(t, log, func(tx control.Transaction) error {
		return errors.Join(tx.PutValue("a", 1, []byte(`{"n":1}`)), tx.PutValue("b", 2, []byte(`[]`)), tx.PutValue("a", 3, []byte(`{"n":2}`)))
	})
	read(t, log, func(tx control.Transaction) {
		if newest, err := tx.NewestValue(); newest != 3 || err != nil {
			t.Errorf("newest %d, %v", newest, err)
		}
		for since, want := range map[int64]map[string]string{0: {"a": `{"n":2}`, "b": `[]`}, 2: {"a": `{"n":2}`}, 3: {}} {
			got, err := tx.Values(since)
			if err != nil || len(got) != len(want) {
				t.Errorf("since %d: %v, %v", since, got, err)
			}
			for name, value := range want {
				if string(got[name]) != value {
					t.Errorf("since %d: %s is %s", since, name, got[name])
				}
			}
		}
	})
}

func notCommitted(t *testing.T, address string) {
	log := open(t, address)
	tx, err := log.Begin(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tx.Save(version(1, "lost")), tx.PutValue("a", 1, []byte("1"))); err != nil {
		t.Fatal(err)
	}
	tx.End()
	tx.End() // again changes nothing
	read(t, log, func(tx control.Transaction) {
		if newest, err := tx.NewestValue(); len(numbersOf(t, tx)) != 0 || newest != 0 || err != nil {
			t.Errorf("versions %v, newest value %d, %v", numbersOf(t, tx), newest, err)
		}
		if err := tx.Save(version(1, "by a reader")); err == nil {
			t.Error("a transaction that reads has written")
		}
	})
}

// oneWriter holds the log with one writer; another is let in when that one ends.
func oneWriter(t *testing.T, address string) {
	log, other := open(t, address), open(t, address)
	write(t, log, func(tx control.Transaction) error {
		_, err := tx.Initialise(control.Head{Version: 1, Newest: 1, Position: control.Position{Log: "l", Revision: 1}})
		return err
	})
	tx, err := log.Begin(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.End()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if second, err := other.Begin(ctx, true); err == nil {
		second.End()
		t.Fatal("two write at the same time")
	}
	read(t, other, func(tx control.Transaction) { // readers do not wait
		if h := headOf(t, tx); h.Revision != 1 {
			t.Errorf("%+v", h)
		}
	})
	if err := errors.Join(tx.SetHead(control.Head{Version: 2, Newest: 2, Position: control.Position{Revision: 2}}), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	write(t, other, func(tx control.Transaction) error {
		if h := headOf(t, tx); h.Revision != 2 || h.Version != 2 {
			t.Errorf("the next writer sees %+v", h)
		}
		return nil
	})
}

func oneMoment(t *testing.T, address string) {
	log, other := open(t, address), open(t, address)
	write(t, log, func(tx control.Transaction) error { return tx.Save(version(1, "one")) })
	read(t, other, func(reader control.Transaction) {
		before := numbersOf(t, reader)
		write(t, log, func(tx control.Transaction) error { return tx.Save(version(2, "two")) })
		if after := numbersOf(t, reader); !slices.Equal(before, after) {
			t.Errorf("%v, and then %v", before, after)
		}
	})
}

func listeners(t *testing.T, address string) {
	log := open(t, address)
	listener, err := log.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := listener.Wait(ctx); err != nil {
		t.Errorf("the end of the context is no error of the listener: %v", err)
	}
	write(t, log, func(tx control.Transaction) error { return tx.PutValue("a", 1, []byte("1")) })
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := listener.Wait(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("not notified: %v, %v", err, ctx.Err())
	}
	execute(t, address, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
	if err := listener.Wait(ctx); err == nil {
		t.Error("a listener that was cut off says nothing")
	}
}

// brokenConnection ends the log's connection between two transactions: the next
// one opens another.
func brokenConnection(t *testing.T, address string) {
	log := open(t, address)
	write(t, log, func(tx control.Transaction) error { return tx.Save(version(1, "one")) })
	for range 2 {
		execute(t, address, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'patchbay'")
		read(t, log, func(tx control.Transaction) {
			if numbers := numbersOf(t, tx); !slices.Equal(numbers, []int{1}) {
				t.Errorf("versions %v", numbers)
			}
		})
	}
	log.Close()
	log.Close()
	read(t, log, func(tx control.Transaction) { numbersOf(t, tx) })
}

// tablesOfAnother lets an account use the tables that may not make any.
func tablesOfAnother(t *testing.T, address string) {
	read(t, open(t, address), func(control.Transaction) {})
	_, schemaName, _ := strings.Cut(address, "search_path=")
	execute(t, address, "CREATE ROLE reader LOGIN", "GRANT USAGE ON SCHEMA "+schemaName+" TO reader",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+schemaName+" TO reader")
	log := open(t, strings.Replace(address, "patchbay@", "reader@", 1))
	write(t, log, func(tx control.Transaction) error { return tx.Save(version(1, "one")) })
}

// newerVersion stores what this program does not know, which it must not read as
// half of what it means.
func newerVersion(t *testing.T, address string) {
	log := open(t, address)
	write(t, log, func(tx control.Transaction) error { return tx.Save(version(1, "one")) })
	execute(t, address,
		`UPDATE patchbay_config_versions SET record = replace(record, '"summary"', '"fromTheFuture":true,"summary"')`)
	read(t, log, func(tx control.Transaction) {
		if _, err := tx.Load(1); err == nil || !strings.Contains(err.Error(), "version 1") {
			t.Errorf("%v", err)
		}
	})
}

func TestAnAddressThatCannotBeReadIsNotRepeated(t *testing.T) {
	_, err := pglog.New("postgres://user:secret-word@host:port/db", nil)
	if err == nil || strings.Contains(err.Error(), "secret-word") || !strings.Contains(err.Error(), "store.config") {
		t.Errorf("%v", err)
	}
}

func TestAServerThatIsNotThereIsAnError(t *testing.T) {
	log, err := pglog.New("postgres://patchbay@"+waittest.Nobody(t)+"/postgres?sslmode=disable", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Begin(t.Context(), true); err == nil {
		t.Error("a transaction without a server")
	}
	if _, err := log.Listen(t.Context()); err == nil {
		t.Error("a listener without a server")
	}
	log.Close()
}
