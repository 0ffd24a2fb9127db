package calls

import (
	"slices"
	"testing"
	"time"
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
	c.Fail("-failed", "", "")
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
