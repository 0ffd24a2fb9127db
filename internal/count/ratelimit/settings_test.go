package ratelimit_test

import (
	"encoding"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

func TestAlgorithmsAreReadInEverySpelling(t *testing.T) {
	for written, want := range map[string]string{
		"token_bucket": "token_bucket", "TOKEN-BUCKET": "token_bucket", "leaky-bucket": "leaky_bucket",
		"slidingWindow": "sliding_window", "Warm_Up": "warm_up",
	} {
		var got ratelimit.Algorithm
		err := got.UnmarshalText([]byte(written))
		if err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", written, got, err)
		}
	}
	err := new(ratelimit.Algorithm).UnmarshalText([]byte("hourglass"))
	const want = `unknown algorithm "hourglass" (known: token_bucket, leaky_bucket, sliding_window, warm_up)`
	if err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
}

// name is what algorithms and scopes have in common.
type name interface {
	encoding.TextMarshaler
	fmt.Stringer
	Names() []string
}

func TestNamesOfAlgorithmsAndScopes(t *testing.T) {
	for _, c := range []struct {
		value name
		want  string
	}{
		{ratelimit.TokenBucket, "token_bucket"}, {ratelimit.LeakyBucket, "leaky_bucket"}, {ratelimit.SlidingWindow, "sliding_window"},
		{ratelimit.WarmUp, "warm_up"}, {ratelimit.WarmUp + 1, "algorithm(4)"},
		{ratelimit.PerService, "service"}, {ratelimit.PerModel, "model"}, {ratelimit.PerInstance, "instance"}, {ratelimit.PerInstance + 1, "scope(3)"},
	} {
		if text, err := c.value.MarshalText(); err != nil || string(text) != c.want || c.value.String() != c.want {
			t.Errorf("%s, %v, want %s", text, err, c.want)
		}
		if known := slices.Contains(c.value.Names(), c.want); known == strings.Contains(c.want, "(") {
			t.Errorf("%s is one of %v: %v", c.want, c.value.Names(), known)
		}
	}
}

func TestNamesAreReadIntoWhatTheyName(t *testing.T) {
	for written, want := range map[string]ratelimit.Scope{"service": ratelimit.PerService, "MODEL": ratelimit.PerModel, "Instance": ratelimit.PerInstance} {
		got := ratelimit.Scope(9)
		if err := got.UnmarshalText([]byte(written)); err != nil || got != want {
			t.Errorf("%s: %v, %v", written, got, err)
		}
	}
	scope := ratelimit.PerModel
	err := scope.UnmarshalText([]byte("galaxy"))
	if err == nil || err.Error() != `unknown scope "galaxy" (known: service, model, instance)` || scope != ratelimit.PerModel {
		t.Errorf("%v, %v", scope, err)
	}
	algorithm := ratelimit.Algorithm(9)
	if err := algorithm.UnmarshalText([]byte("warm-up")); err != nil || algorithm != ratelimit.WarmUp {
		t.Errorf("%v, %v", algorithm, err)
	}
	if err := algorithm.UnmarshalText([]byte("hourglass")); err == nil || algorithm != ratelimit.WarmUp {
		t.Errorf("%v, %v", algorithm, err)
	}
}

func TestSettingsRules(t *testing.T) {
	for name, c := range map[string]struct {
		settings ratelimit.Settings
		want     []string
	}{
		"defaults": {ratelimit.DefaultSettings(), nil},
		"least":    {ratelimit.Settings{Capacity: 1, RefillRate: 1, WarmUpPeriod: 1}, nil},
		"most":     {ratelimit.Settings{Algorithm: ratelimit.WarmUp, Capacity: 1_000_000_000, RefillRate: 1_000_000_000, WarmUpPeriod: 1}, nil},
		"zero":     {ratelimit.Settings{}, []string{"capacity", "refillRate", "warmUpPeriod"}},
		"too much": {ratelimit.Settings{Algorithm: ratelimit.WarmUp + 1, Capacity: 1_000_000_001, RefillRate: 1_000_000_001, WarmUpPeriod: -1},
			[]string{"algorithm", "capacity", "refillRate", "warmUpPeriod"}},
	} {
		var paths []string
		c.settings.Check(func(path string, _ say.Sentence) { paths = append(paths, path) })
		if !slices.Equal(paths, c.want) {
			t.Errorf("%s: broken rules of %v, want %v", name, paths, c.want)
		}
	}
}
