package answercache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache"
)

func key(n int) answercache.Key { return answercache.Key{byte(n), byte(n >> 8)} }

func has(t *testing.T, m *answercache.Memory, n int) bool {
	t.Helper()
	found, err := m.Get(context.Background(), key(n))
	if err != nil {
		t.Fatal(err)
	}
	return found != nil
}

func put(t *testing.T, m *answercache.Memory, n, size int) {
	t.Helper()
	if err := m.Put(context.Background(), key(n), &answercache.Answer{Data: make([]byte, size), Pool: key(n % 2)}); err != nil {
		t.Fatal(err)
	}
}

// The answer that was unused for the longest time gives way, and the bytes are never more
// than the bound.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	s := answercache.DefaultSettings()
	s.MaxBytes = 100 << 10
	m := answercache.NewMemory(s)
	for n := range 1000 {
		put(t, m, n, 10<<10)
		if n > 0 && !has(t, m, 0) {
			t.Fatalf("what is used gave way to answer %d", n)
		}
		if _, bytes, _ := m.Size(); bytes > 100<<10 {
			t.Fatalf("%d bytes", bytes)
		}
	}
	if answers, _, evicted := m.Size(); answers != 9 || evicted != 991 || !has(t, m, 999) || has(t, m, 990) {
		t.Errorf("%d answers are kept, %d gave way", answers, evicted)
	}
	put(t, m, 999, 1) // in place of the one before
	if answers, bytes, _ := m.Size(); answers != 9 || bytes > 90<<10 {
		t.Errorf("%d answers in %d bytes", answers, bytes)
	}
	s.MaxBytes = 64 << 10
	m.Set(s)
	if _, bytes, _ := m.Size(); bytes > 64<<10 {
		t.Errorf("%d bytes after the bound was lowered", bytes)
	}
}

// An answer is kept for its time after it was made, however often it is used.
func TestMemoryForgetsAfterItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := answercache.DefaultSettings()
		s.TTL = schema.Duration(time.Hour)
		m := answercache.NewMemory(s)
		put(t, m, 1, 10)
		<-time.After(40 * time.Minute)
		put(t, m, 2, 10)
		if !has(t, m, 1) {
			t.Error("it was forgotten too early")
		}
		<-time.After(20 * time.Minute)
		if has(t, m, 1) || !has(t, m, 2) {
			t.Error("it is kept for longer than its time")
		}
		if answers, _, _ := m.Size(); answers != 1 {
			t.Errorf("%d answers take memory", answers)
		}
	})
}

func TestMemoryForgetsPools(t *testing.T) {
	t.Parallel()
	m := answercache.NewMemory(answercache.DefaultSettings())
	for n := range 10 {
		put(t, m, n, 10)
	}
	m.KeepOnly(map[answercache.Key]bool{key(1): true})
	if answers, _, _ := m.Size(); answers != 5 || has(t, m, 2) || !has(t, m, 3) {
		t.Errorf("%d answers are kept", answers)
	}
	_ = m.Clear(context.Background())
	if answers, bytes, _ := m.Size(); answers != 0 || bytes != 0 {
		t.Errorf("%d answers are kept in %d bytes", answers, bytes)
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	t.Parallel()
	s := answercache.Settings{Services: []schema.ServiceType{schema.Chat, schema.TTS, schema.Chat}, Keys: []string{""}, TTL: 1, MaxBytes: 1, MaxAnswer: 2}
	var found []string
	s.Check(func(path string, _ say.Sentence) { found = append(found, path) })
	want := []string{"services[1]", "services[2]", "keys[0]", "ttl", "maxBytes", "maxAnswer"}
	if len(found) != len(want) {
		t.Fatalf("%v, want %v", found, want)
	}
	for i := range want {
		if found[i] != want[i] {
			t.Errorf("%v, want %v", found, want)
		}
	}
}
