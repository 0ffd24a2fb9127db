package hedge

import (
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const ms = time.Millisecond

// learn tells of calls at an instance that took 1, 2, 3 ... times a unit.
func learn(w *Watch, id string, tokens float64, calls int, unit time.Duration) {
	for n := range calls {
		w.Answered(id, tokens, time.Duration(n+1)*unit)
	}
}

func TestTimeIsLearnedBySizeAndInstance(t *testing.T) {
	w := NewWatch()
	if _, known := w.After("a", 100); known {
		t.Error("something is known of nothing")
	}
	learn(w, "a", 100, enough-1, ms)
	if _, known := w.After("a", 100); known {
		t.Error("too few calls are enough")
	}
	learn(w, "a", 100, 1, 20*ms)
	for name, row := range map[string]struct {
		id     string
		tokens float64
		want   time.Duration
	}{
		"its own":                    {"a", 100, 19 * ms},
		"of the same size":           {"a", 70, 19 * ms},
		"another size":               {"a", 1000, 0},
		"one of which none is known": {"b", 100, 19 * ms},
	} {
		if got, known := w.After(row.id, row.tokens); got != row.want || known != (row.want > 0) {
			t.Errorf("%s: %v", name, got)
		}
	}
	// The latest count.
	learn(w, "a", 100, kept, 2*ms)
	if got, _ := w.After("a", 100); got != 122*ms {
		t.Errorf("after %d more calls: %v", kept, got)
	}
	w.Keep([]string{"b"})
	if _, known := w.After("a", 100); known {
		t.Error("an instance that is gone is known")
	}
}

// One that has become slow is measured by the others, and one that is fast by itself.
func TestSlowInstancesAreMeasuredByTheOthers(t *testing.T) {
	w := NewWatch()
	for id, unit := range map[string]time.Duration{"a": ms, "b": 2 * ms, "c": 3 * ms, "slow": 100 * ms} {
		learn(w, id, 10, enough, unit)
	}
	for id, want := range map[string]time.Duration{"a": 19 * ms, "b": 38 * ms, "c": 38 * ms, "slow": 38 * ms, "new": 38 * ms} {
		if got, _ := w.After(id, 10); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	learn(w, "quick", 1000, enough, time.Nanosecond)
	if got, _ := w.After("quick", 1000); got != shortest {
		t.Errorf("the least is %v", got)
	}
}

// However calls come, at most one in twenty has a second one.
func TestSecondCallsAreFew(t *testing.T) {
	w := NewWatch()
	made := 0
	for range 10_000 {
		w.Called()
		if w.Spend(true) {
			made++
		}
	}
	if made != 500 {
		t.Errorf("%d of 10000", made)
	}
	for range 10_000 {
		w.Called()
	}
	burst := 0
	for w.Spend(false) {
		burst++
	}
	late := 0
	for w.Spend(true) {
		late++
	}
	if burst != saved-forLate || late != forLate || w.Left() != 0 {
		t.Errorf("%d at once after a quiet time, and %d for those that are much too late", burst, late)
	}
	w.Return()
	if w.Left() != 1 {
		t.Error("what is given back is lost")
	}
}

func TestOnlyCallsWithoutSideEffectsAreHedged(t *testing.T) {
	for _, service := range schema.ServiceTypes() {
		var got []string
		Settings{Enabled: true}.Check(service, func(path string, _ say.Sentence) { got = append(got, path) })
		want := "enabled"
		switch service {
		case schema.Chat, schema.Embedding, schema.Rerank, schema.STT:
			want = ""
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", service, got)
		}
		Settings{}.Check(service, func(path string, _ say.Sentence) { t.Errorf("%s: %s", service, path) })
	}
}
