package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
)

const issuer = "https://issuer.example"

func open(t *testing.T, store documents.Store, isShared bool) *sessions.Sessions {
	t.Helper()
	s, err := sessions.Open(t.Context(), sessions.Options{Documents: store, IsShared: isShared, Life: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// session returns a session of a person that begins now.
func session(id, subject, seat string) sessions.Session {
	now := time.Now()
	return sessions.Session{ID: id, Name: "Ada", Provider: "corp", Issuer: issuer, Subject: subject, Seat: seat, Since: now, Until: now.Add(time.Hour),
		Claims: map[string][]string{"groups": {"ops"}}}
}

func begin(t *testing.T, s *sessions.Sessions, list ...sessions.Session) {
	t.Helper()
	for _, one := range list {
		if err := s.Begin(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *flaky) Get(ctx context.Context, kind, id string) (documents.Document, error) {
	if f.isAway.Load() {
		return documents.Document{}, documents.ErrUnavailable
	}
	return f.Store.Get(ctx, kind, id)
}

func (f *flaky) List(ctx context.Context, q documents.Query) ([]documents.Document, error) {
	if f.isAway.Load() {
		return nil, documents.ErrUnavailable
	}
	return f.Store.List(ctx, q)
}

// flaky is a store that may not answer.
type flaky struct {
	documents.Store
	isAway atomic.Bool
}

// alive reports which of some sessions are good.
func alive(t *testing.T, s *sessions.Sessions, ids ...string) (good []string) {
	t.Helper()
	for _, id := range ids {
		if _, err := s.Find(t.Context(), id, time.Now()); err == nil {
			good = append(good, id)
		}
	}
	return good
}

// Each way to end sessions ends those that it names, and no others, also after a restart.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(*sessions.Sessions, context.Context) error
		left string
	}{
		"one": {func(s *sessions.Sessions, ctx context.Context) error {
			return s.End(ctx, "a", time.Now().Add(time.Hour))
		}, "[b c d]"},
		"a seat":   {func(s *sessions.Sessions, ctx context.Context) error { return s.EndSeat(ctx, issuer, "seat1") }, "[b d]"},
		"a person": {func(s *sessions.Sessions, ctx context.Context) error { return s.EndPerson(ctx, issuer, "ada") }, "[d]"},
		"another's seat": {func(s *sessions.Sessions, ctx context.Context) error {
			return s.EndSeat(ctx, "https://other.example", "seat1")
		}, "[a b c d]"},
		"another's person": {func(s *sessions.Sessions, ctx context.Context) error {
			return s.EndPerson(ctx, "https://other.example", "ada")
		}, "[a b c d]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store, err := documents.OpenDir(dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, store, false)
			begin(t, s, session("a", "ada", "seat1"), session("b", "ada", "seat2"), session("c", "ada", "seat1"), session("d", "bob", ""))
			if err := test.end(s, t.Context()); err != nil {
				t.Fatal(err)
			}
			again, err := documents.OpenDir(dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			for when, s := range map[string]*sessions.Sessions{"now": s, "after a restart": open(t, again, false)} {
				if left := fmt.Sprint(alive(t, s, "a", "b", "c", "d")); left != test.left {
					t.Errorf("%s: left are %s, want %s", when, left, test.left)
				}
				list, err := s.List(time.Now())
				if err != nil || len(list) != len(alive(t, s, "a", "b", "c", "d")) {
					t.Errorf("%s: listed are %v, %v", when, list, err)
				}
			}
			begin(t, s, session("new", "ada", "seat9"))
			if fmt.Sprint(alive(t, s, "new")) != "[new]" {
				t.Error("a new session of the person is not good")
			}
		})
	}
}

// An end reaches other gateways within seconds. While the store does not answer, the list stays as
// it was read, and nothing can be ended.
func TestEndsReachOtherGateways(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := documents.NewMemory()
		away := &flaky{Store: store}
		one, two := open(t, store, true), open(t, away, true)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go two.Run(ctx)
		begin(t, one, session("a", "ada", "s"), session("b", "bob", ""))
		if got := fmt.Sprint(alive(t, two, "a", "b")); got != "[a b]" {
			t.Errorf("at once the other knows %s", got)
		}
		if err := one.EndPerson(t.Context(), issuer, "ada"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) //nolint:forbidigo // the time of a synctest bubble
		if got := fmt.Sprint(alive(t, two, "a", "b")); got != "[b]" {
			t.Errorf("after 5 s the other knows %s", got)
		}
		begin(t, one, session("c", "cyd", ""))
		time.Sleep(5 * time.Second) //nolint:forbidigo // the time of a synctest bubble
		away.isAway.Store(true)
		if err := one.EndPerson(t.Context(), issuer, "bob"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the time of a synctest bubble
		if got := fmt.Sprint(alive(t, two, "a", "b", "c")); got != "[b c]" {
			t.Errorf("while the store is away the other knows %s", got)
		}
		if err := two.End(t.Context(), "b", time.Now().Add(time.Hour)); err == nil {
			t.Error("an end that cannot be kept is no error")
		}
		away.isAway.Store(false)
		time.Sleep(5 * time.Second) //nolint:forbidigo // the time of a synctest bubble
		if got := fmt.Sprint(alive(t, two, "a", "b", "c")); got != "[c]" {
			t.Errorf("when the store is back the other knows %s", got)
		}
	})
}

// Nobody knows which sessions ended before the list was read once.
func TestAnUnreadListAcceptsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{Store: documents.NewMemory()}
		begin(t, open(t, store, true), session("a", "ada", ""))
		store.isAway.Store(true)
		s := open(t, store, true)
		if _, err := s.Find(t.Context(), "a", time.Now()); !errors.Is(err, sessions.ErrUnread) {
			t.Errorf("found: %v", err)
		}
		if err := s.Check("t"); !errors.Is(err, sessions.ErrUnread) {
			t.Errorf("checked: %v", err)
		}
		store.isAway.Store(false)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.Run(ctx)
		time.Sleep(5 * time.Second) //nolint:forbidigo // the time of a synctest bubble
		if err := s.Check("t"); err != nil || len(alive(t, s, "a")) != 1 {
			t.Errorf("when it was read: %v", err)
		}
	})
}

// What is over is removed. A person is remembered for longer than any session.
func TestSessionsThatAreOverAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := documents.NewMemory()
		s := open(t, store, false)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.Run(ctx)
		begin(t, s, session("a", "ada", "s"), session("b", "bob", ""))
		if err := s.EndSeat(t.Context(), issuer, "s"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) //nolint:forbidigo // the time of a synctest bubble
		if alive(t, s, "b") != nil {
			t.Error("a session outlives its longest life")
		}
		time.Sleep(3 * time.Hour) //nolint:forbidigo // the time of a synctest bubble
		for _, kind := range []string{"session", "session-end"} {
			if _, all, _ := store.Use(t.Context(), kind, ""); all.Count != 0 {
				t.Errorf("%d documents of the kind %s are left", all.Count, kind)
			}
		}
		if p, is := s.Person(issuer, "bob"); !is || p.Name != "Ada" || time.Since(p.LastSeen) < 4*time.Hour {
			t.Errorf("%+v %t", p, is)
		}
		time.Sleep(500 * 24 * time.Hour) //nolint:forbidigo // the time of a synctest bubble
		if len(s.People()) != 0 {
			t.Error("people are never forgotten")
		}
	})
}

// One person or token has a bounded number of sessions: the oldest end.
func TestTheOldestSessionsOfAPersonEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, documents.NewMemory(), false)
		begin(t, s, session("other", "bob", ""))
		for i := range 150 {
			time.Sleep(time.Second) //nolint:forbidigo // the time of a synctest bubble
			begin(t, s, session(fmt.Sprint("s", i), "ada", ""))
		}
		list, err := s.List(time.Now())
		if err != nil || len(list) != 101 || list[0].ID != "s149" || list[100].ID != "other" {
			t.Errorf("%d sessions, %v", len(list), err)
		}
		if alive(t, s, "s49") != nil || alive(t, s, "s50") == nil {
			t.Error("it is not the oldest that ended")
		}
	})
}

// A gateway with a clock that is behind begins sessions that an earlier end does not reach.
func TestASessionAfterAnEndIsGoodWhateverTheClock(t *testing.T) {
	t.Parallel()
	s := open(t, documents.NewMemory(), false)
	if err := s.EndPerson(t.Context(), issuer, "ada"); err != nil {
		t.Fatal(err)
	}
	behind := session("a", "ada", "")
	behind.Since = behind.Since.Add(-20 * time.Second)
	begin(t, s, behind)
	if alive(t, s, "a") == nil {
		t.Error("the session is not good")
	}
	if err := s.Begin(t.Context(), behind); !errors.Is(err, sessions.ErrExists) {
		t.Errorf("the same once more: %v", err)
	}
}
