package control_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/config"
	. "github.com/patchbay-ai/patchbay/internal/config/control" //nolint:revive // the tests stood in the package, and left it for its two logs
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// copyOf follows the values of a gateway.
type copyOf struct {
	mu     sync.Mutex
	values map[string]string
}

func (c *copyOf) take(_ string, whole bool, values map[string]seal.Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if whole || c.values == nil {
		c.values = map[string]string{}
	}
	for name, value := range values {
		c.values[name] = string(value.Data)
	}
}

func (c *copyOf) is(want map[string]string) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return maps.Equal(c.values, want)
	}
}

func followValues(t *testing.T, b *bench, own map[string][]byte) *copyOf {
	t.Helper()
	c := new(copyOf)
	values := map[string]seal.Value{}
	for name, value := range own {
		values[name] = seal.Value{Data: value, IsTrusted: true}
	}
	if err := b.Values().Follow(t.Context(), values, c.take); err != nil {
		t.Fatal(err)
	}
	return c
}

// inDatabase runs statements beside the gateways.
func inDatabase(t *testing.T, address string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

func value(name, value string) func() (string, []byte, error) {
	return func() (string, []byte, error) { return name, []byte(value), nil }
}

func TestValuesAreSharedAndSurviveTheirDatabase(t *testing.T) {
	db := storetest.Postgres(t)
	one, _ := join(t, db.URL, t.TempDir(), config.Default())
	two, leave := join(t, db.URL, t.TempDir(), config.Default())
	// The log has no keys and gets those of the gateway that has some; tokens are
	// there by then, so those of the next one stay out.
	at1 := followValues(t, one, map[string][]byte{"key/a": []byte("1"), "token/t": []byte("1")})
	at2 := followValues(t, two, map[string][]byte{"token/other": []byte("2")})
	want := map[string]string{"key/a": "1", "token/t": "1"}
	if !at1.is(want)() || !at2.is(want)() {
		t.Fatalf("%v %v", at1.values, at2.values)
	}
	if err := two.Values().Change(t.Context(), value("key/a", "2")); err != nil || at2.values["key/a"] != "2" {
		t.Fatalf("%v %v", err, at2.values)
	}
	if err := one.Values().Change(t.Context(), func() (string, []byte, error) {
		// The edit sees what the other wrote a moment ago.
		if at1.values["key/a"] != "2" {
			t.Error("the edit starts from an old state")
		}
		return "key/b", []byte("3"), nil
	}); err != nil {
		t.Fatal(err)
	}
	want = map[string]string{"key/a": "2", "key/b": "3", "token/t": "1"}
	soon(t, "the other gateway has it", at2.is(want))
	refusal := errors.New("no")
	if err := one.Values().Change(t.Context(), func() (string, []byte, error) { return "", nil, refusal }); !errors.Is(err, refusal) {
		t.Errorf("an edit that fails: %v", err)
	}
	if two.Version() != 1 {
		t.Error("values made a version")
	}

	db.Kill()
	if err := one.Values().Change(t.Context(), value("key/c", "x")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a change without the database: %v", err)
	}
	db.Start()
	soon(t, "a change is taken again", func() bool { return one.Values().Change(t.Context(), value("key/c", "4")) == nil })
	want["key/c"] = "4"
	soon(t, "the other gateway has it", at2.is(want))

	// A database that lost everything gets it back from those who know it.
	leave()
	inDatabase(t, db.URL, "DROP TABLE patchbay_config_values, patchbay_config_versions, patchbay_config_current, patchbay_config_signatures, patchbay_format")
	three, _ := join(t, db.URL, t.TempDir(), config.Default())
	at3 := followValues(t, three, nil)
	soon(t, "a new gateway has all values", at3.is(want))
	if !at1.is(want)() {
		t.Errorf("%v", at1.values)
	}
}

// A value that was removed stays so, although other gateways know it, and what they change
// next is noticed: the number of the last change never goes back.
func TestAValueThatIsRemovedStaysSo(t *testing.T) {
	db := storetest.Postgres(t)
	one, _ := join(t, db.URL, t.TempDir(), config.Default())
	two, _ := join(t, db.URL, t.TempDir(), config.Default())
	at1, at2 := followValues(t, one, nil), followValues(t, two, nil)
	change := func(b *bench, edit func() (string, []byte, error)) {
		t.Helper()
		if err := b.Values().Change(t.Context(), edit); err != nil {
			t.Fatal(err)
		}
	}
	change(one, value("key/a", "1"))
	change(one, value("session/key", "2"))
	soon(t, "the other gateway has it", at2.is(map[string]string{"key/a": "1", "session/key": "2"}))
	change(one, func() (string, []byte, error) { return "session/key", nil, nil })
	change(two, value("key/b", "3"))
	soon(t, "the change of the other gateway is noticed", func() bool {
		at1.mu.Lock()
		defer at1.mu.Unlock()
		return at1.values["key/b"] == "3"
	})
	three, _ := join(t, db.URL, t.TempDir(), config.Default())
	if at := followValues(t, three, nil); !at.is(map[string]string{"key/a": "1", "key/b": "3"})() {
		t.Errorf("what is stored: %v", at.values)
	}
}

func TestJoinedIsWhoReadTheSharedConfiguration(t *testing.T) {
	db := storetest.Postgres(t)
	db.Kill()
	dir := t.TempDir()
	late, leave := join(t, db.URL, dir, config.Default())
	if late.Joined() {
		t.Error("nothing was read")
	}
	db.Start()
	soon(t, "the gateway joins", late.Joined)
	leave()
	db.Kill()
	if again, _ := join(t, db.URL, dir, config.Default()); !again.Joined() {
		t.Error("a restart forgets the configuration that was read")
	}
}
