package calls

import (
	"slices"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// A record describes the latest attempts, without those that were taken back.
func TestLatestAttemptsAreDescribed(t *testing.T) {
	var c Record
	check := func(attempts int, want ...string) {
		t.Helper()
		var got []string
		for _, try := range c.Described() {
			got = append(got, try.Instance+try.Code)
		}
		if !slices.Equal(got, want) || c.Attempts != attempts {
			t.Errorf("%d attempts, described are %q, not %q", c.Attempts, got, want)
		}
		last := ""
		if len(want) > 0 {
			last = c.Try().Instance
		}
		if c.Instance != last {
			t.Errorf("the instance is %q, not %q", c.Instance, last)
		}
	}
	begin := func(instance string) { c.Begin(instance, "adapter", time.Time{}) }
	check(0)
	begin("a")
	c.Forget()
	check(0)
	begin("b")
	check(1, "b")
	c.Fail("-failed", "", say.Plain(""))
	begin("c")
	check(2, "b-failed", "c")
	c.Forget()
	check(1, "b-failed")
	for _, instance := range []string{"d", "e", "f"} {
		begin(instance)
	}
	check(4, "b-failed", "d", "e", "f")
	kept := c
	begin("g")
	check(5, "d", "e", "f", "g")
	c.Reset()
	check(0)
	if kept.Attempts != 4 {
		t.Errorf("a copy has %d attempts", kept.Attempts)
	}
}

// What was expected of an attempt is compared with when the first content came from it, and
// not with what came from another one.
func TestFirstTokenIsThatOfItsAttempt(t *testing.T) {
	c := Record{Streamed: true, FirstToken: 700 * time.Millisecond}
	c.Begin("a", "adapter", time.Time{}.Add(100*time.Millisecond))
	c.Started = time.Time{}
	try := c.Try()
	try.Began, try.Expected = 100*time.Millisecond, 300*time.Millisecond
	if got := c.counted().Estimate; got != 2 {
		t.Errorf("600 ms by 300 ms is %v", got)
	}
	if try.Ended = 500 * time.Millisecond; c.FirstTokenOf(try) != 0 {
		t.Error("the content came after the end of the attempt")
	}
	try.Began, try.Ended = 800*time.Millisecond, 900*time.Millisecond
	if c.FirstTokenOf(try) != 0 || c.counted().Estimate != 0 {
		t.Error("the content came before the attempt")
	}
	c.Streamed, try.Began = false, 100*time.Millisecond
	if c.FirstTokenOf(try) != 0 {
		t.Error("the first token of an answer that comes whole is not seen")
	}
}
