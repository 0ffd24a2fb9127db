package ratelimit_test

import (
	"slices"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/ratelimit"
)

func TestAlgorithmsAreReadInEverySpelling(t *testing.T) {
	for written, want := range map[string]string{
		"token_bucket": "token_bucket", "TOKEN-BUCKET": "token_bucket", "leaky-bucket": "leaky_bucket",
		"slidingWindow": "sliding_window", "Warm_Up": "warm_up",
	} {
		got, err := ratelimit.ParseAlgorithm(written)
		if err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", written, got, err)
		}
	}
	_, err := ratelimit.ParseAlgorithm("hourglass")
	const want = `unknown algorithm "hourglass" (known: token_bucket, leaky_bucket, sliding_window, warm_up)`
	if err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
}

func TestSettingsRules(t *testing.T) {
	var paths []string
	collect := func(path, _ string) { paths = append(paths, path) }
	if ratelimit.DefaultSettings().Check(collect); paths != nil {
		t.Errorf("the defaults break rules of %v", paths)
	}
	ratelimit.Settings{Algorithm: 9, Capacity: 0, RefillRate: 2_000_000_000}.Check(collect)
	if !slices.Equal(paths, []string{"algorithm", "capacity", "refillRate", "warmUpPeriod"}) {
		t.Errorf("broken rules of %v", paths)
	}
}
