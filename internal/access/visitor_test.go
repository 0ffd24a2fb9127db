package access

import (
	"crypto/sha256"
	"fmt"
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

// verbose lets everybody in whose token begins with "t.": about the subject between the dots, with claims of
// 10 KB, for a minute.
type verbose struct{ anyone }

func (verbose) Identify(text string, now time.Time) (*Visitor, *schema.Error, bool) {
	_, subject, _ := strings.Cut(text, ".")
	subject, _, _ = strings.Cut(subject, ".")
	return &Visitor{Issuer: "i", Subject: subject, Until: now.Add(time.Minute), Claims: strings.Repeat("c", 10_000)}, nil, true
}

// Verified tokens take a part of the memory only: the subject with the most gives way, and those that have
// ended are dropped.
func TestVerifiedTokensAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	dir, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenCredentials(dir, Settings{Enabled: true, MasterKey: strings.Repeat("k", 40)}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20
	c.SetMemory(func() int64 { return passShare * most })
	c.SetIssuers(verbose{})
	now := time.Now()
	come := func(subject string, number int) [sha256.Size]byte {
		text := fmt.Sprintf("t.%s.%d", subject, number)
		if _, refusal := c.Guard().Identify(http.Header{"X-Api-Key": {text}}, now); refusal != nil {
			t.Fatal(refusal)
		}
		return sha256.Sum256([]byte(text))
	}
	passes := c.Guard().visitors
	quiet := come("quiet", 1)
	for i := range 2000 {
		come("greedy", i)
		if passes.bytes > most {
			t.Fatalf("after %d tokens: got %d bytes, want at most %d", i, passes.bytes, most)
		}
	}
	if passes.passes[quiet] == nil {
		t.Error("the token of another subject gave way to those of the one with the most")
	}
	sum := 0
	for _, grant := range passes.passes {
		sum += sizeOf(grant)
	}
	if sum != passes.bytes || len(passes.by) != 2 || sum < most/3 {
		t.Errorf("got %d bytes of %d subjects counted, want %d of 2", passes.bytes, len(passes.by), sum)
	}
	now = now.Add(time.Hour)
	come("quiet", 2)
	if len(passes.passes) != 1 || len(passes.by) != 1 || passes.bytes != sizeOf(passes.passes[come("quiet", 2)]) {
		t.Errorf("after the end of all: got %d tokens of %d subjects in %d bytes, want the new one", len(passes.passes), len(passes.by), passes.bytes)
	}
	c.SetMemory(func() int64 { return passShare })
	if come("huge", 1); len(passes.passes) != 0 || passes.bytes != 0 {
		t.Errorf("without room: got %d tokens in %d bytes, want none", len(passes.passes), passes.bytes)
	}
}

// However many subjects come, the memory for their limits is bounded. Those who were not here for some
// minutes give way to others; a change of keys forgets nobody.
func TestManyVisitorsWithLimitsAreBounded(t *testing.T) {
	dir, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c, err := OpenCredentials(dir, Settings{Enabled: true, MasterKey: strings.Repeat("k", 40)}, nil, nil)
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
	c, err := OpenCredentials(dir, Settings{Enabled: true, MasterKey: strings.Repeat("k", 40)}, nil, nil)
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
