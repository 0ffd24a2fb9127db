package sessions

import (
	"context"
	"maps"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
)

// Run reads what other gateways store, and removes what is over, until ctx ends.
func (s *Sessions) Run(ctx context.Context) {
	pause := sweepEvery
	if s.options.IsShared {
		pause = PollEvery
	}
	var swept time.Time
	var state condition.Condition
	for {
		now := time.Now()
		if now.Sub(swept) >= sweepEvery {
			swept = now
			s.sweep(ctx, now)
		}
		if waiting.Pause(ctx, pause) != nil {
			return
		}
		if !s.options.IsShared {
			continue
		}
		err := s.poll(ctx, time.Now())
		if ctx.Err() != nil {
			return
		}
		state.Note(s.options.Log, err, "the sessions of browsers cannot be read; they stay as they were read last",
			"the sessions of browsers are read again")
	}
}

// poll reads the ends of sessions, and the sessions and people that are new.
func (s *Sessions) poll(ctx context.Context, now time.Time) error {
	ends, known, people := map[string]ended{}, map[string]Session{}, map[string]Person{}
	// All ends are read each time. The clocks of gateways may differ by any amount, and none of
	// the ends may be missed.
	err := s.each(ctx, documents.Query{Kind: kindEnd, IsAscending: true}, func(doc *documents.Document) {
		var end ended
		if json.Unmarshal(doc.Data, &end) == nil {
			ends[doc.ID] = end
		}
	})
	if err != nil {
		return err
	}
	s.mu.RLock()
	since := s.read
	s.mu.RUnlock()
	query := documents.Query{IsAscending: true}
	if !since.IsZero() {
		query.After, query.AfterCreated = "0", since.Add(-overlap)
	}
	query.Kind = kindSession
	err = s.each(ctx, query, func(doc *documents.Document) {
		if session, ok := readSession(doc); ok {
			known[doc.ID] = session
		}
	})
	if err != nil {
		return err
	}
	query.Kind = kindPerson
	err = s.each(ctx, query, func(doc *documents.Document) {
		var person Person
		if json.Unmarshal(doc.Data, &person) == nil {
			people[doc.ID] = person
		}
	})
	if err != nil {
		return err
	}
	s.take(now, ends, known, people)
	return nil
}

func (s *Sessions) each(ctx context.Context, query documents.Query, visit func(*documents.Document)) error {
	return documents.Each(ctx, s.options.Documents, query, func(doc documents.Document) (bool, error) {
		visit(&doc)
		return true, nil
	})
}

// take puts what was read into force. An end that this gateway stored meanwhile stays.
func (s *Sessions) take(now time.Time, ends map[string]ended, known map[string]Session, people map[string]Person) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, end := range s.ends {
		if there, is := ends[id]; !is && end.Until.After(now) || is && there.At.Before(end.At) {
			ends[id] = end
		}
	}
	s.ends = ends
	maps.Copy(s.known, known)
	for id, person := range people {
		if person.LastSeen.After(s.people[id].LastSeen) {
			s.people[id] = person
		}
	}
	s.read = now
	s.isRead.Store(true)
}

// sweep removes the sessions and ends that are over, and people who were not seen for long.
func (s *Sessions) sweep(ctx context.Context, now time.Time) {
	type over struct{ kind, id string }
	var list []over
	s.mu.Lock()
	for id, session := range s.known {
		if !now.Before(session.Until) || s.isEnded(&session, id) {
			list = append(list, over{kindSession, id})
			delete(s.known, id)
		}
	}
	for id, end := range s.ends {
		// Clocks of gateways may differ, and an end must outlive its sessions at all of them.
		if now.After(end.Until.Add(time.Hour)) {
			list = append(list, over{kindEnd, id})
			delete(s.ends, id)
		}
	}
	for id, person := range s.people {
		if now.Sub(person.LastSeen) > forgetAfter {
			list = append(list, over{kindPerson, id})
			delete(s.people, id)
		}
	}
	s.mu.Unlock()
	for _, one := range list {
		if err := s.options.Documents.Delete(ctx, one.kind, one.id); err != nil {
			s.options.Log.Debug("a session that is over cannot be removed now", "error", err)
			return
		}
	}
}

func readSession(doc *documents.Document) (session Session, ok bool) {
	ok = doc.ID != "" && json.Unmarshal(doc.Data, &session) == nil
	session.ID = doc.ID
	return session, ok
}
