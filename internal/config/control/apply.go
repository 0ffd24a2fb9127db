package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/differences"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
)

// Reasons to refuse a change, apart from faults in the configuration.
var (
	// ErrSave means that the change could not be written to disk.
	ErrSave = errors.New("saving the configuration")
	// ErrMoved means that the version in force is none of Change.IfVersions.
	ErrMoved = errors.New("the configuration has changed meanwhile")
	// ErrCurrent means that the current version cannot be deleted.
	ErrCurrent = errors.New("the current version cannot be deleted")
)

// Change describes a change: its origin, its author and its conditions.
type Change struct {
	// Origin is the source of the change, such as FromAPI; Author is the person who made
	// it.
	Origin, Author string
	// Summary describes the change, and Said is the same as codes and values. Empty ones are
	// derived from the differences.
	Summary string
	Said    []say.Sentence
	// IfVersions, if not empty, lists versions: one of them must be in force.
	IfVersions []int
	// DryRun validates and compiles the change, and does not make it.
	DryRun bool
	// May reports whether the author may change sections that need a right, such as "manage".
	// Other sections stay as they are in force. Nil means all rights.
	May func(right string) bool
	// Check returns an error if the author may not make the change from one configuration to the other.
	// Nil means that any change may be made.
	Check func(before, after *config.Document) error
}

// Result is the outcome of a change, or of a dry run.
type Result struct {
	// Before and Version are the versions in force before and after.
	Before, Version int
	Changed         bool
	Summary         string
	// Said is the summary as codes and values.
	Said        []say.Sentence
	Differences []differences.Difference
}

// Apply changes the configuration: edit changes a copy of the document, which is then
// enacted as a new version. If a step fails, nothing has changed. An edit that changes
// nothing makes no version.
func (c *Control) Apply(ctx context.Context, change Change, edit func(*config.Document) error) (Result, error) {
	return c.change(ctx, change, func(now *state) (*proposal, Result, error) {
		doc := now.doc.Clone()
		if err := edit(doc); err != nil || doc.Equal(now.doc) {
			return nil, Result{}, err
		}
		return c.propose(doc, now.editedTerms(doc), now.editedSettings(doc), change)
	})
}

// Reset makes the static configuration a new version.
func (c *Control) Reset(ctx context.Context, change Change) (Result, error) {
	return c.change(ctx, change, func(now *state) (*proposal, Result, error) {
		doc := now.doc.Clone()
		doc.Services = settings.Clone(c.file.services)
		doc.Security.Settings = doc.Security.WithTerms(*c.file.terms.Load())
		doc.TakeManaged(*c.file.managed.Load())
		kept := now.keep(doc, nil, change.May)
		if doc.Equal(now.doc) && now.terms == nil && settings.Equal(kept, now.settings) {
			return nil, Result{}, nil
		}
		return c.propose(doc, nil, kept, change)
	})
}

// Use makes a stored version the current one. The list of versions stays as it is, unless the
// author may not change a section that differs: then a new version has that section as it is
// in force, and all else of the stored one. Where nothing else differs, nothing changes.
func (c *Control) Use(ctx context.Context, change Change, number int) (Result, error) {
	return c.change(ctx, change, func(now *state) (*proposal, Result, error) {
		v, err := c.Load(number)
		if err != nil || number == now.version {
			return nil, Result{}, err
		}
		next := c.stateOf(v)
		if kept := now.keep(next.doc, next.settings, change.May); !settings.Equal(kept, next.settings) {
			if now.isOf(next.doc, next.terms, kept) {
				return nil, Result{}, nil
			}
			return c.propose(next.doc, next.terms, kept, change)
		}
		found := now.compare(next)
		result := Result{Before: now.version, Version: number, Changed: true, Differences: found,
			Summary: differences.Summarize(found), Said: differences.SaidOf(found)}
		if change.DryRun {
			result.Version = now.version
		}
		return &proposal{next: next, check: validateStored, dryRun: change.DryRun, author: change.Author}, result, nil
	})
}

// change enacts the proposal that propose returns for the configuration in force. It
// does nothing if there is no proposal.
func (c *Control) change(ctx context.Context, change Change,
	propose func(now *state) (*proposal, Result, error)) (Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.begin(ctx, change)
	now := c.state.Load()
	unchanged := Result{Before: now.version, Version: now.version}
	if err != nil {
		return unchanged, err
	}
	defer t.end()
	p, result, err := propose(now)
	if err == nil && p != nil && change.Check != nil {
		err = change.Check(now.doc, p.next.doc)
	}
	if err != nil || p == nil {
		return unchanged, err
	}
	if err := c.enact(t, p); err != nil {
		return unchanged, err
	}
	return result, nil
}

// begin begins a change: where the configuration is shared it takes the log and brings
// this gateway up to date, because the change must start from the version that all
// gateways have. A dry run does neither. The caller has the lock and ends the transfer.
func (c *Control) begin(ctx context.Context, change Change) (t transfer, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t = unshared{&c.local}
	if c.shared != nil && !change.DryRun {
		if t, err = c.takeLog(ctx); err != nil {
			return nil, refuse(c.log, err)
		}
	}
	if err := c.expect(change.IfVersions); err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

// expect returns ErrMoved unless one of the versions is in force, or none is given.
func (c *Control) expect(versions []int) error {
	have := c.Version()
	if len(versions) == 0 || slices.Contains(versions, have) {
		return nil
	}
	return say.Wrap(ErrMoved, "manage.moved", "version", have, "expected", strings.Trim(fmt.Sprint(versions), "[]"))
}

// Delete removes a version. Its number is not used again.
func (c *Control) Delete(ctx context.Context, change Change, number int) (Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.begin(ctx, change)
	now := c.Version()
	unchanged := Result{Before: now, Version: now}
	if err != nil {
		return unchanged, err
	}
	defer t.end()
	if number < 1 || !c.has(number) {
		return unchanged, versions.NoVersion(number)
	}
	if number == now {
		return unchanged, say.Wrap(ErrCurrent, "manage.current_version", "version", number)
	}
	deleted := Result{Before: now, Version: now, Changed: true, Summary: say.Text("version.deleted", "version", number),
		Said: []say.Sentence{say.New("version.deleted", "version", number)}}
	if change.DryRun {
		return deleted, nil
	}
	if err := t.publish(logEntry{removed: []int{number}}); err != nil {
		return unchanged, err
	}
	if err := c.remove(t, number); err != nil {
		if err = t.unsaved(err); err != nil {
			return unchanged, err
		}
	}
	return deleted, nil
}

// remove removes a version from the store.
func (c *Control) remove(t transfer, number int) error {
	head := c.head(c.Version())
	shared, isShared := t.sharedHead()
	if isShared {
		head.Newest, head.Position = shared.Newest, shared.Position
	}
	if number == c.local.newest || isShared {
		// The head keeps the highest number, because the file with that number is about
		// to be removed.
		if err := c.setHead(head); err != nil {
			return err
		}
	}
	if err := c.local.remove(number); err != nil {
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	return nil
}

// Versions returns the numbers of the stored versions in order.
func (c *Control) Versions() ([]int, error) { return c.local.store.Versions() }

// Next returns the number of the version that the next change makes. Numbers are not used
// again, even if the version that had the highest one was removed. Other gateways may
// have made versions of a shared configuration that this one has not read yet; while its
// database cannot be reached, Next returns the last number that this gateway knew.
func (c *Control) Next(ctx context.Context) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared != nil {
		log, err := newLogTransaction(ctx, c.shared, false)
		if err == nil {
			defer log.End()
		}
		if err == nil && log.head.Log != "" { // an empty log begins with the version of this gateway
			return log.head.Newest + 1
		}
	}
	return c.local.newest + 1
}

// has reports whether a version is stored, or may be.
func (c *Control) has(number int) bool { return c.local.has(number) }

// Load returns a stored version.
func (c *Control) Load(number int) (*Version, error) {
	if number < 1 {
		return nil, versions.NoVersion(number)
	}
	return c.local.store.Load(number)
}

// Backup copies all versions into a new directory inside the data directory. A
// dry run only says which ones.
func (c *Control) Backup(change Change) (path string, files []string, err error) {
	path, files, err = c.local.store.Backup(time.Now(), change.DryRun)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrSave, err)
	}
	return path, files, nil
}
