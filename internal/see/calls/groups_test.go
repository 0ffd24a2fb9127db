package calls

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// TestHostsAreWrittenAsBrowsersDo: the console reads the host of an instance from its address, and
// asks for it by that name.
func TestHostsAreWrittenAsBrowsersDo(t *testing.T) {
	t.Parallel()
	for instance, want := range map[string]string{
		"m@http://gpu-2:8000":              "gpu-2:8000",
		"m@http://GPU-2:80/v1":             "gpu-2",
		"m@https://api.example.com:443/v1": "api.example.com",
		"m@https://api.example.com:80":     "api.example.com:80",
		"a@b@http://[::1]:9":               "[::1]:9",
		"m@process":                        "m@process",
	} {
		if got := HostOf(instance); got != want {
			t.Errorf("%s: %s, want %s", instance, got, want)
		}
	}
}

// TestSharesCountTheCallsBeforeTheFirstRefusal: two refusals after eight answers are a fifth of
// the last minutes, and not all of what was seen since.
func TestSharesCountTheCallsBeforeTheFirstRefusal(t *testing.T) {
	t.Parallel()
	r := NewRecorder(metrics.DefaultSettings())
	now := time.Now()
	finish := func(ago time.Duration, tenant, code string) {
		c := &Record{Started: now.Add(-ago), Service: schema.Chat, Routed: true, Model: "m", Tenant: tenant, Status: 200}
		if code != "" {
			c.Code, c.Status, c.Told = code, 429, &Told{Message: "no", Of: "tenant/" + tenant}
		}
		r.Finish(c)
	}
	finish(time.Hour, "team", "")
	for range 8 {
		finish(time.Minute, "team", "")
		finish(time.Minute, "others", "")
	}
	finish(2*time.Second, "team", schema.CodeBudgetExceeded)
	finish(time.Second, "team", schema.CodeBudgetExceeded)
	groups := r.Groups(now)
	if len(groups) != 1 || groups[0].Refused != 2 || groups[0].Calls != 10 {
		t.Errorf("%+v", groups)
	}
}
