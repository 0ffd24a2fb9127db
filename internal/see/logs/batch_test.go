package logs

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sink keeps what is written to it, by time. It takes nothing while it is held.
type sink struct {
	mu     sync.Mutex
	held   sync.Mutex
	writes []string
	failed error
}

func (s *sink) Write(p []byte) (int, error) {
	s.held.Lock()
	defer s.held.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return 0, s.failed
	}
	s.writes = append(s.writes, string(p))
	return len(p), nil
}

func (s *sink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.writes, "")
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.writes)
}

func start(t *testing.T, w io.Writer) (root, access *slog.Logger, b *Batch) {
	t.Helper()
	root, b = NewBatched(w, JSON, slog.LevelInfo)
	t.Cleanup(b.Close)
	return root, Named(root, Access), b
}

func TestLinesOfRequestsAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		_, access, _ := start(t, &out)
		began := time.Now()
		for i := range 50 {
			access.Info("request", "n", i)
			<-time.After(time.Millisecond)
		}
		synctest.Wait()
		if n := out.count(); n != 0 {
			t.Errorf("%d writes after %v", n, time.Since(began))
		}
		<-time.After(batchDelay - time.Since(began))
		synctest.Wait()
		if n, lines := out.count(), strings.Count(out.text(), "\n"); n != 1 || lines != 50 {
			t.Errorf("%d writes with %d lines, want all in one", n, lines)
		}
		<-time.After(time.Hour)
		access.Info("request")
		<-time.After(batchDelay)
		synctest.Wait()
		if n := out.count(); n != 2 {
			t.Errorf("%d writes, want one more", n)
		}
	})
}

func TestManyLinesAreWrittenBeforeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		_, access, _ := start(t, &out)
		access.Info(strings.Repeat("x", batchSize/2))
		synctest.Wait()
		before := len(out.text())
		access.Info(strings.Repeat("x", batchSize/2))
		synctest.Wait()
		if after := len(out.text()); before != 0 || after < batchSize {
			t.Errorf("%d bytes were written before the batch was full, and then %d", before, after)
		}
	})
}

func TestOtherLinesAreWrittenAtOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		root, access, _ := start(t, &out)
		access.Info("first")
		root.Warn("second")
		synctest.Wait()
		Named(root, Audit).Info("third")
		synctest.Wait()
		text := out.text()
		if first, second, third := strings.Index(text, "first"), strings.Index(text, "second"), strings.Index(text, "third"); first < 0 || second < first || third < second {
			t.Errorf("written without delay: %s", text)
		}
	})
}

// A pipe that nobody reads holds up nobody: what does not fit is dropped and counted,
// and the log says so when the pipe is read again.
func TestLinesAreDroppedWhereThePipeIsNotRead(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	root, access, b := start(t, writer)
	const sent = 20_000
	for range sent {
		access.Info(strings.Repeat("x", 200))
	}
	dropped := Dropped(root)()
	if dropped == 0 {
		t.Fatal("nothing was dropped; did the pipe take it all?")
	}
	read := make(chan []byte)
	go func() {
		text, _ := io.ReadAll(reader)
		read <- text
	}()
	b.Close()
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(<-read), "\n"), "\n")
	said, passed := 0, 0
	for _, line := range lines {
		if _, after, ok := strings.Cut(line, `"lines":`); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(after, "}"))
			if err != nil {
				t.Fatal(err)
			}
			said += n
			continue
		}
		passed++
	}
	if int64(said) != dropped || int64(passed) != sent-dropped {
		t.Errorf("%d lines were dropped and %d passed; the log says that %d of %d were dropped", dropped, passed, said, sent)
	}
}

func TestLinesThatTheSinkRefusesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := sink{failed: errors.New("no space")}
		root, access, _ := start(t, &out)
		access.Info("lost")
		root.Info("lost too")
		synctest.Wait()
		if n := Dropped(root)(); n != 2 {
			t.Errorf("%d lines are counted as dropped, want 2", n)
		}
		out.mu.Lock()
		out.failed = nil
		out.mu.Unlock()
		root.Info("kept")
		synctest.Wait()
		if text := out.text(); !strings.Contains(text, "kept") || !strings.Contains(text, `"lines":2`) || strings.Contains(text, "lost") {
			t.Errorf("the log: %s", text)
		}
		root.Info("kept too")
		synctest.Wait()
		if text := out.text(); strings.Count(text, `"lines":`) != 1 {
			t.Errorf("the loss is said more than once: %s", text)
		}
	})
}

func TestCloseWritesWhatWaits(t *testing.T) {
	var out sink
	root, access, b := start(t, &out)
	access.Info("waits")
	b.Close()
	if text := out.text(); !strings.Contains(text, "waits") {
		t.Errorf("the log: %s", text)
	}
	b.Close()
	root.Info("after the end")
	access.Info("a request after the end")
	if text := out.text(); !strings.Contains(text, "after the end") || !strings.Contains(text, "a request after") {
		t.Errorf("lines after the end are lost: %s", text)
	}
}

func TestCloseGivesUpOnASinkThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		_, access, b := start(t, writer)
		access.Info("never read")
		began := time.Now()
		b.Close()
		if waited := time.Since(began); waited != closeWait {
			t.Errorf("Close waited for %v, want %v", waited, closeWait)
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestConcurrentLinesAreWhole(t *testing.T) {
	var out bytes.Buffer
	_, access, b := start(t, &out)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				access.Info("request", "text", strings.Repeat("y", 100))
			}
		})
	}
	wg.Wait()
	b.Close()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for _, line := range lines {
		if !strings.HasPrefix(line, `{"ts":`) || !strings.HasSuffix(line, `y"}`) {
			t.Fatalf("a line is not whole: %s", line)
		}
	}
	if len(lines) != 8*200 {
		t.Errorf("%d lines, want %d", len(lines), 8*200)
	}
	if n := Dropped(slog.New(slog.DiscardHandler))(); n != 0 {
		t.Errorf("another logger dropped %d", n)
	}
}
