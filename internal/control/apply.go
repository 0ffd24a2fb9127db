package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/routing"
)

// Why a change is refused, apart from what is wrong with the configuration.
var (
	// ErrSave means that the disk did not take the change.
	ErrSave = errors.New("saving the configuration")
	// ErrMoved means that the version is not the one that the caller saw.
	ErrMoved = errors.New("the configuration has changed meanwhile")
	// ErrNoVersion means that there is no version of that number.
	ErrNoVersion = errors.New("there is no such version")
	// ErrCurrent means that the current version cannot be deleted.
	ErrCurrent = errors.New("the current version cannot be deleted")
)

// Change says who changes the configuration, and how.
type Change struct {
	// Origin is where the change comes from, Author the person.
	Origin, Author string
	// Summary is used in place of one that is made from what changed.
	Summary string
	// IfVersions refuses the change unless one of these versions is in force; none
	// does not ask.
	IfVersions []int
	// DryRun does everything but change anything.
	DryRun bool
}

// Result is what a change did, or would have done.
type Result struct {
	// Before and Version are the versions in force before and after.
	Before, Version int
	Changed         bool
	Summary         string
	Differences     []Difference
}

// Apply changes the configuration: the edit gets a copy of the document and
// changes it as it likes. When any step fails nothing has changed. An edit that
// changes nothing makes no version.
func (c *Control) Apply(change Change, edit func(*config.Document) error) (Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.change(change, edit)
}

func (c *Control) change(change Change, edit func(*config.Document) error) (Result, error) {
	end, err := c.begin(change.DryRun)
	now := c.state.Load()
	unchanged := Result{Before: now.version, Version: now.version}
	if err != nil {
		return unchanged, err
	}
	defer end()
	if err := c.expect(change.IfVersions); err != nil {
		return unchanged, err
	}
	doc := now.doc.Clone()
	if err := edit(doc); err != nil {
		return unchanged, err
	}
	if doc.Equal(now.doc) {
		return unchanged, nil
	}
	result, err := c.commit(doc, change)
	if err != nil {
		return unchanged, err
	}
	return result, nil
}

func (c *Control) expect(versions []int) error {
	have := c.Version()
	if len(versions) == 0 || slices.Contains(versions, have) {
		return nil
	}
	return fmt.Errorf("%w: version %d is current, not %s", ErrMoved, have, strings.Trim(fmt.Sprint(versions), "[]"))
}

// Reset makes the static configuration a new version.
func (c *Control) Reset(change Change) (Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.change(change, func(doc *config.Document) error {
		static := config.Document{Services: c.static}
		doc.Services = static.Clone().Services
		return nil
	})
}

// Use makes a stored version the current one. The list of versions stays as it is.
func (c *Control) Use(change Change, number int) (Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end, err := c.begin(change.DryRun)
	now := c.state.Load()
	unchanged := Result{Before: now.version, Version: now.version}
	if err != nil {
		return unchanged, err
	}
	defer end()
	if err := c.expect(change.IfVersions); err != nil {
		return unchanged, err
	}
	v, err := c.Load(number)
	if err != nil {
		return unchanged, err
	}
	if number == now.version {
		return unchanged, nil
	}
	next := &state{doc: now.doc.Clone(), version: number, since: v.since()}
	next.doc.Services = v.Services
	if err := validateStored(next.doc); err != nil {
		return unchanged, err
	}
	table, err := routing.Compile(next.doc, c.current.Load(), next.since)
	if err != nil {
		return unchanged, err
	}
	differences := Compare(now.doc.Services, v.Services)
	result := Result{Before: now.version, Version: number, Changed: true, Differences: differences, Summary: summarize(differences)}
	if change.DryRun {
		result.Version = now.version
		return result, nil
	}
	if err := c.publish(nil, number, nil); err != nil {
		return unchanged, err
	}
	if err := c.tolerate(c.point(number)); err != nil {
		return unchanged, err
	}
	c.put(next, table)
	return result, nil
}

// Delete removes a version for good. Its number is not given again.
func (c *Control) Delete(change Change, number int) (Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end, err := c.begin(change.DryRun)
	now := c.Version()
	unchanged := Result{Before: now, Version: now}
	if err != nil {
		return unchanged, err
	}
	defer end()
	if err := c.expect(change.IfVersions); err != nil {
		return unchanged, err
	}
	if number < 1 || !c.has(number) {
		return unchanged, fmt.Errorf("%w: %d", ErrNoVersion, number)
	}
	if number == now {
		return unchanged, fmt.Errorf("%w: %d", ErrCurrent, number)
	}
	deleted := Result{Before: now, Version: now, Changed: true, Summary: fmt.Sprintf("version %d deleted", number)}
	if change.DryRun {
		return deleted, nil
	}
	if err := c.unpublish(number); err != nil {
		return unchanged, err
	}
	if number == c.newest || c.session != nil {
		// The highest number must outlive the file that has it.
		if err := c.tolerate(c.point(now)); err != nil {
			return unchanged, err
		}
	}
	if err := c.store.Remove(number); err != nil && c.tolerate(err) != nil {
		return unchanged, fmt.Errorf("%w: %w", ErrSave, err)
	}
	return deleted, nil
}

// Versions returns the numbers of the stored versions in order.
func (c *Control) Versions() ([]int, error) { return c.store.Versions() }

// Load returns a stored version.
func (c *Control) Load(number int) (*Version, error) {
	if number < 1 {
		return nil, fmt.Errorf("%w: %d", ErrNoVersion, number)
	}
	return c.store.Load(number)
}

// Backup copies all versions into a new directory inside the data directory. A
// dry run only says which ones.
func (c *Control) Backup(change Change) (path string, files []string, err error) {
	path, files, err = c.store.Backup(time.Now(), change.DryRun)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrSave, err)
	}
	return path, files, nil
}
