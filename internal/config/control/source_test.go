package control_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/config"
	. "github.com/patchbay-ai/patchbay/internal/config/control" //nolint:revive // the tests stood in the package, and left it for its two logs
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

// readFrom returns a document that was read from a file with these words.
func readFrom(words string, more ...func(*config.Document) error) *config.Document {
	doc := config.Default()
	doc.Written = words
	for _, edit := range more {
		_ = edit(doc)
	}
	return doc
}

// An upgrade brings new settings and new defaults. The file is still the same,
// and so are the changes that were made since it was read.
func TestUpgradesKeepChangesOverAnUnchangedFile(t *testing.T) {
	newDefault := func(doc *config.Document) error {
		for serviceType, service := range doc.Services {
			service.CircuitBreaker.FailureThreshold++
			doc.Services[serviceType] = service
		}
		return nil
	}
	dir := t.TempDir()
	b := open(t, dir, readFrom("words"))
	mustChange(t, b, add("edited"))
	restart := func(name string, doc *config.Document, want int) {
		t.Helper()
		_ = b.store.Close()
		b = open(t, dir, doc)
		if b.Version() != want {
			t.Errorf("%s: version %d, want %d", name, b.Version(), want)
		}
	}
	restart("the same release", readFrom("words"), 2)
	restart("a release with another default", readFrom("words", newDefault), 2)
	if changed, err := b.Reload(t.Context(), readFrom("words")); changed || err != nil || b.Version() != 2 {
		t.Errorf("a reload takes the file: %t, %v, version %d", changed, err, b.Version())
	}
	restart("another file that says the same", readFrom("other words"), 2)
	restart("another file", readFrom("still other words", add("in the file")), 3)
	if got := names(b); !slices.Equal(got, []string{"in the file", "edited"}) {
		t.Errorf("it has %v", got)
	}
	_ = b.store.Close()
}

// A change is checked as it will be read back, not as it was made.
func TestChangesThatCannotBeStoredAreRefused(t *testing.T) {
	b := open(t, t.TempDir(), config.Default())
	defer b.store.Close()
	edit := func(recovery time.Duration, name string) error {
		_, err := b.Apply(t.Context(), Change{Origin: FromAPI}, func(doc *config.Document) error {
			service := doc.Services[schema.Chat]
			service.CircuitBreaker.RecoveryTimeout = schema.Duration(recovery)
			service.Instances = append(service.Instances, instanceOf(name, 1))
			doc.Services[schema.Chat] = service
			return nil
		})
		return err
	}
	var problems config.Problems
	if err := edit(500*time.Microsecond, "a"); !errors.As(err, &problems) || !strings.Contains(err.Error(), "recovery-timeout") {
		t.Errorf("half a millisecond: %v", err)
	}
	if err := edit(time.Second, "\xff"); !errors.Is(err, ErrSave) {
		t.Errorf("no text: %v", err)
	}
	if b.Version() != 1 {
		t.Errorf("version %d", b.Version())
	}
	if err := edit(1500*time.Microsecond, "a"); err != nil {
		t.Error(err)
	}
	doc, _ := b.Document()
	if stored, err := b.Load(2); err != nil || !settings.Equal(doc.Services, stored.Services) {
		t.Errorf("in force is not what is stored: %v", err)
	}
}

// What passes the checks is stored without loss.
func TestPropertyServicesSurviveTheStore(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune{'a', '"', '\\', '<', '\u00e9', '\u2028', '\U0001F600', ' '}), 1, 8, -1)
	span := rapid.Custom(func(t *rapid.T) schema.Duration {
		return schema.Duration(time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, "ms")) * time.Millisecond)
	})
	rapid.Check(t, func(t *rapid.T) {
		doc := config.Default()
		service := doc.Services[schema.Chat]
		service.LoadBalancer = balance.Strategy(rapid.IntRange(0, len(balance.RoundRobin.Names())-1).Draw(t, "strategy"))
		service.RateLimit = ratelimit.DefaultSettings()
		service.RateLimit.Enabled, service.RateLimit.Capacity = rapid.Bool().Draw(t, "limited"), rapid.IntRange(1, 1<<30).Draw(t, "capacity")
		service.RateLimit.WarmUpPeriod, service.CircuitBreaker.RecoveryTimeout = span.Draw(t, "warm-up"), span.Draw(t, "recovery")
		service.HealthCheck.Interval, service.HealthCheck.Timeout = span.Draw(t, "interval"), span.Draw(t, "timeout")
		service.Queue.Timeout, service.Timeouts.Total = span.Draw(t, "queue"), span.Draw(t, "total")
		for range rapid.IntRange(0, 3).Draw(t, "instances") {
			s := backend.DefaultSettings()
			s.Name, s.BaseURL, s.APIKey = text.Draw(t, "name"), "http://127.0.0.1:1/"+rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "path"), backend.Literal(rapid.StringMatching(`[a-z"\\<]{0,5}`).Draw(t, "key"))
			s.Weight, s.Enabled, s.MaxConcurrency = rapid.Float64Range(0, 1e6).Draw(t, "weight"), rapid.Bool().Draw(t, "enabled"), backend.Concurrency(rapid.IntRange(0, 9).Draw(t, "slots"))
			s.Headers = map[string]backend.Secret{"X-A": backend.Reference(text.Draw(t, "header"))}
			service.Instances = append(service.Instances, s)
		}
		doc.Services[schema.Chat] = service
		if Validate(doc) != nil {
			return
		}
		stored, err := AsStored(doc)
		if err != nil || !stored.Equal(doc) {
			t.Fatalf("%v: %+v became %+v", err, doc.Services[schema.Chat], stored)
		}
	})
}
