package breaker

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// call makes one call of a key.
func call(b *Breaker, key string, outcome Outcome, now time.Time) {
	if permit, ok := b.Acquire(now); ok {
		permit.Key = key
		b.Done(permit, outcome, now)
	}
}

func TestErrorsOfOneKeyDoNotOpenWhileOthersSucceed(t *testing.T) {
	settings := DefaultSettings()
	pause := settings.RecoveryTimeout.Std()
	start := time.Now()
	flood := func(b *Breaker, key string, outcome Outcome, n int, now time.Time) State {
		for range n {
			call(b, key, outcome, now)
		}
		return b.Snapshot().State
	}
	for name, c := range map[string]struct {
		story func(b *Breaker) State
		want  State
	}{
		"another key succeeded":        {func(b *Breaker) State { return flood(b, "bad", Errored, 100, start.Add(pause)) }, Closed},
		"it did so too long ago":       {func(b *Breaker) State { return flood(b, "bad", Errored, 5, start.Add(pause+1)) }, Open},
		"it is the key that succeeded": {func(b *Breaker) State { return flood(b, "good", Errored, 5, start) }, Open},
		"calls without a key fail":     {func(b *Breaker) State { return flood(b, "", Errored, 5, start) }, Open},
		"timeouts and broken answers":  {func(b *Breaker) State { return flood(b, "bad", Failure, 5, start) }, Open},
		"refused connections":          {func(b *Breaker) State { return flood(b, "bad", Refused, 5, start) }, Open},
		"connections that were reset":  {func(b *Breaker) State { return flood(b, "bad", Reset, 5, start) }, Open},
		"two keys fail": {func(b *Breaker) State {
			flood(b, "bad", Errored, 3, start)
			return flood(b, "good", Errored, 2, start)
		}, Open},
		"a connection breaks among them": {func(b *Breaker) State {
			flood(b, "bad", Errored, 4, start)
			return flood(b, "bad", Reset, 1, start)
		}, Open},
		"others succeed no longer": {func(b *Breaker) State {
			flood(b, "bad", Errored, 50, start)
			return flood(b, "bad", Errored, 1, start.Add(2*pause))
		}, Open},
		"a trial fails": {func(b *Breaker) State {
			flood(b, "bad", Refused, 5, start)
			call(b, "good", Success, start.Add(pause))
			return flood(b, "bad", Errored, 1, start.Add(pause))
		}, Open},
	} {
		b := New(settings, start, nil)
		call(b, "good", Success, start)
		if got := c.story(b); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Of any number of keys, two are enough to know whether another one than a given key has
// succeeded since a given time.
func TestTwoKeysTellOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKeys()
		won := map[keyHash]int64{}
		for at := range int64(rapid.IntRange(0, 40).Draw(t, "successes")) {
			key := keyHash(rapid.IntRange(1, 5).Draw(t, "key"))
			k.succeeded(key, at)
			won[key] = at
		}
		than, since := keyHash(rapid.IntRange(1, 6).Draw(t, "than")), int64(rapid.IntRange(0, 40).Draw(t, "since"))
		want := false
		for key, at := range won {
			want = want || key != than && at >= since
		}
		if got := k.hasOther(than, since); got != want {
			t.Fatalf("another than %d since %d: %t, want %t; %v", than, since, got, want, won)
		}
	})
}

// Where callers have no keys, an answer with an error counts like every other failure.
func TestWithoutKeysNothingIsExcused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings, now := anySettings(t), time.Now()
		one, two := New(settings, now, nil), New(settings, now, nil)
		for range rapid.IntRange(1, 50).Draw(t, "calls") {
			failed := rapid.Bool().Draw(t, "failed")
			outcome, same := Success, Success
			if failed {
				outcome, same = Failure, Errored
			}
			call(one, "", outcome, now)
			call(two, "", same, now)
			if one.Snapshot() != two.Snapshot() {
				t.Fatalf("%+v and %+v", one.Snapshot(), two.Snapshot())
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 8).Draw(t, "pause")) * time.Second)
		}
	})
}
