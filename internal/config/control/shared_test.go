package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/config"
	. "github.com/patchbay-ai/patchbay/internal/config/control" //nolint:revive // the tests stood in the package, and left it for its two logs
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// pause waits for a moment between two looks at the same thing.
func pause(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}

func soon(t *testing.T, what string, so func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !so() {
		if time.Since(began) > time.Minute {
			t.Fatalf("still waiting: %s", what)
		}
		pause(t.Context(), 2*time.Millisecond)
	}
	return time.Since(began)
}

// join opens a gateway's control on a shared configuration; leave stops it.
func join(t *testing.T, address, dir string, doc *config.Document) (b *bench, leave func()) {
	t.Helper()
	store, err := files.Open(dir, masterOf(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := pglog.New(address, masterOf(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	table := new(routing.Current)
	c, err := Opening{Store: store, Document: doc, Current: table, Log: slog.New(slog.DiscardHandler), Shared: shared}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { c.Follow(ctx) })
	leave = sync.OnceFunc(func() {
		cancel()
		following.Wait()
		_ = store.Close()
	})
	t.Cleanup(leave)
	return &bench{c, store, table}, leave
}

func names(b *bench) []string {
	doc, _ := b.Document()
	var found []string
	for _, instance := range doc.Services[schema.Chat].Instances {
		found = append(found, instance.Name)
	}
	return found
}

func has(b *bench, name string) func() bool {
	return func() bool { return slices.Contains(names(b), name) }
}

func TestParallelWritersOfASharedConfigurationLoseNothing(t *testing.T) {
	db := storetest.Postgres(t)
	one, _ := join(t, db.URL, t.TempDir(), config.Default())
	two, _ := join(t, db.URL, t.TempDir(), config.Default())
	const each = 10
	var writers sync.WaitGroup
	given := make([][]int, 2)
	for i, b := range []*bench{one, two} {
		writers.Go(func() {
			for n := range each {
				result, err := again(t, func() (Result, error) {
					return b.Apply(t.Context(), Change{Origin: FromAPI}, add(fmt.Sprintf("writer%d-%d", i, n)))
				})
				if err != nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
				given[i] = append(given[i], result.Version)
			}
		})
	}
	writers.Wait()
	all := slices.Concat(given...)
	slices.Sort(all)
	for i, number := range all {
		if number != i+2 { // version 1 is the beginning
			t.Fatalf("the versions given are %v", all)
		}
	}
	for i := range given {
		if !slices.IsSorted(given[i]) {
			t.Errorf("writer %d got the versions %v", i, given[i])
		}
	}
	soon(t, "both are the same", func() bool { return one.Version() == two.Version() && one.describe(t) == two.describe(t) })
	for i := range given {
		for n := range each {
			if name := fmt.Sprintf("writer%d-%d", i, n); !has(one, name)() || !has(two, name)() {
				t.Errorf("the change %s is lost", name)
			}
		}
	}
	if numbers, err := two.Versions(); err != nil || len(numbers) != 2*each+1 {
		t.Errorf("%d versions are listed, %v", len(numbers), err)
	}
}

// The detector of races finds out whether what is in force is written to.
func TestAVersionThatAnotherGatewayDeletesLeavesWhatIsInForceAlone(t *testing.T) {
	db := storetest.Postgres(t)
	one, _ := join(t, db.URL, t.TempDir(), config.Default())
	two, _ := join(t, db.URL, t.TempDir(), config.Default())
	if _, err := two.Apply(t.Context(), Change{Origin: FromAPI}, add("a")); err != nil {
		t.Fatal(err)
	}
	soon(t, "the change is here", has(one, "a"))
	before := one.Activations()
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			_ = one.Activations()
			pause(ctx, time.Millisecond)
		}
	})
	defer reading.Wait()
	defer stop()
	if _, err := two.Delete(t.Context(), Change{Origin: FromAPI}, 1); err != nil {
		t.Fatal(err)
	}
	soon(t, "the version is gone here", func() bool { return !one.Has(1) })
	if after := one.Activations(); !slices.Equal(after, before) {
		t.Errorf("the activations were %v and are %v", before, after)
	}
}

func TestASharedChangeIsEffectiveEverywhereWithinASecond(t *testing.T) {
	db := storetest.Postgres(t)
	one, _ := join(t, db.URL, t.TempDir(), config.Default())
	two, _ := join(t, db.URL, t.TempDir(), config.Default())
	var took []time.Duration
	for n := range 20 {
		name := fmt.Sprint("model", n)
		mustChange(t, one, add(name))
		took = append(took, soon(t, "the other has "+name, has(two, name)))
	}
	slices.Sort(took)
	t.Logf("propagation: median %v, slowest %v", took[len(took)/2], took[len(took)-1])
	// The slowest of them may have waited for the machine.
	if took[len(took)/2] > time.Second {
		t.Errorf("half of the changes took longer than %v", took[len(took)/2])
	}

	if _, err := again(t, func() (Result, error) { return two.Use(t.Context(), Change{}, 3) }); err != nil {
		t.Fatal(err)
	}
	soon(t, "the rollback arrives", func() bool { return one.Version() == 3 && !has(one, "model5")() })
	if _, err := two.Delete(t.Context(), Change{}, 21); err != nil {
		t.Fatal(err)
	}
	soon(t, "the deletion arrives", func() bool { return !one.Has(21) })
	if result := mustChange(t, one, add("later")); result.Version != 22 || result.Before != 3 {
		t.Errorf("the next version is %d, after %d", result.Version, result.Before)
	}
	soon(t, "the change arrives", has(two, "later"))
	if _, err := two.Apply(t.Context(), Change{IfVersions: []int{3}}, add("stale")); !errors.Is(err, ErrMoved) {
		t.Errorf("a stale writer gets %v", err)
	}
}

func TestASharedChangeArrivesWithoutNotification(t *testing.T) {
	db := storetest.Postgres(t)
	one, _ := join(t, db.URL, t.TempDir(), config.Default())
	two, _ := join(t, db.URL, t.TempDir(), config.Default())
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	mustChange(t, one, add("a"))
	soon(t, "the change arrives", has(two, "a"))
	if _, err := conn.Exec(t.Context(), "UPDATE patchbay_config_current SET version = 1, revision = revision + 1"); err != nil {
		t.Fatal(err)
	}
	took := soon(t, "the poll sees it", func() bool { return one.Version() == 1 && two.Version() == 1 })
	t.Logf("by the poll: %v", took)
}

func TestTheDatabaseOfTheSharedConfigurationGoesAway(t *testing.T) {
	db := storetest.Postgres(t)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	one, _ := join(t, db.URL, dirs[0], config.Default())
	two, leave := join(t, db.URL, dirs[1], config.Default())
	mustChange(t, one, add("a"))
	soon(t, "the change arrives", has(two, "a"))
	db.Kill()
	before := one.describe(t)
	for name, write := range map[string]func() error{
		"change": func() error { _, err := one.Apply(t.Context(), Change{}, add("b")); return err },
		"use":    func() error { _, err := one.Use(t.Context(), Change{}, 1); return err },
		"delete": func() error { _, err := one.Delete(t.Context(), Change{}, 1); return err },
		"reset":  func() error { _, err := one.Reset(t.Context(), Change{}); return err },
	} {
		if err := write(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := one.Apply(t.Context(), Change{DryRun: true}, add("b")); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if after := one.describe(t); after != before {
		t.Errorf("refused writes changed %s into %s", before, after)
	}
	// A restart serves what was known; a file that changed meanwhile waits.
	leave()
	changed := config.Default()
	_ = add("of the file")(changed)
	two, _ = join(t, db.URL, dirs[1], changed)
	three, _ := join(t, db.URL, dirs[2], config.Default())
	if !has(two, "a")() || has(two, "of the file")() || three.Version() != 1 {
		t.Errorf("started without the database: %v, version %d", names(two), three.Version())
	}
	db.Start()
	took := soon(t, "all have the file's version", func() bool {
		return has(one, "of the file")() && has(two, "of the file")() && has(three, "of the file")()
	})
	t.Logf("converged %v after the database was back", took)
	mustChange(t, three, add("c"))
	soon(t, "all are the same", func() bool {
		return one.describe(t) == two.describe(t) && two.describe(t) == three.describe(t) && has(one, "c")()
	})
}

func TestJoiningASharedConfiguration(t *testing.T) {
	db := storetest.Postgres(t)
	// A gateway that had files before brings its versions along.
	dirs := []string{t.TempDir(), t.TempDir()}
	alone := open(t, dirs[0], config.Default())
	mustChange(t, alone, add("first"))
	_ = alone.store.Close()
	one, leave := join(t, db.URL, dirs[0], config.Default())
	if one.Version() != 2 || !has(one, "first")() {
		t.Errorf("version %d with %v", one.Version(), names(one))
	}
	// The next one takes what is there, and keeps a copy of its own.
	alone = open(t, dirs[1], config.Default())
	for _, name := range []string{"x", "y", "z"} {
		mustChange(t, alone, add(name))
	}
	_ = alone.store.Close()
	two, _ := join(t, db.URL, dirs[1], config.Default())
	if one.describe(t) != two.describe(t) {
		t.Errorf("%s and %s", one.describe(t), two.describe(t))
	}
	if kept, _ := filepath.Glob(filepath.Join(dirs[1], "backup-*", "*.json")); len(kept) != 4 {
		t.Errorf("kept: %v", kept)
	}
	// The same new file on both becomes one version.
	file := config.Default()
	_ = add("rolled out")(file)
	leave()
	one, _ = join(t, db.URL, dirs[0], file)
	if one.Version() != 3 || !has(one, "rolled out")() {
		t.Errorf("version %d with %v", one.Version(), names(one))
	}
	mustChange(t, one, add("by hand"))
	if _, err := two.Reload(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if two.Version() != 4 || !has(two, "by hand")() || !has(two, "rolled out")() {
		t.Errorf("version %d with %v", two.Version(), names(two))
	}
	if _, err := pglog.New("postgres://u:secret@[bad/", nil); err == nil || len(err.Error()) > 80 {
		t.Errorf("a bad address: %v", err)
	}
}

// wire passes connections on to a database until it is frozen.
type wire struct {
	net.Listener
	address string
	frozen  atomic.Bool
	// atCommit freezes it after the next commit passed.
	atCommit atomic.Bool
}

func startWire(t *testing.T, db *storetest.Server) *wire {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: listener}
	t.Cleanup(func() { _ = w.Close() })
	w.address = strings.Replace(db.URL, db.Address, w.Addr().String(), 1)
	go w.carry(db.Address)
	return w
}

func (w *wire) carry(to string) {
	for {
		from, err := w.Accept()
		if err != nil {
			return
		}
		target, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
		if err != nil {
			_ = from.Close()
			continue
		}
		pass := func(a, b net.Conn) {
			defer a.Close()
			defer b.Close()
			buffer := make([]byte, 1<<16)
			for {
				n, err := a.Read(buffer)
				for w.frozen.Load() {
					pause(context.Background(), time.Millisecond)
				}
				if bytes.Contains(buffer[:n], []byte("commit\x00")) && w.atCommit.Swap(false) {
					w.frozen.Store(true)
				}
				if _, failed := b.Write(buffer[:n]); err != nil || failed != nil {
					return
				}
			}
		}
		go pass(from, target)
		go pass(target, from)
	}
}

func TestADatabaseThatDoesNotAnswerHoldsNothingUp(t *testing.T) {
	db := storetest.Postgres(t)
	w := startWire(t, db)
	one, _ := join(t, w.address, t.TempDir(), config.Default())
	two, _ := join(t, db.URL, t.TempDir(), config.Default())
	mustChange(t, one, add("a"))
	w.frozen.Store(true)
	defer w.frozen.Store(false)
	began := time.Now()
	_, err := one.Apply(t.Context(), Change{}, add("b"))
	if took := time.Since(began); !errors.Is(err, ErrUnavailable) || took > 5*pglog.Timeout {
		t.Errorf("%v after %v", err, took)
	}
	t.Logf("refused after %v", time.Since(began))
	if !has(one, "a")() || one.Version() != 2 {
		t.Errorf("version %d with %v", one.Version(), names(one))
	}
	soon(t, "the other can write", func() bool {
		_, err := two.Apply(t.Context(), Change{}, add("c"))
		return err == nil
	})
	w.frozen.Store(false)
	soon(t, "it follows again", has(one, "c"))
}

// stuckLog is a shared log that never answers.
type stuckLog struct{}

func (stuckLog) Begin(ctx context.Context, _ bool) (Transaction, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stuckLog) Listen(ctx context.Context) (Listener, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stuckLog) Close() {}

func TestACallerWhoLeavesDoesNotWaitForTheSharedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := files.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c, err := Opening{Store: store, Document: config.Default(), Current: new(routing.Current), Log: slog.New(slog.DiscardHandler), Shared: stuckLog{}}.Open(ctx)
		if err != nil || c.Version() != 1 {
			t.Fatal(err)
		}
		for name, change := range map[string]func(context.Context) error{
			"apply":  func(ctx context.Context) error { _, err := c.Apply(ctx, Change{}, add("a")); return err },
			"use":    func(ctx context.Context) error { _, err := c.Use(ctx, Change{}, 1); return err },
			"delete": func(ctx context.Context) error { _, err := c.Delete(ctx, Change{}, 1); return err },
			"reset":  func(ctx context.Context) error { _, err := c.Reset(ctx, Change{}); return err },
			"reload": func(ctx context.Context) error { _, err := c.Reload(ctx, readFrom("words", add("a"))); return err },
			"value":  func(ctx context.Context) error { return c.Values().Change(ctx, value("key/a", "1")) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := change(ctx); !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
	})
}

// distantLog is a shared log of which only the head can be read, and that while it has one.
type distantLog struct {
	stuckLog
	Transaction // the rest, which is not called

	head *Head
}

func (d *distantLog) Begin(context.Context, bool) (Transaction, error) {
	if d.head == nil {
		return nil, errors.New("away")
	}
	return d, nil
}

func (d *distantLog) Head() (Head, error) { return *d.head, nil }
func (*distantLog) End()                  {}
func (*distantLog) Close()                {}

// TestTheNextVersionFollowsThoseOfOtherGateways: also where this gateway has not read them yet.
// While the database is away the answer is what was known last.
func TestTheNextVersionFollowsThoseOfOtherGateways(t *testing.T) {
	store, err := files.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	shared := &distantLog{}
	c, err := Opening{Store: store, Document: config.Default(), Current: new(routing.Current), Log: slog.New(slog.DiscardHandler), Shared: shared}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		head *Head
		want int
	}{
		{nil, 2},
		{&Head{}, 2}, // it begins with the versions of this gateway
		{&Head{Version: 3, Newest: 7, Position: Position{Log: "theirs", Revision: 9}}, 8},
		{nil, 2},
	} {
		if shared.head = row.head; c.Next(t.Context()) != row.want {
			t.Errorf("%+v: the next version is %d, want %d", row.head, c.Next(t.Context()), row.want)
		}
	}
}

func TestALostAnswerToACommitIsSaidToBeOpen(t *testing.T) {
	db := storetest.Postgres(t)
	w := startWire(t, db)
	one, _ := join(t, w.address, t.TempDir(), config.Default())
	mustChange(t, one, add("a"))
	w.atCommit.Store(true)
	defer w.frozen.Store(false)
	for n := range 10 {
		_, err := one.Apply(t.Context(), Change{}, add(fmt.Sprint("b", n)))
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrUnconfirmed) || !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		if has(one, fmt.Sprint("b", n))() {
			t.Error("what was not confirmed is in force")
		}
		w.frozen.Store(false)
		soon(t, "the change that was taken shows", has(one, fmt.Sprint("b", n)))
		mustChange(t, one, add("c"))
		return
	}
	t.Error("no commit was seen")
}
