package answers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/answers"
	"github.com/patchbay-ai/patchbay/internal/answers/redisanswers"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/storetest"
)

func settings() answers.Settings {
	return answers.Settings{TTL: schema.Duration(time.Hour), MaxBytes: 1 << 20, MaxResponses: 100}
}

// eachStore runs a test on every implementation.
func eachStore(t *testing.T, test func(t *testing.T, s answers.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, answers.NewMemory(settings())) })
	t.Run("redis", func(t *testing.T) {
		server := storetest.Redis(t)
		store := redisanswers.New(server.URL, settings)
		t.Cleanup(store.Close)
		test(t, store)
	})
}

func get(t *testing.T, s answers.Store, owner string, ids ...string) []*answers.Answer {
	t.Helper()
	found, err := s.Get(t.Context(), owner, ids...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func put(t *testing.T, s answers.Store, a *answers.Answer) {
	t.Helper()
	if err := s.Put(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

func TestAnAnswerIsFoundAsItWasPut(t *testing.T) {
	eachStore(t, func(t *testing.T, s answers.Store) {
		full := &answers.Answer{
			ID: "resp_1", Owner: "key", Previous: []string{"resp_a", "resp_b"},
			Input: []byte(`{"role":"user","content":"\ud800 \u00e9"},{"a":1.0}`), Response: []byte(`{"id":"resp_1","output":[]}`),
		}
		passed := &answers.Answer{ID: "resp_2", Owner: "key", Instance: "a@http://b"}
		put(t, s, full)
		put(t, s, passed)
		if diff := cmp.Diff([]*answers.Answer{passed, nil, full}, get(t, s, "key", "resp_2", "resp_3", "resp_1")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnotherKeySeesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s answers.Store) {
		put(t, s, &answers.Answer{ID: "b:resp_1", Owner: "a", Response: []byte("{}")})
		for _, owner := range []string{"", "b", "a:b"} {
			if found := get(t, s, owner, "b:resp_1", "resp_1"); found[0] != nil || found[1] != nil {
				t.Errorf("%q sees the answer of another key", owner)
			}
			if was, err := s.Delete(t.Context(), owner, "b:resp_1"); was || err != nil {
				t.Errorf("%q deleted the answer of another key (%v)", owner, err)
			}
		}
		if get(t, s, "a", "b:resp_1")[0] == nil {
			t.Error("its own key does not see it")
		}
	})
}

func TestADeletedAnswerIsGone(t *testing.T) {
	eachStore(t, func(t *testing.T, s answers.Store) {
		put(t, s, &answers.Answer{ID: "resp_1", Response: []byte("{}")})
		for _, want := range []bool{true, false} {
			if was, err := s.Delete(t.Context(), "", "resp_1"); was != want || err != nil {
				t.Errorf("deleted: %t (%v), want %t", was, err, want)
			}
		}
		if get(t, s, "", "resp_1")[0] != nil {
			t.Error("it is still there")
		}
	})
}

func TestAnAnswerThatIsTooLargeIsNotKept(t *testing.T) {
	eachStore(t, func(t *testing.T, s answers.Store) {
		large := fmt.Appendf(nil, `"%0*d"`, 200<<10, 0)
		if err := s.Put(t.Context(), &answers.Answer{ID: "resp_1", Response: large}); !errors.Is(err, answers.ErrTooLarge) {
			t.Errorf("error %v", err)
		}
	})
}

func TestMemoryForgetsWhatWasUnusedForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answers.NewMemory(settings())
		put(t, s, &answers.Answer{ID: "used"})
		put(t, s, &answers.Answer{ID: "unused"})
		<-time.After(40 * time.Minute)
		get(t, s, "", "used")
		<-time.After(40 * time.Minute)
		if n, _ := s.Size(); n != 1 {
			t.Errorf("%d answers are kept, want 1", n)
		}
		if found := get(t, s, "", "used", "unused"); found[0] == nil || found[1] != nil {
			t.Errorf("found %v", found)
		}
		<-time.After(2 * time.Hour)
		if was, _ := s.Delete(context.Background(), "", "used"); was {
			t.Error("an expired answer was there")
		}
	})
}

func TestMemoryIsBoundedByCountAndBytes(t *testing.T) {
	s := answers.NewMemory(settings())
	for i := range 1000 {
		put(t, s, &answers.Answer{ID: fmt.Sprint(i), Response: make([]byte, 1<<10)})
	}
	if n, _ := s.Size(); n != 100 {
		t.Errorf("%d answers are kept, want 100", n)
	}
	if get(t, s, "", "999")[0] == nil || get(t, s, "", "0")[0] != nil {
		t.Error("not the oldest gave way")
	}
	for i := range 100 {
		put(t, s, &answers.Answer{ID: fmt.Sprint(i), Response: make([]byte, 100<<10)})
	}
	if n, bytes := s.Size(); bytes > 1<<20 || n < 9 {
		t.Errorf("%d answers take %d bytes", n, bytes)
	}
	smaller := settings()
	smaller.MaxResponses = 2
	s.Set(smaller)
	if n, _ := s.Size(); n != 2 {
		t.Errorf("%d answers are kept after the bound was lowered, want 2", n)
	}
}
