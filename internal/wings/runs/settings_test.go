package runs_test

import (
	"slices"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
)

// An agent reserves 32,000 tokens of answer with each call, 0.48 at a price of 15.
func TestLimitsBelowOneCallOfAnAgentAreWarnedOf(t *testing.T) {
	t.Parallel()
	amount := func(text string) (a prices.Amount) {
		if err := a.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return a
	}
	most := runs.Settings{Enabled: true, Reserve: quota.Most}
	with := func(s runs.Settings, limits budget.RunLimits) runs.Settings { s.Limits = limits; return s }
	for name, test := range map[string]struct {
		settings runs.Settings
		limits   map[string]budget.RunLimits
		want     []string
	}{
		"likely":       {with(runs.Settings{Enabled: true, Reserve: quota.Likely}, budget.RunLimits{Cost: 1, Tokens: 1}), nil, nil},
		"off":          {with(runs.Settings{Reserve: quota.Most}, budget.RunLimits{Cost: 1}), nil, nil},
		"enough":       {with(most, budget.RunLimits{Cost: amount("0.48"), Tokens: 32_000}), nil, nil},
		"less money":   {with(most, budget.RunLimits{Cost: amount("0.479")}), nil, []string{"runs.limits.cost"}},
		"fewer tokens": {with(most, budget.RunLimits{Tokens: 31_999}), nil, []string{"runs.limits.tokens"}},
		"keys and tenants": {most, map[string]budget.RunLimits{"b.runs": {Cost: 1}, "a.runs": {Tokens: 1}, "c.runs": {Cost: amount("3")}},
			[]string{"a.runs.tokens", "b.runs.cost"}},
	} {
		if test.limits == nil {
			test.limits = map[string]budget.RunLimits{}
		}
		var got []string
		test.settings.Lint(test.limits, amount("15"), func(path, _ string) { got = append(got, path) })
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got warnings of %q, want %q", name, got, test.want)
		}
	}
}
