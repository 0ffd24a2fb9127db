package answers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/request/recall"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/wings/answers"
	"github.com/patchbay-ai/patchbay/internal/wings/answers/redisanswers"
)

func settings() answers.Settings {
	return answers.Settings{TTL: schema.Duration(time.Hour), MaxBytes: 1 << 20, MaxResponses: 100, MaxSharedBytes: 64 << 20}
}

// eachStore runs a test on every implementation.
func eachStore(t *testing.T, test func(t *testing.T, s recall.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, answers.NewMemory(settings())) })
	t.Run("redis", func(t *testing.T) {
		server := storetest.Redis(t)
		store := redisanswers.New(redisanswers.Options{Address: server.URL, Settings: settings})
		t.Cleanup(store.Close)
		test(t, store)
	})
}

func get(t *testing.T, s recall.Store, owner recall.Owner, ids ...string) []*recall.Answer {
	t.Helper()
	found, err := s.Get(t.Context(), owner, ids...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// key returns the owner with this id.
func key(id string) recall.Owner { return recall.Owner{Key: id, Issue: "1"} }

func put(t *testing.T, s recall.Store, a *recall.Answer) {
	t.Helper()
	if err := s.Put(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

func TestAnAnswerIsFoundAsItWasPut(t *testing.T) {
	eachStore(t, func(t *testing.T, s recall.Store) {
		full := &recall.Answer{
			ID: "resp_1", Owner: key("key"), Previous: []string{"resp_a", "resp_b"},
			Input: []byte(`{"role":"user","content":"\ud800 \u00e9"},{"a":1.0}`), Response: []byte(`{"id":"resp_1","output":[]}`),
		}
		passed := &recall.Answer{ID: "resp_2", Owner: key("key"), Instance: "a@http://b", Run: "task"}
		put(t, s, full)
		put(t, s, passed)
		if diff := cmp.Diff([]*recall.Answer{passed, nil, full}, get(t, s, key("key"), "resp_2", "resp_3", "resp_1")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnotherKeySeesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s recall.Store) {
		put(t, s, &recall.Answer{ID: "b:resp_1", Owner: key("a"), Response: []byte("{}")})
		for _, owner := range []recall.Owner{{}, key("b"), key("a:b"), {Key: "a", Issue: "2"}, {Key: "a"}} {
			if found := get(t, s, owner, "b:resp_1", "resp_1"); found[0] != nil || found[1] != nil {
				t.Errorf("%v sees the answer of another key", owner)
			}
			if was, err := s.Delete(t.Context(), owner, "b:resp_1"); was || err != nil {
				t.Errorf("%v deleted the answer of another key (%v)", owner, err)
			}
		}
		if get(t, s, key("a"), "b:resp_1")[0] == nil {
			t.Error("its own key does not see it")
		}
	})
}

func TestGivenIDsAreThoseOfTheirOwner(t *testing.T) {
	eachStore(t, func(t *testing.T, s recall.Store) {
		if err := s.Give(t.Context(), key("a"), "msg_1", "cntr_1"); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			owner recall.Owner
			want  []bool
		}{{key("a"), []bool{true, false, true}}, {key("b"), []bool{false, false, false}}, {recall.Owner{Key: "a", Issue: "2"}, []bool{false, false, false}}} {
			if given, err := s.Given(t.Context(), test.owner, "msg_1", "msg_2", "cntr_1"); !slices.Equal(given, test.want) || err != nil {
				t.Errorf("%v was given %v, %v", test.owner, given, err)
			}
		}
		for n := range 2000 { // of which fewer are remembered
			if err := s.Give(t.Context(), key("b"), fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
		}
		if given, err := s.Given(t.Context(), key("b"), "0", "1999"); !slices.Equal(given, []bool{false, true}) || err != nil {
			t.Errorf("of many ids %v are known, %v", given, err)
		}
		if given, err := s.Given(t.Context(), key("a"), "msg_1"); !given[0] || err != nil {
			t.Errorf("an id of another owner gave way (%v)", err)
		}
	})
}

func TestADeletedAnswerIsGone(t *testing.T) {
	eachStore(t, func(t *testing.T, s recall.Store) {
		put(t, s, &recall.Answer{ID: "resp_1", Response: []byte("{}")})
		for _, want := range []bool{true, false} {
			if was, err := s.Delete(t.Context(), recall.Owner{}, "resp_1"); was != want || err != nil {
				t.Errorf("deleted: %t (%v), want %t", was, err, want)
			}
		}
		if get(t, s, recall.Owner{}, "resp_1")[0] != nil {
			t.Error("it is still there")
		}
	})
}

func TestAnAnswerThatIsTooLargeIsNotKept(t *testing.T) {
	eachStore(t, func(t *testing.T, s recall.Store) {
		large := fmt.Appendf(nil, `"%0*d"`, 200<<10, 0)
		if err := s.Put(t.Context(), &recall.Answer{ID: "resp_1", Response: large}); !errors.Is(err, recall.ErrTooLarge) {
			t.Errorf("error %v", err)
		}
	})
}

func TestMemoryForgetsWhatWasUnusedForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answers.NewMemory(settings())
		put(t, s, &recall.Answer{ID: "used"})
		put(t, s, &recall.Answer{ID: "unused"})
		<-time.After(40 * time.Minute)
		get(t, s, recall.Owner{}, "used")
		<-time.After(40 * time.Minute)
		if n, _ := s.Size(); n != 1 {
			t.Errorf("%d answers are kept, want 1", n)
		}
		if found := get(t, s, recall.Owner{}, "used", "unused"); found[0] == nil || found[1] != nil {
			t.Errorf("found %v", found)
		}
		<-time.After(2 * time.Hour)
		if was, _ := s.Delete(context.Background(), recall.Owner{}, "used"); was {
			t.Error("an expired answer was there")
		}
	})
}

func TestMemoryIsBoundedByCountAndBytes(t *testing.T) {
	s := answers.NewMemory(settings())
	for i := range 1000 {
		put(t, s, &recall.Answer{ID: fmt.Sprint(i), Response: make([]byte, 1<<10)})
	}
	if n, _ := s.Size(); n != 100 {
		t.Errorf("%d answers are kept, want 100", n)
	}
	if get(t, s, recall.Owner{}, "999")[0] == nil || get(t, s, recall.Owner{}, "0")[0] != nil {
		t.Error("not the oldest gave way")
	}
	for i := range 100 {
		put(t, s, &recall.Answer{ID: fmt.Sprint(i), Response: make([]byte, 100<<10)})
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

// One key can keep as much as there is room for, and pushes out its own answers, never
// those of others.
func TestNobodyPushesOutWhatOthersKeep(t *testing.T) {
	eachStore(t, func(t *testing.T, s recall.Store) {
		large := fmt.Appendf(nil, `"%0*d"`, 120<<10, 0) // nearly an eighth of what all may take
		for _, id := range []string{"a", "b"} {
			put(t, s, &recall.Answer{ID: id, Owner: key("small"), Response: []byte("{}")})
		}
		for n := range 40 {
			put(t, s, &recall.Answer{ID: fmt.Sprint("large", n), Owner: key("hog"), Response: large})
		}
		for n := range 300 {
			put(t, s, &recall.Answer{ID: fmt.Sprint("many", n), Owner: key("crowd"), Response: []byte("{}")})
		}
		if found := get(t, s, key("small"), "a", "b"); found[0] == nil || found[1] == nil {
			t.Errorf("the answers of another key are gone: %v", found)
		}
		count := func(owner, prefix string, of int) (n int) {
			ids := make([]string, of)
			for i := range ids {
				ids[i] = fmt.Sprint(prefix, i)
			}
			for i, found := range get(t, s, key(owner), ids...) {
				if found == nil && i == of-1 {
					t.Errorf("the newest of %s is gone", owner)
				}
				if found != nil {
					n++
				}
			}
			return n
		}
		if n := count("hog", "large", 40); n < 6 || n > 8 {
			t.Errorf("%d large answers are kept", n)
		}
		if n := count("crowd", "many", 300); n < 80 || n > 100 {
			t.Errorf("%d of many answers are kept", n)
		}
	})
}

// However many owners come and go, those that keep less than their share lose nothing, and
// the bounds hold.
func TestSharesHoldInRandomHistories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		s := answers.NewMemory(settings())
		modest := map[string]bool{}
		for step := range 20_000 {
			owner := fmt.Sprint(random.IntN(30))
			id := fmt.Sprint(random.IntN(40))
			switch {
			case step%10 == 0: // ten owners keep four small answers each, which is less than a share
				modestOwner, modestID := fmt.Sprint("modest", random.IntN(10)), fmt.Sprint(random.IntN(2))
				put(t, s, &recall.Answer{ID: modestID, Owner: key(modestOwner), Response: make([]byte, random.IntN(1000))})
				modest[modestOwner+"/"+modestID] = true
			case random.IntN(5) == 0:
				get(t, s, key(owner), id, "0", "1")
			case random.IntN(10) == 0:
				if _, err := s.Delete(t.Context(), key(owner), id); err != nil {
					t.Fatal(err)
				}
			default:
				put(t, s, &recall.Answer{ID: id, Owner: key(owner), Response: make([]byte, random.IntN(100<<10))})
			}
			if n, bytes := s.Size(); n > 100 || bytes > 1<<20 || n == 0 || bytes <= 0 {
				t.Fatalf("step %d: %d answers take %d bytes", step, n, bytes)
			}
		}
		for name := range modest {
			owner, id, _ := strings.Cut(name, "/")
			if get(t, s, key(owner), id)[0] == nil {
				t.Errorf("%s is gone", name)
			}
		}
		<-time.After(2 * time.Hour)
		if n, bytes := s.Size(); n != 0 || bytes != 0 {
			t.Errorf("%d answers take %d bytes after all have expired", n, bytes)
		}
	})
}

// connect returns a client of a Redis.
func connect(t *testing.T, server *storetest.Server) rueidis.Client {
	t.Helper()
	option, err := rueidis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// An answer belongs to the key that made it, and not to another one that had its id.
func TestAnswersBelongToOneIssueOfAKey(t *testing.T) {
	server := storetest.Redis(t)
	store := redisanswers.New(redisanswers.Options{Address: server.URL, Settings: settings})
	t.Cleanup(store.Close)
	put(t, store, &recall.Answer{ID: "resp_2", Owner: recall.Owner{Key: "k", Issue: "9"}, Response: []byte(`{"id":"resp_2"}`)})
	for issue, want := range map[string]bool{"9": true, "8": false, "": false} {
		if found := get(t, store, recall.Owner{Key: "k", Issue: issue}, "resp_2"); (found[0] != nil) != want {
			t.Errorf("issue %q: %v", issue, found)
		}
	}
	if text, err := connect(t, server).Do(t.Context(), connect(t, server).B().Get().Key("patchbay:responses:1:k:resp_2").Build()).ToString(); err != nil || text != `{"issue":"9","input":[],"response":{"id":"resp_2"}}` {
		t.Errorf("%s %v", text, err)
	}
}
