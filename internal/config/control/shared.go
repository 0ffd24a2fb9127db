package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

// ErrUnavailable means that a change could not be written to the database of the shared
// configuration.
var ErrUnavailable = say.Error("manage.shared_away")

// ErrUnconfirmed is ErrUnavailable where the result of the commit is not known.
var ErrUnconfirmed = say.Wrap(ErrUnavailable, "manage.shared_unconfirmed")

const (
	// pollInterval is how often the log is read if no notification comes: often
	// enough for a change to be everywhere within a second.
	pollInterval = 750 * time.Millisecond
	// maxRetryDelay is the longest time between two tries while the database
	// is away.
	maxRetryDelay = 3 * time.Second
)

// Joined reports whether this gateway has read the shared configuration, in this run or
// an earlier one. It is true where nothing is shared.
func (c *Control) Joined() bool { return c.shared == nil || c.shared.joined.Load() }

// Values returns the values that are shared beside the versions, nil where nothing is
// shared.
func (c *Control) Values() *Values {
	if c.shared == nil {
		return nil
	}
	return c.shared.values
}

// Follow keeps this gateway up to date with the log until the context ends. It
// returns at once if nothing is shared.
func (c *Control) Follow(ctx context.Context) {
	if c.shared == nil {
		return
	}
	var listener Listener
	disconnect := func() {
		if listener != nil {
			listener.Close()
		}
		listener = nil
	}
	defer func() {
		disconnect()
		if ctx.Err() != nil { // not after a panic: it is then called again
			c.Close()
		}
	}()
	wait := pollInterval / 4
	for ctx.Err() == nil {
		var err error
		if listener == nil {
			listener, err = c.shared.Listen(ctx)
		}
		if err == nil {
			err = c.refresh(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		c.reportFollowing(err)
		if err != nil {
			disconnect()
			wait = min(2*wait, maxRetryDelay)
			_ = waiting.Pause(ctx, wait/2+mathrand.N(wait/2)) //nolint:gosec // spreads tries, keeps no secret
			continue
		}
		wait = pollInterval / 4
		next, cancel := context.WithTimeout(ctx, pollInterval)
		err = listener.Wait(next)
		cancel()
		if err != nil {
			disconnect()
		}
	}
}

// Close closes the connection to the database of a shared configuration. Follow calls it
// at its end; a gateway that never calls Follow must call it.
func (c *Control) Close() {
	if c.shared == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared.Close()
}

// reportFollowing logs when the shared log cannot be followed any more, and when
// it can again.
func (c *Control) reportFollowing(err error) {
	if err == nil {
		if c.shared.following.Recover() {
			c.log.Info("the shared configuration is followed again", "version", c.Version())
		}
		return
	}
	level := slog.LevelWarn
	before := c.shared.following.Failure()
	isNew := c.shared.following.Fail(say.From(err))
	if errors.Is(err, versions.ErrForged) {
		level = slog.LevelError
		isNew = isNew || before.Reason != err.Error()
	}
	if isNew {
		c.log.Log(context.Background(), level, "the shared configuration cannot be followed: nothing can be "+
			"changed, and the last known one serves if there is one", "version", c.Version(), "error", err)
	}
}

// Following returns the state of the database of the shared configuration, nil where
// nothing is shared.
func (c *Control) Following() *condition.Condition {
	if c.shared == nil {
		return nil
	}
	return &c.shared.following
}

// refresh applies news from the log, and then writes a waiting configuration file to the
// log.
func (c *Control) refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	log, err := c.beginLogTransaction(ctx, false)
	if err != nil {
		return err
	}
	// Credentials come first: a version that cannot be used must not delay them.
	valuesErr := c.shared.values.catchUp(log)
	err = c.catchUp(log)
	log.End()
	err = errors.Join(valuesErr, c.shared.values.supplyMissing(ctx), err)
	if err == nil {
		err = c.writeWaiting(ctx)
	}
	return err
}

// writeWaiting writes a configuration file that has been waiting to the log. A file that
// is refused does not wait any longer.
func (c *Control) writeWaiting(ctx context.Context) error {
	if c.file.waiting == nil {
		return nil
	}
	_, err := c.reload(ctx, c.file.waiting)
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	c.file.waiting = nil
	if err != nil {
		c.log.Error("the configuration file was not taken; the running configuration stays", "error", err)
	}
	return nil
}

// catchUp enacts the changes that other gateways wrote to the log, and makes the files
// the same as the log. The caller has the lock.
func (c *Control) catchUp(log *logTransaction) error {
	if c.local.position == log.head.Position {
		c.shared.joined.Store(true)
		return nil
	}
	now := *c.state.Load() // a copy: enact writes to the proposal
	p := &proposal{next: &now, check: validateStored}
	summary := ""
	moved := !c.local.isEarlierThan(log.head) || p.next.version != log.head.Version
	if moved {
		v, err := log.Load(log.head.Version)
		if err != nil {
			return err
		}
		p.next, summary = c.stateOf(v), v.Summary
	}
	err := c.enact(incoming{log, &c.local}, p)
	if err != nil && !errors.Is(err, errUnsaved) {
		return fmt.Errorf("version %d: %w", p.next.version, err)
	}
	c.shared.joined.Store(true)
	if moved {
		c.log.Info("the shared configuration changed", "version", p.next.version, "summary", summary)
	}
	return err
}

// beginLogTransaction begins a transaction on the shared log, which is not empty then.
func (c *Control) beginLogTransaction(ctx context.Context, write bool) (*logTransaction, error) {
	log, err := newLogTransaction(ctx, c.shared, write)
	if err != nil || log.head.Log != "" {
		return log, err
	}
	log.End()
	if err := c.initialise(ctx); err != nil {
		return nil, err
	}
	return newLogTransaction(ctx, c.shared, write)
}

// initialise gives an empty log the versions of this gateway. If another gateway does so
// at the same moment, the log gets the versions of only one.
func (c *Control) initialise(ctx context.Context) error {
	log, err := newLogTransaction(ctx, c.shared, true)
	if err != nil {
		return err
	}
	defer log.End()
	first := c.head(c.Version())
	first.Position = Position{Log: rand.Text(), Revision: 1}
	if isFirst, err := log.Initialise(first); err != nil || !isFirst {
		return err
	}
	if err := c.local.copyTo(log, first.Version); err != nil {
		return err
	}
	if err := log.Commit(); err != nil {
		return err
	}
	c.local.position = first.Position // even if the head cannot be saved: the store has the same versions
	c.log.Info("the shared configuration was empty and begins with this gateway's", "version", first.Version)
	return c.setHead(first)
}

// takeLog keeps all other writers out of the shared log, and applies its news.
func (c *Control) takeLog(ctx context.Context) (transfer, error) {
	log, err := c.beginLogTransaction(ctx, true)
	if err != nil {
		return nil, err
	}
	if err := c.catchUp(log); err != nil {
		log.End()
		return nil, err
	}
	c.local.newest = log.head.Newest
	return &outgoing{log: log, local: &c.local}, nil
}
