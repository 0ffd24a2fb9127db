package access

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// anyone lets everybody in whose token begins with "t.".
type anyone struct{ limits allowance.Limits }

func (a anyone) Identify(text string, _ time.Time) (*Visitor, *schema.Error, bool) {
	if !strings.HasPrefix(text, "t.") {
		return nil, nil, false
	}
	return &Visitor{Issuer: "i", Subject: text, Terms: Terms{Limits: a.limits}}, nil, true
}
func (anyone) Again(string, string) *Visitor { return nil }
func (anyone) Has(string) bool               { return true }

// However many subjects come, the memory for their limits is bounded. Those who were not here for some
// minutes give way to others; a change of keys forgets nobody.
func TestManyVisitorsWithLimitsAreBounded(t *testing.T) {
	dir, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c, err := OpenCredentials(dir, Settings{Enabled: true, MasterKey: strings.Repeat("k", 40)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.maxVisitors = 3
		c.SetIssuers(anyone{allowance.Limits{RequestsPerMinute: 1}})
		come := func(subject string) string {
			_, refusal := c.Guard().Identify(http.Header{"X-Api-Key": {"t." + subject}}, time.Now())
			if refusal != nil {
				return refusal.Code
			}
			return ""
		}
		for _, one := range []struct{ subject, want string }{{"a", ""}, {"b", ""}, {"c", ""}, {"d", schema.CodeOverloaded}, {"a", ""}} {
			if got := come(one.subject); got != one.want {
				t.Errorf("%s: %q, want %q", one.subject, got, one.want)
			}
		}
		c.SetIssuers(anyone{allowance.Limits{RequestsPerMinute: 1}})
		if len(c.visitors) != 3 {
			t.Errorf("%d are counted", len(c.visitors))
		}
		time.Sleep(visitorIdle + time.Second) //nolint:forbidigo // the time of a synctest bubble
		if got := come("a"); got != "" {
			t.Error(got)
		}
		if got := come("d"); got != "" {
			t.Errorf("after some minutes: %s", got)
		}
		if len(c.visitors) != 2 {
			t.Errorf("%d are counted, want the two who came lately", len(c.visitors))
		}
	})
}

// The tokens that are remembered are bounded.
func TestTokensThatAreRememberedAreBounded(t *testing.T) {
	dir, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenCredentials(dir, Settings{Enabled: true, MasterKey: strings.Repeat("k", 40)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.SetIssuers(anyone{})
	guard := c.Guard()
	for n := range maxPasses + 50 {
		if _, refusal := guard.Identify(http.Header{"X-Api-Key": {"t." + strings.Repeat("x", n%97) + time.Duration(n).String()}}, time.Now()); refusal != nil {
			t.Fatal(refusal)
		}
	}
	if n := len(guard.visitors.passes); n > maxPasses {
		t.Errorf("%d tokens are remembered", n)
	}
}
