// Package watch is the wing of alerts: it watches budgets, circuit breakers and models, and tells
// webhooks when something is wrong and when that is over.
//
// Read the files in this order: kinds.go has the table of kinds, which report the conditions that
// are there now; watch.go decides of which to tell; ledger.go remembers these; sender.go delivers
// alerts to a webhook; wing.go connects all of it with the gateway.
package watch

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/problems"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/alerts"
)

const (
	// lookInterval is how often the gateway looks for conditions.
	lookInterval = 5 * time.Second
	// settleTime is how long a condition must be gone before it is over.
	settleTime = time.Minute
)

// subject names a condition.
type subject struct {
	kind alerts.Kind
	name string
}

// known is a condition that is there, or was there a moment ago.
type known struct {
	condition
	// level is the level of the last alert, fine if there was none or it is over. isOwn says that
	// this gateway sent it.
	level level
	isOwn bool
	// at is when an alert of each level was last due.
	at [levels]time.Time
	// gone is when the condition was found gone, zero while it is there.
	gone time.Time
}

// watch watches a gateway.
type watch struct {
	log     *slog.Logger
	kinds   map[alerts.Kind]kind
	gateway string
	post    post
	// openDocuments opens the store of the ledger, when the first webhook is set.
	openDocuments func() documents.Store
	changed       chan struct{} // has a token when the webhooks changed

	mu      sync.Mutex // for the fields below
	quiet   time.Duration
	wanted  map[string]target
	senders map[string]*sender
	known   map[subject]*known

	ledger *ledger // nil before there is a webhook; of Run alone
}

// target is a webhook with its address, or with the fault of it.
type target struct {
	hook    alerts.Webhook
	address string
	fault   say.Sentence
}

// set changes the webhooks.
func (w *watch) set(quiet time.Duration, wanted map[string]target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet, w.wanted = quiet, wanted
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// run watches until ctx ends.
func (w *watch) run(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	defer w.endSenders()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		if w.useSenders(ctx, &sending) {
			w.look(ctx, time.Now())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.changed:
		}
	}
}

// useSenders starts the senders of new webhooks and ends those of others. It reports whether
// there are any.
func (w *watch) useSenders(ctx context.Context, sending *sync.WaitGroup) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.senders {
		if to, stays := w.wanted[name]; !stays || to.address != s.address || !settings.Equal(to.hook, s.hook) {
			s.stop()
			delete(w.senders, name)
		}
	}
	for name, to := range w.wanted {
		if w.senders[name] != nil || to.fault.Is() {
			continue
		}
		own, stop := context.WithCancel(ctx)
		s := &sender{name: name, hook: to.hook, address: to.address, post: w.post, stop: stop,
			queue: make(chan alerts.Message, maxQueued)}
		w.senders[name] = s
		sending.Go(func() {
			logs.Persist(own, w.log, "sending alerts", func(ctx context.Context) { s.run(ctx, w.gaveUp) })
		})
	}
	return len(w.senders) > 0
}

func (w *watch) endSenders() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.senders {
		s.stop()
		delete(w.senders, name)
	}
}

// gaveUp logs that an alert could not be delivered.
func (w *watch) gaveUp(webhook string, why say.Sentence) {
	w.log.Warn("an alert was not delivered", "webhook", webhook, "reason", why.String())
}

// look compares the conditions that are there now with those before, and sends alerts.
func (w *watch) look(ctx context.Context, now time.Time) {
	if w.ledger == nil {
		w.begin(ctx)
	}
	seen := map[subject]bool{}
	for _, of := range slices.Sorted(maps.Keys(w.kinds)) {
		kind := w.kinds[of]
		kind.find(now, func(f problems.Finding) {
			name := subject{of, f.Subject}
			seen[name] = true
			w.found(ctx, name, kind.condition(f), now)
		})
	}
	for _, name := range w.names() {
		if !seen[name] {
			w.missed(ctx, name, now)
		}
	}
}

// names returns the known conditions.
func (w *watch) names() []subject {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.known))
}

// begin opens the ledger, and takes the alerts over that were sent before the start.
func (w *watch) begin(ctx context.Context) {
	w.ledger = &ledger{docs: w.openDocuments(), owner: w.gateway}
	sent := map[subject]*known{}
	w.ledger.open(ctx, func(t told, isOwn bool) {
		sent[subject{t.Kind, t.Subject}] = &known{level: t.Level, isOwn: isOwn,
			condition: condition{Subject: t.Subject, Level: t.Level, Since: t.Since, Over: t.Over}}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.Copy(w.known, sent)
}

// found tells of a condition that is new or has become worse, unless it told of the same within
// the quiet time.
func (w *watch) found(ctx context.Context, name subject, c condition, now time.Time) {
	w.mu.Lock()
	k := w.known[name]
	if k == nil {
		k = new(known)
		w.known[name] = k
	}
	if k.Since.IsZero() || c.Since.Before(k.Since) || k.level == fine && !k.gone.IsZero() {
		k.Since = c.Since
	}
	c.Since = k.Since
	k.condition, k.gone = c, time.Time{}
	quiet := w.quiet
	isDue := c.Level > k.level && (k.at[c.Level].IsZero() || now.Sub(k.at[c.Level]) >= quiet)
	k.level = min(k.level, c.Level)
	w.mu.Unlock()
	if !isDue {
		return
	}
	isOwn, isSent := w.ledger.claim(ctx,
		told{Kind: name.kind, Subject: c.Subject, Level: c.Level, Since: c.Since, Sent: now, Over: c.Over}, quiet)
	w.mu.Lock()
	defer w.mu.Unlock()
	if isSent {
		k.level, k.at[c.Level], k.isOwn = c.Level, now, isOwn
	}
	if isOwn {
		w.send(name.kind, alerts.Firing, c, c.Said, now)
	}
}

// missed tells that a condition is over, when it has been gone for a while.
func (w *watch) missed(ctx context.Context, name subject, now time.Time) {
	w.mu.Lock()
	k := w.known[name]
	if k.gone.IsZero() {
		k.gone = now
	}
	isOver := k.level > fine && now.Sub(k.gone) >= settleTime
	isForgotten := k.level == fine && now.Sub(slices.MaxFunc(k.at[:], time.Time.Compare)) >= w.quiet
	if isForgotten {
		delete(w.known, name)
	}
	if isOver {
		k.level = fine
	}
	tells := isOver && (k.isOwn || w.kinds[name.kind].isShared)
	w.mu.Unlock()
	if !tells || !w.ledger.release(ctx, name.kind, name.name) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.send(name.kind, alerts.Over, k.condition, k.Over, now)
}

// send gives an alert to the webhooks that want it. The lock is held.
func (w *watch) send(of alerts.Kind, state alerts.State, c condition, said say.Sentence, now time.Time) {
	m := alerts.NewMessage(of.String(), state, said)
	m.Severity, m.Subject, m.Since, m.Time, m.Gateway = c.Level.String(), c.Subject, c.Since.UTC(), now.UTC(), w.gateway
	for _, s := range w.senders {
		if s.hook.Gets(of) {
			s.add(m)
		}
	}
}
