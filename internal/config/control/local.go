package control

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
)

// localLog is the log of versions in the data directory. Every gateway has one; where the
// configuration is shared it is the last known state of the shared log. Control.mu guards
// it, except that reading the store and revision needs no lock.
type localLog struct {
	store versions.SealedStore
	log   *slog.Logger

	// newest is the highest number ever used; numbers are not reused.
	newest int
	// position is the state of the shared log that the store has, zero where the store has
	// none. Its revision is 0 where the store lacks a part of that state.
	position Position
	// revision belongs to the last stored position. Goroutines without the lock read it.
	revision atomic.Int64
	// abouts has its own lock.
	abouts aboutCache
}

// save writes a version to the store.
func (l *localLog) save(v *Version) error {
	defer l.abouts.forget(v.Number)
	return l.store.Save(v)
}

// remove removes versions from the store.
func (l *localLog) remove(numbers ...int) error {
	defer l.abouts.forget(numbers...)
	return l.store.Remove(numbers...)
}

// setHead writes the head of the store. If that fails the one before is written again, as
// far as the disk allows, unless there was none.
func (l *localLog) setHead(head, before Head) error {
	if err := l.store.SetHead(head); err != nil {
		if before.Version != 0 {
			_ = l.store.SetHead(before)
		}
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	l.newest = head.Newest
	l.setPosition(head.Position)
	return nil
}

func (l *localLog) setPosition(position Position) {
	l.position = position
	l.revision.Store(position.Revision)
}

// markIncomplete makes the next refresh save the versions of the shared log once more,
// because some could not be saved.
func (l *localLog) markIncomplete() { l.position.Revision = 0 }

// add saves a new version, if there is one. If saving fails and the version may be on disk
// all the same, it is removed, and its number is not used again.
func (l *localLog) add(v *Version) error {
	if v == nil {
		return nil
	}
	stored, err := l.store.Versions()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	if slices.Contains(stored, v.Number) {
		return fmt.Errorf("%w: version %d exists already", ErrSave, v.Number)
	}
	err = l.save(v)
	if err != nil && !l.has(v.Number) {
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	l.newest = v.Number
	if err != nil {
		_ = l.remove(v.Number)
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	return nil
}

// has reports whether a version is stored, or may be: it is true if the store cannot be
// listed.
func (l *localLog) has(number int) bool {
	numbers, err := l.store.Versions()
	return err != nil || slices.Contains(numbers, number)
}

// surplus returns the versions that are too old to be kept once a new one is
// stored.
func (l *localLog) surplus(keep int) []int {
	if keep == 0 {
		return nil
	}
	numbers, err := l.store.Versions()
	if err != nil || len(numbers) < keep {
		return nil // the next change tries again
	}
	return numbers[:len(numbers)-keep+1] // the new version is not among them yet
}

// prune removes versions that are not kept. A failure is tried again with the
// next change.
func (l *localLog) prune(surplus []int) {
	if len(surplus) == 0 {
		return
	}
	if err := l.remove(surplus...); err != nil {
		l.log.Warn("old versions stay on disk until the next change", "error", err)
	}
}

// isEarlierThan reports whether the store has an earlier state of a shared log, or the
// same; otherwise its versions belong to another log.
func (l *localLog) isEarlierThan(shared Head) bool {
	return l.position.Log == shared.Log && l.position.Revision <= shared.Revision
}

// copyFrom saves the versions of the shared log that the store lacks, and returns the
// versions that the shared log lacks. Versions of another log are kept in a backup and
// then replaced.
func (l *localLog) copyFrom(shared *logTransaction) (surplus []int, err error) {
	theirs, err := shared.Versions()
	if err != nil {
		return nil, err
	}
	ours, err := l.store.Versions()
	if err != nil {
		return nil, err
	}
	replaced := !l.isEarlierThan(shared.head)
	if replaced && len(ours) > 0 {
		path, _, err := l.store.Backup(time.Now(), false)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSave, err)
		}
		l.log.Info("the versions of the shared configuration replace those of this gateway, which are kept",
			"backup", path)
	}
	for _, number := range theirs {
		if !replaced && slices.Contains(ours, number) {
			continue
		}
		v, err := shared.Load(number)
		if err != nil && number != shared.head.Version {
			l.log.Warn("a version of the shared configuration cannot be read", "version", number, "error", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := l.save(v); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSave, err)
		}
	}
	return slices.DeleteFunc(ours, func(number int) bool { return slices.Contains(theirs, number) }), nil
}

// copyTo writes the versions of the store to a shared log and makes one of them current.
func (l *localLog) copyTo(shared *logTransaction, current int) error {
	numbers, err := l.store.Versions()
	if err != nil {
		return err
	}
	for _, number := range numbers {
		v, err := l.store.Load(number)
		if err != nil && number != current {
			continue // a version that cannot be read is not copied
		}
		if err == nil {
			err = shared.Save(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
