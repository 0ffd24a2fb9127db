// Package sessions keeps the sessions of browsers: who has one, and which have ended. Gateways
// that share their configuration share the list.
package sessions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
)

// Session is one session of a browser.
type Session struct {
	// ID names the session. Nobody can make the cookie of the session from it.
	ID string `json:"-"`
	// Name is the name of the token, or of the person as the provider gives it.
	Name string `json:"name"`
	// Provider is the name of the provider where a person signed in; empty for the bearer of a
	// token.
	Provider string `json:"provider,omitzero"`
	// Issuer and Subject identify a person. Seat names the person's session at the provider
	// (the claim sid), if the provider tells.
	Issuer  string `json:"issuer,omitzero"`
	Subject string `json:"subject,omitzero"`
	Seat    string `json:"sid,omitzero"`
	// Claims are the claims that rules ask for, as far as they have values that rules know.
	Claims map[string][]string `json:"claims,omitzero"`
	// Places are the roles of the person in tenants, which are remembered with the person.
	Places []Place `json:"-"`
	// Since and Until are the beginning of the session and the end of its longest life.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Address is the address of the browser at the beginning.
	Address string `json:"address,omitzero"`
}

// Person is somebody who has signed in.
type Person struct {
	Issuer   string    `json:"issuer"`
	Subject  string    `json:"subject"`
	Name     string    `json:"name"`
	Provider string    `json:"provider"`
	LastSeen time.Time `json:"lastSeen"` // the latest sign-in
	// Places are the roles in tenants at the latest sign-in.
	Places []Place `json:"places,omitzero"`
}

// Place is the role of a person in a tenant.
type Place struct {
	Tenant string `json:"tenant"`
	Role   string `json:"role"`
}

// In returns the role of the person in a tenant; empty where there is none.
func (p *Person) In(tenant string) string {
	for _, place := range p.Places {
		if place.Tenant == tenant {
			return place.Role
		}
	}
	return ""
}

// ended is the end of a session, of all sessions of a seat, or of all that a person had at a time.
type ended struct {
	Session string    `json:"session,omitzero"`
	Issuer  string    `json:"issuer,omitzero"`
	Subject string    `json:"subject,omitzero"`
	Seat    string    `json:"sid,omitzero"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"` // no session that it ends lives longer
}

// The kinds of documents.
const (
	kindSession = "session"
	kindEnd     = "session-end"
	kindPerson  = "person"
)

// Kinds returns the kinds of documents that the sessions consist of.
func Kinds() []string { return []string{kindSession, kindEnd, kindPerson} }

// Folder is the folder of the documents in a data directory.
const Folder = "sessions/"

// Kept declares the documents. A restore makes a new key of sessions, so that no session goes on.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "who has signed in and when last, sessions, and which of them have ended", Part: store.Configuration,
		Kinds: []string{kindEnd, kindPerson}, Passing: []string{kindSession}, IsMerged: true, Folder: Folder,
		Signed: Kinds(), Bound: "100 sessions of a person; 100,000 sessions and people",
		Ends: "sessions with their life, people 400 days after the last sign-in",
	}}
}

// SeenAt returns the document about a person of whom only the last sign-in is known. It counts as made
// before all others, so that any other document about the person stays in a merge.
func SeenAt(issuer, subject, name string, at time.Time) (documents.Document, error) {
	data, err := json.Marshal(Person{Issuer: issuer, Subject: subject, Name: name, LastSeen: at},
		json.Deterministic(true))
	return documents.Document{Kind: kindPerson, ID: personOf(issuer, subject), Version: 1, Data: data}, err
}

const (
	// mostOfOne is how many sessions a person or token may have; a further one ends the oldest.
	mostOfOne = 100
	// mostInAll bounds the sessions, and the people, of all gateways together.
	mostInAll = 100_000
	// PollEvery is how often a gateway reads what others have stored.
	PollEvery  = 2 * time.Second
	sweepEvery = time.Minute
	// overlap is how far the clocks of gateways may be apart for sessions to be found without
	// asking for each of them.
	overlap = 2 * time.Minute
	// forgetAfter is how long a person who does not sign in is remembered.
	forgetAfter = 400 * 24 * time.Hour
)

// Errors of Sessions.
var (
	// ErrUnread means that the list was never read, so that nobody knows which sessions ended.
	ErrUnread = say.Error("manage.sessions_unread")
	// ErrEnded means that the session was ended.
	ErrEnded = say.Error("manage.session_ended")
	// ErrExists means that there is a session with the id.
	ErrExists = errors.New("the session exists")
	// ErrFull means that there are too many sessions.
	ErrFull = say.Error("manage.sessions_full")
)

// Options are the parts of Sessions.
type Options struct {
	Documents documents.Store
	// IsShared says that other gateways use the same store.
	IsShared bool
	// Life is the longest life of a session.
	Life time.Duration
	Log  *slog.Logger
}

// Sessions are the sessions of a gateway, or of all gateways that share their configuration.
// They are as they were read last; while the store does not answer, nothing of them changes.
type Sessions struct {
	options Options
	isRead  atomic.Bool

	mu     sync.RWMutex // guards the fields below
	known  map[string]Session
	ends   map[string]ended
	people map[string]Person
	// read is the time until which sessions and people were read, by the clock of this gateway.
	read time.Time
}

// Open reads the sessions. A shared store that does not answer is read later, by Run.
func Open(ctx context.Context, options Options) (*Sessions, error) {
	s := &Sessions{options: options, known: map[string]Session{}, ends: map[string]ended{}, people: map[string]Person{}}
	err := s.poll(ctx, time.Now())
	if err != nil && options.IsShared {
		options.Log.Warn("the sessions of browsers cannot be read yet; until then only tokens are accepted",
			"error", err)
		return s, nil
	}
	return s, err
}

// Life returns the longest life of a session.
func (s *Sessions) Life() time.Duration { return s.options.Life }

// digest returns a name for some texts that is short and reveals none of them.
func digest(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

func seatOf(issuer, seat string) string      { return digest("seat", issuer, seat) }
func personOf(issuer, subject string) string { return digest("person", issuer, subject) }

// owner is the person or token of a session.
func (s *Session) owner() string {
	if s.Subject != "" {
		return personOf(s.Issuer, s.Subject)
	}
	return digest("token", s.Name)
}

// Begin keeps a new session, and remembers its person. ErrExists means that the id is taken, or
// was, and would be that of a session that has ended.
func (s *Sessions) Begin(ctx context.Context, session Session) error {
	docs := s.options.Documents
	if session.Subject == "" { // the id of a pass is random
		if _, err := docs.Get(ctx, kindEnd, session.ID); !errors.Is(err, documents.ErrNotFound) {
			return cmp.Or(err, ErrExists)
		}
	}
	s.mu.RLock()
	if end, is := s.ends[session.owner()]; is && !session.Since.After(end.At) {
		session.Since = end.At.Add(time.Millisecond) // another gateway's clock is ahead
	}
	s.mu.RUnlock()
	own, all, err := docs.Use(ctx, kindSession, session.owner())
	if err != nil {
		return err
	}
	if all.Count >= mostInAll {
		return ErrFull
	}
	if own.Count >= mostOfOne {
		if err := s.endOldest(ctx, session.owner(), own.Count-mostOfOne+1); err != nil {
			return err
		}
	}
	if err := s.remember(ctx, session); err != nil {
		return err
	}
	data, err := json.Marshal(session, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = docs.Put(ctx, documents.Document{Kind: kindSession, ID: session.ID, Scope: session.owner(),
		Created: session.Since, Data: data})
	if errors.Is(err, documents.ErrChanged) {
		return ErrExists
	}
	if err == nil {
		s.mu.Lock()
		s.known[session.ID] = session
		s.mu.Unlock()
	}
	return err
}

// endOldest ends the oldest sessions of an owner; a count of 0 means all.
func (s *Sessions) endOldest(ctx context.Context, owner string, count int) error {
	oldest, err := s.options.Documents.List(ctx, documents.Query{Kind: kindSession, Scopes: []string{owner},
		IsAscending: true, Limit: count})
	for _, doc := range oldest {
		if session, ok := readSession(&doc); ok && err == nil {
			err = s.End(ctx, session.ID, session.Until)
		}
	}
	return err
}

// remember notes that the person of a session has signed in.
func (s *Sessions) remember(ctx context.Context, session Session) error {
	if session.Subject == "" {
		return nil
	}
	person := Person{session.Issuer, session.Subject, session.Name, session.Provider, session.Since,
		session.Places}
	id := session.owner()
	if err := s.replace(ctx, kindPerson, id, session.Since, person); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.people[id] = person
	return nil
}

// replace stores a document in place of the one that has its id. Of two writers at the same time
// the last one wins.
func (s *Sessions) replace(ctx context.Context, kind, id string, created time.Time, content any) error {
	data, err := json.Marshal(content, json.Deterministic(true))
	if err != nil {
		return err
	}
	doc := documents.Document{Kind: kind, ID: id, Created: created, Data: data}
	for range 3 {
		before, err := s.options.Documents.Get(ctx, kind, id)
		if err != nil && !errors.Is(err, documents.ErrNotFound) {
			return err
		}
		doc.Version = before.Version
		if _, err = s.options.Documents.Put(ctx, doc); !errors.Is(err, documents.ErrChanged) {
			return err
		}
	}
	return documents.ErrUnavailable
}

// Find returns a session that has not ended.
func (s *Sessions) Find(ctx context.Context, id string, now time.Time) (Session, error) {
	if !s.isRead.Load() {
		return Session{}, ErrUnread
	}
	s.mu.RLock()
	session, isKnown := s.known[id]
	isEnded := s.isEnded(&session, id)
	s.mu.RUnlock()
	if !isKnown && !isEnded && s.options.IsShared {
		// Another gateway may have begun it since the list was read.
		doc, err := s.options.Documents.Get(ctx, kindSession, id)
		if err != nil && !errors.Is(err, documents.ErrNotFound) {
			return Session{}, ErrUnread
		}
		if session, isKnown = readSession(&doc); isKnown && err == nil {
			s.mu.Lock()
			s.known[id] = session
			isEnded = s.isEnded(&session, id)
			s.mu.Unlock()
		}
	}
	if !isKnown || isEnded || !now.Before(session.Until) {
		return Session{}, ErrEnded
	}
	return session, nil
}

// Check returns an error if the session with an id was ended, or if nobody knows. A session that
// was never kept has not ended.
func (s *Sessions) Check(id string) error {
	if !s.isRead.Load() {
		return ErrUnread
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if _, is := s.ends[id]; is {
		return ErrEnded
	}
	return nil
}

// isEnded reports whether a session was ended, by itself, by its seat or with its person. The
// caller has the lock.
func (s *Sessions) isEnded(session *Session, id string) bool {
	if _, is := s.ends[id]; is || session.Subject == "" {
		return is
	}
	if session.Seat != "" {
		if _, is := s.ends[seatOf(session.Issuer, session.Seat)]; is {
			return true
		}
	}
	end, is := s.ends[personOf(session.Issuer, session.Subject)]
	return is && !session.Since.After(end.At)
}

// End ends the session with an id, which lives until a time at most.
func (s *Sessions) End(ctx context.Context, id string, until time.Time) error {
	err := s.end(ctx, id, ended{Session: id, At: time.Now(), Until: until})
	if err == nil {
		// Its end is kept, so the session itself is of no use.
		_ = s.options.Documents.Delete(ctx, kindSession, id)
	}
	return err
}

// EndSeat ends the sessions that belong to a session at the provider.
func (s *Sessions) EndSeat(ctx context.Context, issuer, seat string) error {
	now := time.Now()
	return s.end(ctx, seatOf(issuer, seat), ended{Issuer: issuer, Seat: seat, At: now, Until: now.Add(s.options.Life)})
}

// EndPerson ends all sessions that a person has now.
func (s *Sessions) EndPerson(ctx context.Context, issuer, subject string) error {
	now, id := time.Now(), personOf(issuer, subject)
	err := s.end(ctx, id, ended{Issuer: issuer, Subject: subject, At: now, Until: now.Add(s.options.Life)})
	if err != nil {
		return err
	}
	// A gateway with a clock that is ahead may have begun one later than now.
	return s.endOldest(ctx, id, 0)
}

// Left notes that a provider has identified a person to whom no rule gives a role any more: the sessions
// of the person end. Nothing is noted of people who were never let in.
func (s *Sessions) Left(ctx context.Context, issuer, subject string) error {
	person, isKnown := s.Person(issuer, subject)
	if !isKnown {
		return nil
	}
	id := personOf(issuer, subject)
	person.LastSeen, person.Places = time.Now(), []Place{}
	if err := s.replace(ctx, kindPerson, id, person.LastSeen, person); err != nil {
		return err
	}
	s.mu.Lock()
	s.people[id] = person
	s.mu.Unlock()
	return s.EndPerson(ctx, issuer, subject)
}

func (s *Sessions) end(ctx context.Context, id string, end ended) error {
	if err := s.replace(ctx, kindEnd, id, end.At, end); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[id] = end
	return nil
}

// List returns the sessions that have not ended, the newest first.
func (s *Sessions) List(now time.Time) ([]Session, error) {
	if !s.isRead.Load() {
		return nil, ErrUnread
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []Session
	for id, session := range s.known {
		if now.Before(session.Until) && !s.isEnded(&session, id) {
			list = append(list, session)
		}
	}
	slices.SortFunc(list, func(a, b Session) int {
		if c := b.Since.Compare(a.Since); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// Count returns how many sessions there are.
func (s *Sessions) Count(now time.Time) int {
	list, _ := s.List(now) // none where the list was not read
	return len(list)
}

// Person returns what is remembered of a person; false where nothing is.
func (s *Sessions) Person(issuer, subject string) (Person, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	person, is := s.people[personOf(issuer, subject)]
	return person, is
}

// People returns everybody who is remembered.
func (s *Sessions) People() []Person {
	s.mu.RLock()
	defer s.mu.RUnlock()
	people := make([]Person, 0, len(s.people))
	for _, person := range s.people {
		people = append(people, person)
	}
	return people
}
