package sockets_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/wings/realtime/sockets"
)

// The bounds hold in all and for each holder, and what is closed makes room.
func TestCounter(t *testing.T) {
	t.Parallel()
	var c sockets.Counter
	s := sockets.Settings{Connections: 3, PerKey: 2}
	var got []sockets.Verdict
	for _, holder := range []string{"a", "a", "a", "b", "b", "c"} {
		got = append(got, c.Open(holder, s))
	}
	want := []sockets.Verdict{sockets.Granted, sockets.Granted, sockets.HolderFull, sockets.Granted, sockets.Full, sockets.Full}
	if !slices.Equal(got, want) || c.Count() != 3 {
		t.Fatalf("%v, and %d are open", got, c.Count())
	}
	c.Close("a")
	if verdict := c.Open("c", s); verdict != sockets.Granted {
		t.Error(verdict)
	}
	if verdict := c.Open("a", s); verdict != sockets.Full {
		t.Error(verdict)
	}
	if verdict := new(sockets.Counter).Open("a", sockets.Settings{PerKey: 1}); verdict != sockets.Full {
		t.Errorf("with no connections allowed: %v", verdict)
	}
}

// The defaults are valid, and every setting has a bound.
func TestSettingsHaveBounds(t *testing.T) {
	t.Parallel()
	sockets.DefaultSettings().Check(func(path string, fault say.Sentence) { t.Error(path, fault) })
	var wrong []string
	sockets.Settings{Connections: -1}.Check(func(path string, _ say.Sentence) { wrong = append(wrong, path) })
	slices.Sort(wrong)
	if !slices.Equal(wrong, []string{"connections", "idle", "lifetime", "perKey", "ping"}) {
		t.Error(wrong)
	}
}

// TestBoundsOfSocketsAreChecked loads a configuration in which none of them is allowed.
func TestBoundsOfSocketsAreChecked(t *testing.T) {
	_, err := config.Load(config.Source{
		Content: []byte("limits: {websockets: {connections: -1, per-key: 0, idle: 1ms, ping: 1ms, lifetime: 1ms}}"),
	})
	for _, name := range []string{"connections", "per-key", "idle", "ping", "lifetime"} {
		if err == nil || !strings.Contains(err.Error(), "limits.websockets."+name+": must ") {
			t.Errorf("%s is not checked: %v", name, err)
		}
	}
}
