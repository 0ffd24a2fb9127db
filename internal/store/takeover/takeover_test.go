package takeover

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

const first, second = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

func keys(t *testing.T, current, previous string) *seal.Keys {
	t.Helper()
	k, err := seal.New(current, previous)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// log is a shared configuration with values.
type log struct {
	values    map[string]seal.Value
	followers []*Records
	err       error
}

func (l *log) Change(_ context.Context, edit func() (string, []byte, error)) error {
	if l.err != nil {
		return l.err
	}
	name, value, err := edit()
	if err != nil {
		return err
	}
	l.values[name] = seal.Value{Data: value, IsTrusted: true}
	for _, r := range l.followers {
		r.Take("log", false, map[string]seal.Value{name: l.values[name]})
	}
	return nil
}

func (l *log) follow(r *Records) {
	l.followers = append(l.followers, r)
	r.Take("log", true, l.values)
}

func open(t *testing.T, path string, change func(*Options)) *Records {
	t.Helper()
	options := Options{Keys: keys(t, first, ""), Data: durable.At(path), Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&options)
	}
	r, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// want checks whether unsigned budgets are taken over.
func want(t *testing.T, what string, r *Records, isOpen bool) {
	t.Helper()
	if r.IsOpen(Budgets) != isOpen || r.ReadsUnsigned(Budgets) != isOpen {
		t.Errorf("%s: open %t, reads unsigned %t, want %t", what, r.IsOpen(Budgets), r.ReadsUnsigned(Budgets), isOpen)
	}
}

func TestAThingIsTakenOverOnce(t *testing.T) {
	dir := t.TempDir()
	want(t, "first start", open(t, dir, nil), true)
	r := open(t, dir, nil)
	want(t, "start after one that did not finish", r, true)
	if err := r.Finish(t.Context(), Budgets); err != nil {
		t.Fatal(err)
	}
	want(t, "after the takeover", r, false)
	want(t, "next start", open(t, dir, nil), false)
	if !open(t, dir, nil).IsOpen(Documents) {
		t.Error("another thing counts as taken over")
	}
	lenient := open(t, dir, func(o *Options) { o.AcceptUnsigned = true })
	if !lenient.ReadsUnsigned(Budgets) || lenient.IsOpen(Budgets) {
		t.Error("the setting does not read unsigned data, or brings the takeover back")
	}
	found := open(t, dir, nil)
	found.Found(Responses)
	if found.IsOpen(Responses) || open(t, dir, nil).IsOpen(Responses) || open(t, dir, nil).IsOpen(Budgets) {
		t.Error("what another gateway has taken over is not remembered")
	}
}

func TestWithoutAMasterKeyEverythingIsRead(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, func(o *Options) { o.Keys = nil })
	r.Found(Budgets)
	r.Take("log", true, nil)
	if r != nil || !r.ReadsUnsigned(Budgets) || r.IsOpen(Budgets) || r.Finish(t.Context(), Budgets) != nil || r.Renew(t.Context()) != nil {
		t.Error("something is refused")
	}
	if names, err := durable.At(dir).Names(); err != nil || len(names) > 0 {
		t.Errorf("%v %v", names, err)
	}
}

// A gateway with an empty data directory finds the mark of the others, and one with a data
// directory does not need it: whoever removes it from the database gains nothing.
func TestTheMarkIsSharedWithTheConfiguration(t *testing.T) {
	db, dir := &log{values: map[string]seal.Value{}}, t.TempDir()
	shared := func(o *Options) { o.Values = db }
	r := open(t, dir, shared)
	want(t, "before the shared marks are known", r, false)
	db.follow(r)
	want(t, "first start", r, true)
	db.err = errors.New("away")
	if err := r.Finish(t.Context(), Budgets); err == nil {
		t.Error("the database was away")
	}
	want(t, "after a failure", r, true)
	db.err = nil
	if err := r.Finish(t.Context(), Budgets); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	other := open(t, empty, shared)
	db.follow(other)
	want(t, "with an empty directory", other, false)
	if err := other.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	clear(db.values)
	for what, path := range map[string]string{"the one that took over": dir, "one that found the mark": empty} {
		again := open(t, path, shared)
		db.follow(again)
		want(t, what, again, false)
		if err := again.Renew(t.Context()); err != nil || len(db.values) != 1 {
			t.Errorf("%s: %v, the database has %v", what, err, db.values)
		}
	}
	db.values = map[string]seal.Value{prefix + string(Budgets): {Data: []byte("true")}}
	forged := open(t, t.TempDir(), shared)
	db.follow(forged)
	want(t, "a mark that nobody signed", forged, true)
}

// Marks are those of a master key, and follow its rotation.
func TestMarksAreSigned(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, dir, nil).Finish(t.Context(), Budgets); err != nil {
		t.Fatal(err)
	}
	want(t, "another master key", open(t, dir, func(o *Options) { o.Keys = keys(t, second, "") }), true)
	rotated := open(t, dir, func(o *Options) { o.Keys = keys(t, second, first) })
	want(t, "a new master key", rotated, false)
	if err := rotated.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, "without the previous one", open(t, dir, func(o *Options) { o.Keys = keys(t, second, "") }), false)
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	for what, content := range map[string]string{"moved": strings.Replace(string(data), "budgets", "documents", 1), "damaged": "{", "none": `{"budgets":""}`} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r := open(t, dir, func(o *Options) { o.Keys = keys(t, second, "") })
		if !r.IsOpen(Budgets) || !r.IsOpen(Documents) {
			t.Errorf("%s: the mark is believed", what)
		}
	}
}
