package loops_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/loops"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/turns"
)

// settings return the settings of tests.
func settings(repeats int, action loops.Action) *loops.Settings {
	s := loops.DefaultSettings()
	s.Repeats, s.Action = repeats, action
	return &s
}

// firstFound sends turns until one is found, and returns its number and the finding.
func firstFound(s *loops.Settings, all []turns.Turn) (int, loops.Finding) {
	var w loops.Watch
	for i, t := range all {
		if f, found := w.Next(s, t); found {
			return i + 1, f
		}
		w.Ended(t, false, 100, 50)
	}
	return 0, loops.Finding{}
}

// TestTheNthIsTheFirst tries each rule about turns.
func TestTheNthIsTheFirst(t *testing.T) {
	body := func(n int) turns.Turn { return turns.Turn{Body: turns.Print(n)} }
	step := func(body, step int) turns.Turn {
		return turns.Turn{Body: turns.Print(body), Step: turns.Print(step)}
	}
	agent := func(t turns.Turn, agent int) turns.Turn { t.Agent = turns.Print(agent); return t }
	for name, c := range map[string]struct {
		of   func(i int) turns.Turn
		at   int // 0: never
		rule loops.Rule
		list []int
	}{
		"the same body":        {func(int) turns.Turn { return body(7) }, 4, loops.SameCall, []int{1, 2, 3, 4}},
		"other bodies":         {func(i int) turns.Turn { return body(100 + i) }, 0, 0, nil},
		"the same result":      {func(i int) turns.Turn { return step(100+i, 7) }, 4, loops.SameResult, []int{1, 2, 3, 4}},
		"other results":        {func(i int) turns.Turn { return step(100+i, 100+i) }, 0, 0, nil},
		"two bodies":           {func(i int) turns.Turn { return body(1 + i%2) }, 8, loops.Alternating, []int{1, 2, 3, 4, 5, 6, 7, 8}},
		"two results":          {func(i int) turns.Turn { return step(100+i, 1+i%2) }, 8, loops.Alternating, []int{1, 2, 3, 4, 5, 6, 7, 8}},
		"three results":        {func(i int) turns.Turn { return step(100+i, 1+i%3) }, 0, 0, nil},
		"test after each edit": {func(i int) turns.Turn { return step(100+i, []int{7, 100 + i}[i%2]) }, 0, 0, nil},
		"a late start":         {func(i int) turns.Turn { return step(100+i, min(i, 3)+1) }, 7, loops.SameResult, []int{4, 5, 6, 7}},
		"titles between":       {func(i int) turns.Turn { return step(100+i, []int{7, 0}[i%2]) }, 7, loops.SameResult, []int{1, 3, 5, 7}},
		"one agent of two":     {func(i int) turns.Turn { return agent(step(100+i, []int{7, 100 + i}[i%2]), 1+i%2) }, 7, loops.SameResult, []int{1, 3, 5, 7}},
		"the first agent":      {func(i int) turns.Turn { return agent(step(100+i, []int{100 + i, 7}[i%2]), 1-i%2) }, 8, loops.SameResult, []int{2, 4, 6, 8}},
		"two agents in a circle": {func(i int) turns.Turn { return agent(step(100+i, 1+i%2), 1+i%2) }, 7, loops.SameResult,
			[]int{1, 3, 5, 7}},
	} {
		var all []turns.Turn
		for i := range 40 {
			all = append(all, c.of(i))
		}
		at, f := firstFound(settings(4, loops.Stop), all)
		if at != c.at || f.Rule != c.rule || !slices.Equal(f.Turns, c.list) || at > 0 && f.Action != loops.Stop {
			t.Errorf("%s: found at %d: %+v", name, at, f)
		}
	}
}

// TestARetryAfterAnErrorDoesNotCount repeats a body as clients do.
func TestARetryAfterAnErrorDoesNotCount(t *testing.T) {
	s := settings(3, loops.Stop)
	same, other := turns.Turn{Body: 1, Step: 1}, turns.Turn{Body: 2, Step: 2}
	var w loops.Watch
	for range 20 {
		if f, found := w.Next(s, same); found {
			t.Fatalf("a retry is %+v", f)
		}
		w.Ended(same, true, 0, 0)
	}
	for n := range 2 { // the twentieth failed; it counts as the first, its retry does not
		if f, found := w.Next(s, same); found {
			t.Fatalf("call %d after the errors is %+v", n, f)
		}
		w.Ended(same, false, 10, 10)
	}
	if f, found := w.Next(s, same); !found || f.Rule != loops.SameCall || f.Count != 3 {
		t.Errorf("the third is %+v", f)
	}

	w = loops.Watch{} // alternating, and each fails once
	for n := range 2*s.Repeats - 1 {
		turn := []turns.Turn{same, other}[n%2]
		for _, failed := range []bool{true, false} {
			if f, found := w.Next(s, turn); found {
				t.Fatalf("call %d is %+v", n, f)
			}
			w.Ended(turn, failed, 10, 10)
		}
	}
	if f, found := w.Next(s, other); !found || f.Rule != loops.Alternating {
		t.Errorf("the sixth is %+v", f)
	}
}

// TestErrorsInARow counts calls that fail.
func TestErrorsInARow(t *testing.T) {
	s := settings(3, loops.Stop)
	var w loops.Watch
	for n := range 102 {
		turn := turns.Turn{Body: turns.Print(n + 1)}
		f, found := w.Next(s, turn)
		if want := n >= 101; found != want { // one succeeds
			t.Fatalf("call %d: %v %+v", n+1, found, f)
		} else if found && (f.Rule != loops.Errors || f.Action != loops.Stop || f.Count != 50 || f.Turns[31] != 101) {
			t.Errorf("call %d: %+v", n+1, f)
		}
		w.Ended(turn, n != 50, 10, 10)
		if n == 49 {
			w.Clear()
		}
	}
}

// TestAContextThatGrowsWithoutOutput counts calls without an answer.
func TestAContextThatGrowsWithoutOutput(t *testing.T) {
	for name, c := range map[string]struct {
		input, output func(n int) int64
		at            int
	}{
		"grows, silent":   {func(n int) int64 { return int64(100 * n) }, func(int) int64 { return 1 }, 18},
		"grows, speaks":   {func(n int) int64 { return int64(100 * n) }, func(int) int64 { return 40 }, 0},
		"stays, silent":   {func(int) int64 { return 100 }, func(int) int64 { return 0 }, 0},
		"speaks at times": {func(n int) int64 { return int64(100 * n) }, func(n int) int64 { return int64(n%4) * 9 }, 0},
		"unknown":         {func(int) int64 { return 0 }, func(int) int64 { return 0 }, 0},
	} {
		s := settings(9, loops.Note)
		var w loops.Watch
		at := 0
		for n := 1; n < 40 && at == 0; n++ {
			turn := turns.Turn{Body: turns.Print(n)}
			if f, found := w.Next(s, turn); found {
				if at = n; f.Rule != loops.NoOutput || len(f.Turns) != 16 {
					t.Errorf("%s: %+v", name, f)
				}
			}
			w.Ended(turn, false, c.input(n), c.output(n))
		}
		if at != c.at {
			t.Errorf("%s: found at %d, want %d", name, at, c.at)
		}
	}
}

func TestSlowCallsWaitLongerAndLonger(t *testing.T) {
	s := settings(2, loops.Slow)
	var w loops.Watch
	var waits []time.Duration
	for range 40 {
		f, _ := w.Next(s, turns.Turn{Body: 1})
		waits = append(waits, f.Wait)
		w.Ended(turns.Turn{Body: 1}, false, 1, 9)
	}
	if !slices.Equal(waits[:4], []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}) ||
		slices.Max(waits) != 30*time.Second {
		t.Errorf("the waits are %v", waits)
	}
	w.Clear()
	if f, found := w.Next(s, turns.Turn{Body: 1}); found {
		t.Errorf("after it was cleared: %+v", f)
	}
	if f, _ := w.Next(s, turns.Turn{Body: 1}); !slices.Equal(f.Turns, []int{41, 42}) {
		t.Errorf("the turns after it was cleared are %v", f.Turns)
	}
}

func TestNothingIsFoundWhereTheRulesAreOff(t *testing.T) {
	var w loops.Watch
	for range 100 {
		if f, found := w.Next(settings(0, loops.Stop), turns.Turn{Body: 1}); found {
			t.Fatalf("%+v", f)
		}
	}
}

// TestStreaksAgreeWithTheWholeHistory compares a watch with a plain count over all turns.
func TestStreaksAgreeWithTheWholeHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		repeats := rapid.IntRange(2, 4).Draw(t, "repeats")
		s := settings(repeats, loops.Stop)
		var w loops.Watch
		var history []int
		for i, n := range rapid.SliceOfN(rapid.IntRange(1, 2), 1, 60).Draw(t, "results") {
			history = append(history, n)
			f, found := w.Next(s, turns.Turn{Body: turns.Print(1000 + i), Step: turns.Print(n)})
			same, alternate := 1, 1
			for j := len(history) - 2; j >= 0 && history[j] == n; j-- {
				same++
			}
			for j := len(history) - 2; j >= 0 && history[j] != history[j+1]; j-- {
				alternate++ // of two numbers, each that differs from the next one takes turns with it
			}
			want := same >= repeats || alternate >= 2*repeats
			if found != want || found && f.Count != max(same, alternate) || found && len(f.Turns) != min(f.Count, 32) {
				t.Fatalf("%v: %v %+v, want %v", history, found, f, want)
			}
		}
	})
}

func TestSettingsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*loops.Settings)
		path string
	}{
		"defaults":  {func(*loops.Settings) {}, ""},
		"off":       {func(s *loops.Settings) { s.Repeats = 0 }, ""},
		"one":       {func(s *loops.Settings) { s.Repeats = 1 }, "repeats"},
		"below":     {func(s *loops.Settings) { s.Repeats = -1 }, "repeats"},
		"too often": {func(s *loops.Settings) { s.Repeats = 1 << 20 }, "repeats"},
	} {
		s, found := loops.DefaultSettings(), ""
		c.edit(&s)
		s.Check(func(path string, _ say.Sentence) { found += path })
		if found != c.path {
			t.Errorf("%s: faults at %q, want %q", name, found, c.path)
		}
	}
}
