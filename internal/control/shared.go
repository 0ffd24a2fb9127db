package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/condition"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/routing"
)

// ErrUnavailable means that the database of the shared configuration did not
// take a change.
var ErrUnavailable = errors.New("the shared configuration cannot be written now; the last known one stays in force")

// ErrUnconfirmed is ErrUnavailable at the worst moment: the answer to the commit
// was lost.
var ErrUnconfirmed = fmt.Errorf("%w; whether this change was taken shows when its database is back", ErrUnavailable)

const (
	// sharedPoll is how often the log is read if no notification comes: often
	// enough for a change to be everywhere within a second.
	sharedPoll = 750 * time.Millisecond
	// sharedPatience is the longest time between two tries while the database
	// is away.
	sharedPatience = 3 * time.Second
)

// OpenShared is Open for a gateway that shares its configuration with others.
// The files in the data directory are the last known state of the log; they
// serve while the database is away. An empty log gets what this gateway has. In
// any other the current version wins, unless this gateway followed the log
// before and its configuration file changed since; then that becomes a version.
func OpenShared(store Store, doc *config.Document, current *routing.Current, log *slog.Logger, shared Shared) (*Control, error) {
	c, err := openWith(store, doc, current, log, shared)
	if err != nil {
		return nil, err
	}
	c.note(c.refresh(context.Background()))
	return c, nil
}

// Joined tells whether this gateway knows the configuration that it shares: it
// has read it, now or in an earlier run. One that shares nothing always does.
func (c *Control) Joined() bool { return c.shared == nil || c.joined.Load() }

// Values returns what is shared beside the versions, nil where nothing is.
func (c *Control) Values() *Values { return c.values }

// recall takes up where this gateway was in the log when it stopped. A file that
// changed since has to wait for the log.
func (c *Control) recall(last Head, doc *config.Document) (isWaiting bool) {
	if c.shared == nil || last.Log == "" {
		return false
	}
	c.position = last.Position
	c.joined.Store(true)
	if isSource(c.file.source, doc) {
		return false
	}
	c.waiting = doc.Clone()
	return true
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
		c.Close()
	}()
	wait := sharedPoll / 4
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
		c.note(err)
		if err != nil {
			disconnect()
			wait = min(2*wait, sharedPatience)
			pause(ctx, wait/2+mathrand.N(wait/2)) //nolint:gosec // spreads tries, keeps no secret
			continue
		}
		wait = sharedPoll / 4
		next, cancel := context.WithTimeout(ctx, sharedPoll)
		err = listener.Wait(next)
		cancel()
		if err != nil {
			disconnect()
		}
	}
}

// Close lets go of the database of a shared configuration, for a gateway that
// does not come to follow it.
func (c *Control) Close() {
	if c.shared == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared.Close()
}

func pause(ctx context.Context, long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// note logs when the log goes away and when it is back.
func (c *Control) note(err error) {
	if err == nil {
		if c.following.Recover() {
			c.log.Info("the shared configuration is followed again", "version", c.Version())
		}
		return
	}
	if c.following.Fail(err.Error()) {
		c.log.Warn("the shared configuration cannot be followed; the last known one serves and nothing can be changed", "version", c.Version(), "error", err)
	}
}

// Following returns how the database of the shared configuration is, nil where
// the configuration is not shared.
func (c *Control) Following() *condition.Condition {
	if c.shared == nil {
		return nil
	}
	return &c.following
}

// refresh brings this gateway up to date, and then the log with a file that
// waited for it.
func (c *Control) refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := beginSession(ctx, c.shared, false)
	if err != nil {
		return err
	}
	if s.head.Log == "" {
		s.End()
		if err := c.found(); err != nil {
			return err
		}
		if s, err = beginSession(ctx, c.shared, false); err != nil {
			return err
		}
	}
	// Credentials come first: a version that cannot be used must not delay them.
	valuesErr := c.values.catchUp(s)
	err = c.catchUp(s)
	s.End()
	err = errors.Join(valuesErr, c.values.supply(), err)
	if err != nil || c.waiting == nil {
		return err
	}
	_, err = c.reload(c.waiting)
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	c.waiting = nil
	if err != nil {
		c.log.Error("the configuration file was not taken; the running configuration stays", "error", err)
	}
	return nil
}

// found makes an empty log the one of this gateway's versions. If another one
// does so at the same moment, the next refresh follows that.
func (c *Control) found() error {
	s, err := beginSession(context.Background(), c.shared, true)
	if err != nil {
		return err
	}
	defer s.End()
	first := Head{Position: Position{Log: rand.Text(), Revision: 1}, Version: c.Version(), Newest: c.newest, Source: c.file.source}
	if isFirst, err := s.Initialise(first); err != nil || !isFirst {
		return err
	}
	numbers, err := c.store.Versions()
	if err != nil {
		return err
	}
	for _, number := range numbers {
		v, err := c.store.Load(number)
		if err != nil && number != first.Version {
			continue // what cannot be read here is no use to others
		}
		if err == nil {
			err = s.Save(v)
		}
		if err != nil {
			return err
		}
	}
	if err := s.commit(first); err != nil {
		return err
	}
	c.position = first.Position
	c.log.Info("the shared configuration was empty and begins with this gateway's", "version", first.Version)
	return c.point(first.Version)
}

// catchUp puts the current version of the log into force and makes the files
// the same as the log. The caller has the lock.
func (c *Control) catchUp(s *session) error {
	if c.position == s.head.Position {
		c.joined.Store(true)
		return nil
	}
	now := c.state.Load()
	sameLog := c.position.Log == s.head.Log && c.position.Revision <= s.head.Revision
	moved := !sameLog || now.version != s.head.Version
	next, table, summary := now, c.current.Load(), ""
	if moved {
		v, err := s.Load(s.head.Version)
		if err != nil {
			return err
		}
		summary = v.Summary
		next = &state{doc: now.doc.Clone(), version: v.Number, since: v.since()}
		next.doc.Services = v.Services
		if err := validateStored(next.doc); err != nil {
			return fmt.Errorf("version %d: %w", v.Number, err)
		}
		if table, err = routing.Compile(next.doc, c.current.Load(), next.since); err != nil {
			return fmt.Errorf("version %d: %w", v.Number, err)
		}
	}
	surplus, err := c.copyVersions(s, sameLog)
	if moved {
		// Also if the disk is full: what the others do counts.
		c.put(next, table)
		c.log.Info("the shared configuration changed", "version", next.version, "summary", summary)
	}
	c.joined.Store(true)
	if err != nil {
		return err
	}
	before := c.position
	c.position, c.newest = s.head.Position, s.head.Newest
	if err := c.point(next.version); err != nil {
		c.position = before
		return err
	}
	for _, number := range surplus {
		if err := c.store.Remove(number); err != nil {
			c.log.Warn("a version that the shared configuration does not have stays on disk", "version", number, "error", err)
		}
	}
	return nil
}

// copyVersions writes the versions that the files lack, and returns those that
// the log lacks. Files of another log are kept in a backup and then replaced.
func (c *Control) copyVersions(s *session, sameLog bool) (surplus []int, err error) {
	theirs, err := s.Versions()
	if err != nil {
		return nil, err
	}
	ours, err := c.store.Versions()
	if err != nil {
		return nil, err
	}
	if !sameLog && len(ours) > 0 {
		path, _, err := c.store.Backup(time.Now(), false)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSave, err)
		}
		c.log.Info("the versions of the shared configuration replace those of this gateway, which are kept", "backup", path)
	}
	for _, number := range theirs {
		if _, have := slices.BinarySearch(ours, number); have && sameLog {
			continue
		}
		v, err := s.Load(number)
		if err != nil && number != s.head.Version {
			c.log.Warn("a version of the shared configuration cannot be read", "version", number, "error", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := c.store.Save(v); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSave, err)
		}
	}
	return slices.DeleteFunc(ours, func(number int) bool {
		_, there := slices.BinarySearch(theirs, number)
		return there
	}), nil
}

// session is a transaction on the shared log and its head.
type session struct {
	Transaction

	head Head
	// source is what the head gets as its source with the next write.
	source string
	// committed says that the log has what was written.
	committed bool
}

func beginSession(ctx context.Context, shared Shared, write bool) (*session, error) {
	tx, err := shared.Begin(ctx, write)
	if err != nil {
		return nil, err
	}
	head, err := tx.Head()
	if err != nil {
		tx.End()
		return nil, err
	}
	return &session{Transaction: tx, head: head, source: head.Source}, nil
}

// commit commits, and notes the head that the log has then.
func (s *session) commit(next Head) error {
	if err := s.Commit(); err != nil {
		return err
	}
	s.head, s.committed = next, true
	return nil
}

// begin takes the log for a write and brings this gateway up to date, so that
// the write starts from what everybody has. Without a log, and for a dry run,
// it does nothing. The caller has the lock and calls end after the write.
func (c *Control) begin(dryRun bool) (end func(), err error) {
	if c.shared == nil || dryRun {
		return func() {}, nil
	}
	s, err := beginSession(context.Background(), c.shared, true)
	if err == nil && s.head.Log == "" {
		s.End()
		if err = c.found(); err == nil {
			s, err = beginSession(context.Background(), c.shared, true)
		}
	}
	if err == nil {
		if err = c.catchUp(s); err != nil {
			s.End()
		}
	}
	if err != nil {
		c.log.Warn("a change was refused: the shared configuration cannot be written", "error", err)
		return nil, ErrUnavailable
	}
	c.session, c.newest = s, s.head.Newest
	return func() {
		s.End()
		c.session = nil
	}, nil
}

// publish writes to the log before anything is written here: a new version, if
// any, which one is current, and which ones are not kept. Nothing happens without
// a log.
func (c *Control) publish(v *Version, current int, surplus []int) error {
	s := c.session
	if s == nil {
		if v != nil {
			c.position = Position{} // the files are not those of a log any more
		}
		return nil
	}
	if v == nil && current == s.head.Version && s.source == s.head.Source {
		return nil
	}
	if v != nil {
		if err := s.Save(v); err != nil {
			return c.refused(err)
		}
	}
	if len(surplus) > 0 {
		if err := s.Remove(surplus...); err != nil {
			return c.refused(err)
		}
	}
	return c.move(current)
}

// unpublish removes a version from the log.
func (c *Control) unpublish(number int) error {
	s := c.session
	if s == nil {
		return nil
	}
	if err := s.Remove(number); err != nil {
		return c.refused(err)
	}
	return c.move(s.head.Version)
}

func (c *Control) move(current int) error {
	s := c.session
	next := s.head
	next.Revision++
	next.Version, next.Newest, next.Source = current, max(next.Newest, current), s.source
	if err := s.SetHead(next); err != nil {
		return c.refused(err)
	}
	if err := s.commit(next); err != nil {
		_ = c.refused(err)
		return ErrUnconfirmed
	}
	c.position = next.Position
	return nil
}

func (c *Control) refused(err error) error {
	c.log.Warn("a change was refused: the shared configuration cannot be written", "error", err)
	return ErrUnavailable
}

// tolerate passes an error of the disk on, unless the log has the change
// already: then it is in force everywhere, and the files follow when they can.
func (c *Control) tolerate(err error) error {
	if err == nil || c.session == nil || !c.session.committed {
		return err
	}
	c.log.Error("the shared configuration has a change that could not be saved here; it is tried again", "error", err)
	c.position.Revision = 0
	return nil
}
