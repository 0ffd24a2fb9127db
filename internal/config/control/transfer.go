package control

import (
	"errors"
	"fmt"
)

// errUnsaved means that a shared configuration is in force and could not be saved on
// this gateway.
var errUnsaved = errors.New("the shared configuration has a change that could not be saved here; it is tried again")

// transfer is how a change passes between this gateway and the others that share the
// configuration: not at all (unshared), from here (outgoing), or to here (incoming). The
// steps of a change are the same for all three; the differences are here.
type transfer interface {
	// sharedHead returns the head of the shared log, after publish with the change in it.
	// It returns false where the change does not concern the shared log.
	sharedHead() (Head, bool)
	// publish writes a change to the shared log. It is called before the change is saved
	// here, because the log may refuse it.
	publish(entry logEntry) error
	// isPublished reports whether the shared log has the change. The change then comes
	// into force here, even if it cannot be saved.
	isPublished() bool
	// save stores the versions of a proposal in the data directory.
	save(p *proposal) error
	// unsaved returns the error to report when the change could not be saved, or nil.
	unsaved(err error) error
	// end rolls back an unpublished change.
	end()
}

// logEntry is the record of a change in the shared log.
type logEntry struct {
	version int    // the current version from now on; 0 leaves it as it is
	source  string // of the configuration file that was applied, empty where none was
	added   *Version
	removed []int
}

// unshared is the transfer of a change that stays on this gateway: nothing is shared, or
// the change is a dry run, or it comes from settings that each gateway has for itself, or
// this gateway has not read the shared log yet.
type unshared struct{ local *localLog }

func (unshared) sharedHead() (Head, bool) { return Head{}, false }
func (unshared) publish(logEntry) error   { return nil }
func (unshared) isPublished() bool        { return false }
func (u unshared) save(p *proposal) error { return u.local.add(p.added) }
func (unshared) unsaved(err error) error  { return err }
func (unshared) end()                     {}

// outgoing is the transfer of a change that is made here and written to the shared log.
// Its transaction keeps all other writers out until the end.
type outgoing struct {
	log   *logTransaction
	local *localLog
	// isCommitted says that the transaction was committed.
	isCommitted bool
}

func (o *outgoing) sharedHead() (Head, bool) { return o.log.head, true }
func (o *outgoing) isPublished() bool        { return o.isCommitted }
func (o *outgoing) save(p *proposal) error   { return o.local.add(p.added) }
func (o *outgoing) end()                     { o.log.End() }

// publish commits the entry. It writes nothing if the log says the same already.
func (o *outgoing) publish(entry logEntry) error {
	next := o.log.head
	if entry.version != 0 {
		next.Version, next.Newest = entry.version, max(next.Newest, entry.version)
	}
	if entry.source != "" {
		next.Source = entry.source
	}
	isSame := next.Version == o.log.head.Version && next.Source == o.log.head.Source
	if isSame && entry.added == nil && len(entry.removed) == 0 {
		return nil
	}
	next.Revision++
	if err := o.write(next, entry); err != nil {
		return refuse(o.local.log, err)
	}
	if err := o.log.Commit(); err != nil {
		_ = refuse(o.local.log, err)
		return ErrUnconfirmed
	}
	o.log.head, o.isCommitted = next, true
	return nil
}

func (o *outgoing) write(next Head, entry logEntry) error {
	if entry.added != nil {
		if err := o.log.Save(entry.added); err != nil {
			return err
		}
	}
	if len(entry.removed) > 0 {
		if err := o.log.Remove(entry.removed...); err != nil {
			return err
		}
	}
	return o.log.SetHead(next)
}

// unsaved only logs the error if the log has the change: it is in force on all gateways
// and has succeeded, and the next refresh saves it here.
func (o *outgoing) unsaved(err error) error {
	if !o.isCommitted {
		return err
	}
	o.local.markIncomplete()
	o.local.log.Error(errUnsaved.Error(), "error", err)
	return nil
}

// incoming is the transfer of a change that other gateways wrote to the shared log.
type incoming struct {
	log   *logTransaction
	local *localLog
}

func (i incoming) sharedHead() (Head, bool) { return i.log.head, true }
func (incoming) publish(logEntry) error     { return nil }
func (incoming) isPublished() bool          { return true }
func (incoming) end()                       {} // the caller that began the transaction ends it

// save makes the store have the same versions as the log.
func (i incoming) save(p *proposal) (err error) {
	p.surplus, err = i.local.copyFrom(i.log)
	return err
}

// unsaved returns an error that says that the change is in force all the same. The next
// refresh saves it.
func (i incoming) unsaved(err error) error {
	i.local.markIncomplete()
	return fmt.Errorf("%w: %w", errUnsaved, err)
}
