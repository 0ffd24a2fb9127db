package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/serve/problems"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/alerts"
)

// stage is a watch with conditions that tests make, and receivers that note what they got.
type stage struct {
	*watch
	t     *testing.T
	mu    sync.Mutex
	now   map[string]level // the conditions of the kind breaker
	got   []string         // by address: state and subject
	reply func(address string) (int, error)
	began time.Time
	done  sync.WaitGroup
	stop  context.CancelFunc
}

func newStage(t *testing.T, docs documents.Store, gateway string, addresses ...string) *stage {
	t.Helper()
	s := &stage{t: t, now: map[string]level{}, began: time.Now(), reply: func(string) (int, error) { return 200, nil }}
	s.watch = &watch{
		log: slog.New(slog.DiscardHandler), gateway: gateway, post: s.receive, openDocuments: func() documents.Store { return docs },
		kinds: map[alerts.Kind]kind{alerts.Breaker: {s.conditions, "alert.test", "alert.test", false}}, changed: make(chan struct{}, 1),
		senders: map[string]*sender{}, known: map[subject]*known{},
	}
	wanted := map[string]target{}
	for _, address := range addresses {
		wanted[address] = target{hook: alerts.Webhook{URL: backend.Literal(address)}, address: address}
	}
	s.set(15*time.Minute, wanted)
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	s.done.Go(func() { s.run(ctx) })
	return s
}

func (s *stage) end() {
	s.stop()
	s.done.Wait()
}

func (s *stage) conditions(now time.Time, found func(problems.Finding)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, level := range s.now {
		found(problems.Finding{Subject: name, IsWarning: level == warning, Since: now, Values: []any{"webhook", name}})
	}
}

func (s *stage) is(name string, l level) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now[name] = l; l == fine {
		delete(s.now, name)
	}
}

func (s *stage) receive(ctx context.Context, address, _ string, body []byte, _ map[string]string) error {
	s.mu.Lock()
	reply := s.reply
	s.mu.Unlock()
	status, err := reply(address)
	if errors.Is(err, errHangs) {
		<-ctx.Done()
		return ctx.Err()
	}
	if status == 200 {
		var m alerts.Message
		if err := json.Unmarshal(body, &m); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, fmt.Sprintf("%s %s %s %s", address, m.State, m.Severity, m.Subject))
	}
	if err == nil && status/100 != 2 {
		err = &outgoing.StatusError{Status: status}
	}
	return err
}

var errHangs = errors.New("it hangs")

// after waits, and checks what was received meanwhile.
func (s *stage) after(d time.Duration, want ...string) {
	s.t.Helper()
	<-time.After(d)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.got)
	if !slices.Equal(s.got, want) {
		s.t.Errorf("at %s: got %q, want %q", time.Since(s.began), s.got, want)
	}
	s.got = nil
}

// The same alert is sent once in the quiet time, a worse one at once, and one when it is over.
func TestAlertsAreFolded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, documents.NewMemory(), "g", "a")
		defer s.end()
		s.after(10 * time.Second)
		s.is("x", warning)
		s.after(10*time.Second, "a firing warning x")
		s.after(time.Hour) // it lasts
		s.is("x", critical)
		s.after(10*time.Second, "a firing critical x")
		s.is("x", fine)
		s.after(30 * time.Second)
		s.is("x", critical) // it comes and goes
		s.after(time.Minute)
		s.is("x", fine)
		s.after(2*time.Minute, "a over critical x")
		s.is("x", critical) // again, within the quiet time
		s.after(5 * time.Minute)
		s.after(10*time.Minute, "a firing critical x") // it lasts beyond it
		s.is("x", fine)
		s.after(2*time.Minute, "a over critical x")
		s.after(time.Hour)
		if len(s.known) != 0 {
			t.Errorf("%d conditions are remembered for ever", len(s.known))
		}
	})
}

// A webhook that hangs or is away delays no other, gets its alerts when it is back, and costs a
// bounded number of attempts and of alerts that wait.
func TestAWebhookThatIsAwayDelaysNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"hangs": errHangs, "away": errors.New("refused")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, documents.NewMemory(), "g", "bad", "good")
				defer s.end()
				attempts := 0
				s.reply = func(address string) (int, error) {
					if address == "bad" {
						attempts++
						return 0, fault
					}
					return 200, nil
				}
				s.is("x", critical)
				s.after(6*time.Second, "good firing critical x")
				s.is("y", critical)
				s.after(6*time.Second, "good firing critical y")
				s.mu.Lock()
				s.reply = func(string) (int, error) { return 200, nil }
				s.mu.Unlock()
				s.after(time.Minute, "bad firing critical x", "bad firing critical y")

				s.mu.Lock()
				attempts = 0
				s.reply = func(address string) (int, error) {
					if address == "bad" {
						attempts++
						return 503, nil
					}
					return 200, nil
				}
				s.mu.Unlock()
				for i := range 3 * maxQueued {
					s.is(fmt.Sprint("z", i), warning)
				}
				<-time.After(11 * time.Minute)
				synctest.Wait()
				bad := s.senders["bad"]
				if d := bad.status(); attempts < 5 || attempts > 7 || d.Failed != 1 || d.Dropped == 0 || len(bad.queue) < maxQueued-1 {
					t.Errorf("%d attempts, %d wait, %+v", attempts, len(bad.queue), d)
				}
			})
		})
	}
}

// An alert that the receiver refuses for good is not tried again.
func TestAFinalRefusalIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{404: 1, 400: 1, 429: 5, 408: 5, 500: 5} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, documents.NewMemory(), "g", "a")
			defer s.end()
			attempts := 0
			s.reply = func(string) (int, error) { attempts++; return status, nil }
			s.is("x", critical)
			s.after(time.Hour)
			if d := s.senders["a"].status(); attempts != want || d.Failed != 1 || d.Fault.Code != "alert.refused" {
				t.Errorf("%d: %d attempts, %+v", status, attempts, d)
			}
		})
	}
}

// Gateways that share a store send one alert, and the one that sent it says that it is over. A
// restart sends nothing twice, and does not forget that something is over.
func TestGatewaysSendOneAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		docs := documents.NewMemory()
		one, two := newStage(t, docs, "one", "a"), newStage(t, docs, "two", "a")
		defer two.end()
		one.is("x", critical)
		one.after(10*time.Second, "a firing critical x")
		two.is("x", critical)
		two.after(10 * time.Second)
		two.is("x", fine) // only here
		two.after(5 * time.Minute)
		one.end()
		one = newStage(t, docs, "one", "a")
		defer one.end()
		one.is("x", critical)
		one.after(time.Minute)
		one.is("x", fine)
		one.after(2*time.Minute, "a over critical x")
		two.after(time.Minute)
	})
}

// Webhooks get only their kinds, and changes of webhooks take effect at once.
func TestWebhooksChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, documents.NewMemory(), "g", "a")
		defer s.end()
		s.after(time.Second)
		hook := alerts.Webhook{Kinds: []alerts.Kind{alerts.Budget}}
		s.set(15*time.Minute, map[string]target{
			"b": {address: "b"}, "c": {hook: hook, address: "c"}, "d": {fault: say.New("alert.unsent")},
		})
		s.is("x", critical)
		s.after(10*time.Second, "b firing critical x")
		s.set(15*time.Minute, nil)
		s.is("y", critical)
		s.after(10 * time.Second)
		if len(s.senders) != 0 {
			t.Errorf("%d senders run on", len(s.senders))
		}
	})
}

// Many refused sign-ins within a quarter of an hour are a condition: people, providers and wrong
// tokens count together. Few are not, nor are those from before anybody wanted to know.
func TestSignInsThatAreRefused(t *testing.T) {
	t.Parallel()
	count := new(access.SignIns)
	count.Wrong.Add(5000)
	s, begin := &signIns{refused: count}, time.Now()
	look := func(after time.Duration) (said []string) {
		s.find(begin.Add(after), func(f problems.Finding) {
			said = append(said, fmt.Sprint(say.New("alert.sign_in", f.Values...), " since ", f.Since.Sub(begin)))
		})
		return said
	}
	steps := []struct {
		at                    time.Duration
		denied, failed, wrong int64
		told                  string // the beginning of what is said
		since                 time.Duration
	}{
		{at: 0},
		{at: time.Minute, denied: 10, wrong: 10},
		{at: 2 * time.Minute, failed: 1, told: "21 sign-ins ", since: 2 * time.Minute},
		{at: 10 * time.Minute, wrong: 1000, told: "1021 sign-ins ", since: 2 * time.Minute},
		{at: 17 * time.Minute, told: "1000 sign-ins ", since: 2 * time.Minute},
		{at: 26 * time.Minute},
		{at: 2 * time.Hour, denied: 100}, // nobody looked meanwhile
		{at: 2*time.Hour + time.Minute, denied: 21, told: "21 sign-ins ", since: 2*time.Hour + time.Minute},
	}
	for _, step := range steps {
		count.Denied.Add(step.denied)
		count.Failed.Add(step.failed)
		count.Wrong.Add(step.wrong)
		count.Accepted.Add(100)
		said := strings.Join(look(step.at), "; ")
		if step.told == "" && said != "" || !strings.HasPrefix(said, step.told) ||
			step.told != "" && !strings.HasSuffix(said, " since "+step.since.String()) {
			t.Errorf("after %s: %q, want %q", step.at, said, step.told)
		}
	}
	for i := range 10_000 {
		look(3*time.Hour + time.Duration(i)*lookInterval)
	}
	if most := int(signInWindow/lookInterval) + 1; len(s.seen) > most {
		t.Errorf("%d totals are kept, want at most %d", len(s.seen), most)
	}
}
