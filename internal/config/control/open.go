package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
)

// Opening has the parts that a Control is opened with.
type Opening struct {
	Store    Store
	Document *config.Document // the configuration, as it was read
	Current  *routing.Current // gets the tables
	Log      *slog.Logger
	// Shared is the log that the gateway shares with others; nil means that it does not.
	Shared Shared
}

// Open puts the version into force that was current when the gateway stopped. If the
// services of the configuration file have changed since it was last read, the
// difference is applied as a new version.
//
// Where a log is shared, the files in the data directory are its last known state, and
// are used while the database cannot be reached. An empty log gets the versions of this
// gateway. Otherwise the current version of the log comes into force. If this gateway has
// followed the log before, and its configuration file has changed since, that change
// becomes a version. If the master key does not fit the log, the error is ErrMasterKey
// and nothing has changed.
func (o Opening) Open(ctx context.Context) (*Control, error) {
	if o.Shared == nil {
		return o.open()
	}
	// Nothing is written to the data directory if the master key does not fit the log.
	tx, err := o.Shared.Begin(ctx, false)
	if mark.Refuses(err) {
		o.Shared.Close()
		return nil, err
	}
	if err == nil {
		tx.End()
	}
	c, err := o.open()
	if err != nil {
		return nil, err
	}
	err = c.refresh(ctx)
	if mark.Refuses(err) || errors.Is(err, versions.ErrForged) && !c.Joined() {
		c.Close()
		return nil, err
	}
	c.reportFollowing(err)
	return c, nil
}

// open puts a version of the data directory into force, and then the later edits of the
// configuration file. It does not need the database of a shared configuration.
func (o Opening) open() (*Control, error) {
	doc := o.Document
	c, err := o.newControl()
	if err != nil {
		return nil, err
	}
	last, err := c.readStore()
	if err != nil {
		return nil, err
	}
	c.state.Store(&state{doc: doc.Clone(), activations: last.head.Activations})
	isEdited := len(last.numbers) > 0 && last.head.Source != sourceOf(doc)
	if isEdited {
		c.file.applied = lastApplied(last.head, doc.Managed())
	}
	c.isPassing = isEdited && (o.Shared == nil || last.head.Log == "")
	isInForce, err := c.resume(last)
	if err != nil {
		return nil, err
	}
	c.isPassing = false
	if !isInForce {
		return c, c.takeFirst(doc, last)
	}
	if last.isRestored {
		if err := c.setHead(c.head(c.Version())); err != nil { // with the file as it is now
			return nil, err
		}
	}
	hasJoined := c.resumePosition(last.head.Position)
	switch {
	case isEdited && hasJoined:
		c.file.waiting = doc.Clone() // all gateways get the edit, when the log can be written
	case isEdited:
		_, err = c.takeFile(unshared{&c.local}, doc, FromFile)
	}
	return c, err
}

// Stored returns the configuration that the current version of the store and the configuration file
// give, for a program without a gateway. It changes nothing: an edit of the file that no version has
// is left out, but for the settings that only the file has.
func (o Opening) Stored() (*config.Document, error) {
	c, err := o.newControl()
	if err != nil {
		return nil, err
	}
	last, err := c.readStore()
	if err != nil {
		return nil, err
	}
	if len(last.numbers) == 0 {
		return nil, versions.ErrNoVersion
	}
	v, err := c.local.store.Load(last.candidates()[0])
	if err != nil {
		return nil, err
	}
	c.state.Store(&state{doc: o.Document})
	return c.stateOf(v).doc, nil
}

// newControl returns a Control with nothing in force.
func (o Opening) newControl() (*Control, error) {
	keys, err := o.Document.Security.MasterKeys()
	if err != nil {
		return nil, err
	}
	c := &Control{
		current: o.Current, log: o.Log, local: localLog{store: versions.NewSealedStore(o.Store, keys), log: o.Log},
		holds: holds{},
	}
	c.file.applied = appliedFileOf(o.Document)
	c.file.setRead(o.Document)
	if o.Shared != nil {
		c.shared = newSharedLog(o.Shared, keys, &c.mu, o.Log)
	}
	return c, nil
}

// storeContent is the content of the store when a gateway starts.
type storeContent struct {
	numbers []int // of the versions, in order
	head    Head
	// isHeadRead is false where the head is damaged; the head then has only its readable
	// part. isRestored says that it was restored from a backup.
	isHeadRead, isRestored bool
}

// readStore reads the content of the store, and which number is the newest.
func (c *Control) readStore() (last storeContent, err error) {
	if last.numbers, err = c.local.store.Versions(); err != nil {
		return last, fmt.Errorf("versions: %w", err)
	}
	last.head, err = c.local.store.Head()
	if mark.Refuses(err) || errors.Is(err, versions.ErrForged) {
		return last, err
	}
	last.isHeadRead = err == nil
	if err != nil {
		c.log.Warn("the record of the current version cannot be read; taking the newest version that can", "error", err)
		// Whether the file has changed is not known; assuming that it has not loses no edit.
		last.head.Source = c.file.applied.source
		last.head.Position = Position{}
	}
	if last.isRestored = last.head.Source == versions.Restored; last.isRestored {
		last.head.Source = c.file.applied.source
	}
	c.local.newest = slices.Max(append([]int{last.head.Version, last.head.Newest}, last.numbers...))
	return last, nil
}

// candidates returns the versions that can come into force, the best first: the current
// one, then the others from the newest to the oldest.
func (s storeContent) candidates() []int {
	found := slices.DeleteFunc(slices.Clone(s.numbers), func(number int) bool { return number == s.head.Version })
	if s.head.Version != 0 {
		found = append(found, s.head.Version)
	}
	slices.Reverse(found)
	return found
}

// resume puts the first candidate into force that can be used. It removes no candidate
// and leaves a readable head as it is, because another release may be able to use the
// current version. It returns false if no candidate can be used.
func (c *Control) resume(last storeContent) (bool, error) {
	for _, number := range last.candidates() {
		v, err := c.local.store.Load(number)
		if mark.Refuses(err) || errors.Is(err, versions.ErrForged) && number == last.head.Version {
			return false, err
		}
		if err == nil {
			err = c.enact(unshared{&c.local}, &proposal{next: c.stateOf(v), check: validateStored,
				keepsHead: last.isHeadRead})
			var problems config.Problems
			if err != nil && !errors.As(err, &problems) {
				return false, fmt.Errorf("version %d: %w", number, err)
			}
		}
		if err == nil {
			if number != last.head.Version {
				c.log.Warn("another version takes its place", "version", number)
			}
			return true, nil
		}
		c.log.Warn("a stored version cannot be used", "version", number, "error", err)
	}
	return false, nil
}

// takeFirst makes a version of the configuration file, where no stored version can be
// used.
func (c *Control) takeFirst(doc *config.Document, last storeContent) error {
	if len(last.numbers) > 0 {
		c.log.Warn("no stored version can be read; the configuration file becomes a new one",
			"version", c.local.newest+1)
	}
	c.file.applied = appliedFileOf(doc)
	first := say.New("version.first")
	p, _, err := c.propose(c.state.Load().doc, nil, nil,
		Change{Origin: FromFile, Author: system, Summary: first.String(), Said: say.All(first)})
	if err != nil {
		return err
	}
	p.check = validateStored // the file was validated when it was read
	return c.enact(unshared{&c.local}, p)
}

// resumePosition restores the position in the shared log that this gateway had when it
// stopped. It returns false where nothing is shared, and where this gateway has never
// read the log.
func (c *Control) resumePosition(last Position) bool {
	if c.shared == nil || last.Log == "" {
		return false
	}
	c.local.setPosition(last)
	c.shared.joined.Store(true)
	return true
}
