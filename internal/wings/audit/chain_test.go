package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
)

// open opens the chain of a gateway in a directory.
func open(t *testing.T, dir string, change ...func(*audit.Options)) *audit.Writer {
	t.Helper()
	options := audit.Options{
		Store: audit.NewFiles(durable.At(dir)), Settings: audit.DefaultSettings(), Gateway: "g1", Dir: durable.At(dir),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, c := range change {
		c(&options)
	}
	chain, err := audit.Open(options, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.Close)
	return chain
}

// do records an operation.
func do(t *testing.T, c *audit.Writer, action string) {
	t.Helper()
	act := audit.Act{Record: audit.Record{Time: audit.Stamp(time.Now()), Who: "ann", Role: "ADMIN", Address: "127.0.0.1", Action: action, Object: "<ü>\"\\\u2028"}, Caller: "ann"}
	id, err := c.Begin(context.Background(), act)
	if err != nil {
		t.Fatal(err)
	}
	act.Result = "200 done"
	c.End(context.Background(), id, act)
}

// records returns the records of a directory, the oldest first.
func records(t *testing.T, dir string) (all []audit.Record) {
	t.Helper()
	err := audit.NewFiles(durable.At(dir)).Each(context.Background(), func(_ int, line []byte) error {
		r, err := audit.Read(line)
		all = append(all, r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// verify verifies a directory as patchbay audit verify does.
func verify(t *testing.T, dir string, hashes ...string) ([]audit.VerifiedChain, error) {
	t.Helper()
	return audit.Verify(context.Background(), audit.NewFiles(durable.At(dir)), nil, hashes...)
}

func actions(all []audit.Record) (names []string) {
	for _, r := range all {
		names = append(names, r.Action)
	}
	return names
}

func holds(t *testing.T, dir string) {
	t.Helper()
	if _, err := verify(t, dir); err != nil {
		t.Error(err)
	}
}

func TestChainGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 3 {
		c := open(t, dir)
		do(t, c, fmt.Sprintf("a%d", i))
		do(t, c, fmt.Sprintf("b%d", i))
		c.Close()
	}
	all := records(t, dir)
	if got := strings.Join(actions(all), " "); got != "a0 b0 a1 b1 a2 b2" || all[0].Previous != "" || all[5].Seq != 6 {
		t.Errorf("%s: %+v", got, all)
	}
	chains, err := verify(t, dir)
	if err != nil || len(chains) != 1 || chains[0].Last != 6 || chains[0].Signed != 6 {
		t.Errorf("%+v, %v", chains, err)
	}
}

// Wherever a crash cuts the file of records, or if it comes between the mark and the record, the next start continues the
// chain behind the last whole record without a report, and records the operations of intents that have none as unknown.
func TestACutAtEveryByteLosesOnlyWhatIsBehindIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return content
	}
	const segment = "0001-000000000001.jsonl"
	c := open(t, dir)
	marks, ends := [][]byte{read("last")}, []int{0} // before each record, and where it ends
	for i := range 2 {
		do(t, c, fmt.Sprintf("a%d", i))
		marks, ends = append(marks, read("last")), append(ends, len(read(segment)))
	}
	whole := read(segment)
	last := records(t, dir)[1]
	intent := fmt.Appendf(nil, `{"id":%q,"record":{"seq":0,"time":%q,"gateway":"g1","who":"ann","role":"ADMIN","address":"127.0.0.1","action":"a1","object":"","result":"","previous":""}}`+"\n",
		c.IntentID("x", &audit.Record{Time: last.Time, Gateway: "g1", Who: "ann", Role: "ADMIN", Address: "127.0.0.1", Action: "a1"}), last.Time)
	for end := range len(whole) + 1 {
		count := bytes.Count(whole[:end], []byte("\n"))
		for at, mark := range marks {
			if at < count || at > count+1 || at == count && end > ends[count] {
				continue // the mark is written right before the record
			}
			cut := t.TempDir()
			for name, content := range map[string][]byte{segment: whole[:end], "last": mark, "signing.key": read("signing.key"), "intents.log": intent} {
				if err := os.WriteFile(filepath.Join(cut, name), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want := []string{"a0", "a1"}[:count]
			if count < 2 {
				want = append(slices.Clone(want), "a1")
			}
			want = append(slices.Clone(want), "after")
			next := open(t, cut)
			do(t, next, "after")
			next.Close()
			all := records(t, cut)
			if got := actions(all); !slices.Equal(got, want) {
				t.Fatalf("cut at %d, mark %d: got %v, want %v", end, at, got, want)
			}
			if result := all[len(all)-2].Result; strings.HasPrefix(result, "unknown") != (count < 2) {
				t.Errorf("cut at %d: the result is %q", end, result)
			}
			holds(t, cut)
		}
	}
}

func TestAnIntentOfHalfALineIsOfNoOperation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "intents.log"), []byte(`{"id":"x","record":{"action":"ne`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir)
	do(t, c, "a")
	c.Close()
	if got := actions(records(t, dir)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v", got)
	}
}

// TestAForgedIntentIsNotRecorded puts an operation in progress into the file that the gateway did not
// begin.
func TestAForgedIntentIsNotRecorded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	forged := `{"id":"x","record":{"seq":0,"time":"2026-11-01T00:00:00.000000Z","gateway":"g1","who":"alice","role":"ADMIN","address":"127.0.0.1","action":"forged","object":"","result":"","previous":""}}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "intents.log"), []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir)
	do(t, c, "a")
	c.Close()
	if got := actions(records(t, dir)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %v, want no record of an operation that the gateway did not begin", got)
	}
}

// A store that fails refuses operations before they begin. The records of those that were done
// nevertheless are written when it works again.
func TestRecordsOfAFailingDiskAreWrittenLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "intents.log"), 0o700); err != nil { // no file can be there
		t.Fatal(err)
	}
	c := open(t, dir)
	ctx := context.Background()
	if _, err := c.Begin(ctx, audit.Act{Record: audit.Record{Time: audit.Stamp(time.Now()), Action: "refused"}}); err == nil || c.Failure() == nil {
		t.Fatal("an operation began that cannot be recorded")
	}
	c.End(ctx, "", audit.Act{Record: audit.Record{Time: audit.Stamp(time.Now()), Who: "ann", Role: "ADMIN", Action: "revoked", Result: "200 done"}})
	if err := os.Remove(filepath.Join(dir, "intents.log")); err != nil {
		t.Fatal(err)
	}
	do(t, c, "after")
	if got := actions(records(t, dir)); !slices.Equal(got, []string{"revoked", "after"}) || c.Failure() != nil {
		t.Errorf("%v, %v", got, c.Failure())
	}
	c.Close()
	holds(t, dir)
}

func TestARestoreBeginsANewChain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	do(t, c, "before")
	c.Close()
	text := fmt.Sprintf(`{"time":%q,"made":"2026-01-02T03:04:05Z"}`, audit.Stamp(time.Now()))
	if err := os.WriteFile(filepath.Join(dir, audit.RestoredFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second start goes on
		c = open(t, dir)
		do(t, c, "after")
		c.Close()
	}
	all := records(t, dir)
	if got := actions(all); !slices.Equal(got, []string{"before", audit.Begin, "after", "after"}) {
		t.Fatalf("%v", got)
	}
	first := all[1]
	if first.Seq != 1 || first.Previous != "" || !strings.Contains(first.Object, "backup of 2026-01-02T03:04:05Z was restored") || !strings.Contains(first.Object, all[0].Hash) {
		t.Errorf("%+v", first)
	}
	holds(t, dir)
	if err := os.Remove(filepath.Join(dir, "0001-000000000001.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := verify(t, dir); err == nil || !strings.Contains(err.Error(), "seq 1 ") {
		t.Errorf("the chain before is gone: %v", err)
	}
}

// A gateway does not continue a chain that somebody has cut or changed at its end: the evidence
// stays.
func TestADamagedChainIsNotContinued(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(lines []string) []string{
		"the last record is gone":    func(lines []string) []string { return lines[:len(lines)-1] },
		"the last record is changed": func(lines []string) []string { return append(lines[:2:2], strings.Replace(lines[2], "ann", "bob", 1)) },
		"the last line is no record": func(lines []string) []string { return append(lines[:2:2], "{}\n") },
	} {
		dir := t.TempDir()
		c := open(t, dir)
		for range 3 {
			do(t, c, "a")
		}
		c.Close()
		path := filepath.Join(dir, "0001-000000000001.jsonl")
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := strings.Join(damage(slices.Collect(strings.Lines(string(content)))), "")
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		c = open(t, dir)
		do(t, c, "after")
		c.Close()
		if left, err := os.ReadFile(path); err != nil || string(left) != damaged {
			t.Errorf("%s: the evidence was changed", name)
		}
		if _, err := verify(t, dir); err == nil || !strings.Contains(err.Error(), "seq 3 ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "0002-000000000001.jsonl")); err != nil {
			t.Errorf("%s: no new chain: %v", name, err)
		}
	}
}

func TestHeadsAreVerifiedWithTheKeyOfTheirTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	do(t, c, "a")
	key, err := c.Rotate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	do(t, c, "b")
	c.Close()
	store := audit.NewFiles(durable.At(dir))
	keys, err := store.Keys(context.Background())
	if err != nil || len(keys) != 2 || keys[0].Until == "" || keys[1] != key || key.Until != "" {
		t.Fatalf("%+v, %v", keys, err)
	}
	heads, err := store.Heads(context.Background(), 0)
	if err != nil || len(heads) != 2 || !keys[0].Verifies(heads[1]) || !keys[1].Verifies(heads[0]) || keys[0].Verifies(heads[0]) {
		t.Errorf("%+v, %v", heads, err)
	}
	holds(t, dir)
	if _, err := audit.Verify(context.Background(), store, keys[1:]); err == nil || !strings.Contains(err.Error(), "seq 1 ") {
		t.Errorf("the first head is good with the second key alone: %v", err)
	}
}

func TestTheSigningKeyIsSealedByTheMasterKey(t *testing.T) {
	t.Parallel()
	master := func(text, previous string) *seal.Keys {
		keys, err := seal.New(strings.Repeat(text, 32), strings.Repeat(previous, 32))
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "signing.key")
	read := func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	keys := func() int {
		all, err := audit.NewFiles(durable.At(dir)).Keys(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for i, step := range []struct {
		master *seal.Keys
		keys   int
	}{{nil, 1}, {master("a", ""), 2}, {master("a", ""), 2}, {master("b", ""), 3}, {nil, 4}} { // patchbay rekey keeps the key
		c := open(t, dir, func(o *audit.Options) { o.Master = step.master })
		do(t, c, "a")
		c.Close()
		if isSealed := strings.Contains(read(), `"sealed"`); isSealed != (step.master != nil) || keys() != step.keys {
			t.Errorf("step %d: %s, %d keys", i, read(), keys())
		}
		holds(t, dir)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if got := actions(records(t, dir)); !slices.Contains(got, audit.NewKey) {
		t.Errorf("no record tells of the new key: %v", got)
	}
}

// A record has its signed head within a minute, and a stop signs the last one.
func TestHeadsAreSignedEachMinuteAndAtTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := open(t, dir)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		heads := func() []audit.Head {
			all, err := audit.NewFiles(durable.At(dir)).Heads(ctx, 0)
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		do(t, c, "a")
		time.Sleep(time.Minute) //nolint:forbidigo // the time of a synctest bubble
		if got := heads(); len(got) != 1 || got[0].Seq != 1 {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Hour) //nolint:forbidigo // the time of a synctest bubble
		if got := heads(); len(got) != 1 {
			t.Errorf("heads without records: %+v", got)
		}
		do(t, c, "b")
		cancel()
		<-done
		c.Close()
		if got := heads(); len(got) != 2 || got[0].Seq != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// Records leave when they are too old or take too much room. A signed record tells which.
func TestOldRecordsLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := open(t, dir, func(o *audit.Options) { o.Settings.Keep = schema.Duration(72 * time.Hour) })
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		for i := range 10 {
			do(t, c, fmt.Sprintf("day%d", i))
			do(t, c, fmt.Sprintf("day%d", i))
			time.Sleep(25 * time.Hour) //nolint:forbidigo // the time of a synctest bubble
		}
		cancel()
		<-done
		c.Close()
		all := records(t, dir)
		got := actions(all)
		if slices.Contains(got, "day5") || !slices.Contains(got, "day8") || !slices.Contains(got, audit.Expire) || all[0].Seq < 10 {
			t.Errorf("%v", got)
		}
		holds(t, dir)
		names, err := durable.At(dir).Names()
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		if err := os.Remove(filepath.Join(dir, names[0])); err != nil { // the oldest file with records
			t.Fatal(err)
		}
		if _, err := verify(t, dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("seq %d ", all[0].Seq)) {
			t.Errorf("records were removed before their time: %v", err)
		}
	})
}

func TestChainsAreBoundedByTheirRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	for range 3 {
		do(t, c, "a")
	}
	c.Close()
	for i := 2; i < 4; i++ { // two more files, of other chains
		content, err := os.ReadFile(filepath.Join(dir, "0001-000000000001.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d-000000000001.jsonl", i)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := audit.NewFiles(durable.At(dir))
	for room, want := range map[int64]int{1 << 30: 0, 2000: 1, 1: 2} {
		spans, err := store.Old(context.Background(), time.Time{}, room)
		if err != nil || len(spans) != want {
			t.Errorf("%d bytes: %+v, %v", room, spans, err)
		}
	}
}
