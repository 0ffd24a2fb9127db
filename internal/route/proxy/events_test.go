package proxy

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// clientConn is a client's connection that notes what is done to it.
type clientConn struct {
	begun time.Time
	route Route

	mu   sync.Mutex
	sent []sending
	held bytes.Buffer
	fail error // of every write from now on
}

// sending is what reached the client in one go, and when.
type sending struct {
	at   time.Duration
	text string
}

func newClientConn() *clientConn { return &clientConn{begun: time.Now()} }

func (w *clientConn) Route(route Route) { w.route = route }

func (*clientConn) Head(Head) {}

func (w *clientConn) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return 0, w.fail
	}
	return w.held.Write(p)
}

func (w *clientConn) Send(p []byte) error {
	if _, err := w.Write(p); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return w.fail
	}
	w.sent = append(w.sent, sending{time.Since(w.begun), w.held.String()})
	w.held.Reset()
	return nil
}

func (w *clientConn) snap(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = err
}

// got returns what was sent since the last time.
func (w *clientConn) got() []sending {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.sent
	w.sent = nil
	return list
}

// startEventWriter returns a writer whose head has been sent.
func startEventWriter(to Sink, silence time.Duration) *eventWriter {
	e := newEventWriter(to, false, nil, silence, &sync.Pool{New: newEventBuffer})
	e.start()
	return e
}

func wantSent(t *testing.T, w *clientConn, want ...sending) {
	t.Helper()
	if got := w.got(); !slices.Equal(got, want) {
		t.Errorf("sent %+v, want %+v", got, want)
	}
}

// pass lets time pass on the clock of the test, and what it sets off happen.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock is a fake one
	synctest.Wait()
}

const comment = ": keep-alive\n\n"

func TestSilenceIsFilledWithComments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newClientConn()
		e := startEventWriter(w, 15*time.Second)
		pass(14 * time.Second)
		wantSent(t, w)
		pass(17 * time.Second)
		wantSent(t, w, sending{15 * time.Second, comment}, sending{30 * time.Second, comment})
		// An event breaks the silence; the next comment comes so long after it.
		if err := e.part([]byte(`{"a":1}`)); err != nil {
			t.Fatal(err)
		}
		e.flush()
		pass(14 * time.Second)
		wantSent(t, w, sending{31 * time.Second, "data: {\"a\":1}\n\n"})
		pass(2 * time.Second)
		wantSent(t, w, sending{46 * time.Second, comment})
		e.close()
		pass(time.Hour)
		wantSent(t, w)
	})
}

func TestStreamThatFlowsHasNoComments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newClientConn()
		e := startEventWriter(w, 15*time.Second)
		for range 40 {
			pass(3 * time.Second)
			_ = e.part([]byte("x"))
			e.flush()
		}
		e.close()
		got := w.got()
		if len(got) != 40 || slices.ContainsFunc(got, func(s sending) bool { return s.text != "data: x\n\n" }) {
			t.Errorf("sent %+v", got)
		}
	})
}

func TestEventsThatComeTogetherLeaveTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newClientConn()
		e := startEventWriter(w, time.Minute)
		defer e.close()
		for _, event := range []string{"a", "b", "c"} {
			if err := e.part([]byte(event)); err != nil {
				t.Fatal(err)
			}
		}
		wantSent(t, w)
		e.flush()
		wantSent(t, w, sending{0, "data: a\n\ndata: b\n\ndata: c\n\n"})
		e.flush()
		wantSent(t, w) // there is nothing left

		// More than what is held back goes out by itself.
		long := strings.Repeat("x", maxBuffered/4)
		for range 4 {
			_ = e.part([]byte(long))
		}
		if got := w.got(); len(got) != 1 || len(got[0].text) < maxBuffered {
			t.Errorf("%d sendings", len(got))
		}
		// Held events are not overtaken by a comment.
		_ = e.part([]byte("d"))
		pass(time.Minute + time.Second)
		wantSent(t, w, sending{time.Minute, "data: d\n\n" + comment})
	})
}

func TestLargeEventsLeaveNoLargeBuffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newClientConn()
		e := startEventWriter(w, time.Minute)
		defer e.close()
		_ = e.part(make([]byte, 1<<20))
		if len(w.got()) != 1 || cap(e.buf) > 64<<10 {
			t.Errorf("%d bytes are kept", cap(e.buf))
		}
	})
}

func TestEventWriterStopsWhenTheClientLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("broken pipe")
		w := newClientConn()
		e := startEventWriter(w, 15*time.Second)
		_ = e.part([]byte("a"))
		e.flush()
		w.snap(gone)
		_ = e.part([]byte("b"))
		if err := e.end(); !errors.Is(err, gone) {
			t.Errorf("end said %v", err)
		}
		if err := e.part([]byte("c")); !errors.Is(err, gone) {
			t.Errorf("part said %v", err)
		}
		w.snap(nil) // whoever writes now shows
		pass(time.Hour)
		e.flush()
		wantSent(t, w, sending{0, "data: a\n\n"})
		e.close()
	})
}

// A comment that cannot be sent ends the stream, too.
func TestCommentsFindOutThatAClientIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("broken pipe")
		w := newClientConn()
		e := startEventWriter(w, 15*time.Second)
		defer e.close()
		w.snap(gone)
		pass(16 * time.Second)
		if err := e.part([]byte("a")); !errors.Is(err, gone) {
			t.Errorf("part said %v", err)
		}
	})
}

// Comments come from a goroutine of their own and never get into an event.
func TestCommentsStandBetweenEvents(t *testing.T) {
	t.Parallel()
	w := newClientConn()
	e := startEventWriter(w, time.Microsecond)
	event := []byte(strings.Repeat("y", 100))
	for range 2000 {
		_ = e.part(event)
		e.flush()
	}
	e.close()
	var all strings.Builder
	for _, s := range w.got() {
		all.WriteString(s.text)
	}
	rest := strings.ReplaceAll(all.String(), comment, "")
	if rest != strings.Repeat("data: "+string(event)+"\n\n", 2000) {
		t.Error("the events are torn")
	}
}
