package jwt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

// When keys are read.
const (
	// refreshEvery is the time between two reads of an address, and lookEvery between two looks at
	// a file.
	refreshEvery = 10 * time.Minute
	lookEvery    = 5 * time.Second
	// unknownEvery is the shortest time between two reads for the sake of unknown keys, and
	// missingEvery the shortest while no key is known.
	unknownEvery = time.Minute
	missingEvery = time.Second
	// readTime bounds a read.
	readTime = 10 * time.Second
)

// Source says where the keys of an issuer are: at an address, or in a file.
type Source struct {
	Name string // in logs
	URL  string
	File string
	// CA is a file with the certificates that are trusted in place of the system's.
	CA  string
	Log *slog.Logger
	// Changed is called when the keys have changed; it may be nil.
	Changed func()
}

// Keys are the keys of an issuer as they were last read. While they cannot be read, the earlier
// ones hold.
type Keys struct {
	source Source
	get    func(context.Context) ([]byte, error) // reads the document
	set    atomic.Pointer[Set]
	health condition.Condition

	mu      sync.Mutex // guards the fields below
	data    []byte     // that the set was read from
	last    time.Time  // of the last read that a token caused
	reading chan struct{}
	work    sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
}

// NewKeys returns the keys of a source. They are read by Run, and by Verify where it needs them.
func NewKeys(source Source) *Keys {
	if source.Log == nil {
		source.Log = slog.New(slog.DiscardHandler)
	}
	if source.Changed == nil {
		source.Changed = func() {}
	}
	k := &Keys{source: source}
	k.get = k.fetch
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// Set returns the keys as they were last read, nil before that. The pointer changes with the keys.
func (k *Keys) Set() *Set { return k.set.Load() }

// Failure returns why the keys could not be read the last time, nil if they could.
func (k *Keys) Failure() *condition.Failure { return k.health.Failure() }

// Close ends the reads that run.
func (k *Keys) Close() {
	k.stop()
	k.work.Wait()
}

// Verify is Set.Verify with the latest keys. If a token names an unknown key, they are read anew, at
// most once a minute, and Verify waits for that until ctx ends.
func (k *Keys) Verify(ctx context.Context, text string, want Expected, now time.Time) (Claims, error) {
	claims, err := k.Set().Verify(text, want, now)
	if !errors.Is(err, ErrUnknownKey) || !k.renew(ctx) {
		return claims, k.orMissing(err)
	}
	claims, err = k.Set().Verify(text, want, now)
	return claims, k.orMissing(err)
}

// ErrNoKeys says that the keys of the issuer could not be read yet, so nobody knows whether the
// token is good.
var ErrNoKeys = say.Error("token.no_keys")

func (k *Keys) orMissing(err error) error {
	if errors.Is(err, ErrUnknownKey) && k.Set() == nil {
		return ErrNoKeys
	}
	return err
}

// renew reads the keys anew, or joins the read that runs, and reports whether it ended. It reports
// false where the last such read was not long ago.
func (k *Keys) renew(ctx context.Context) bool {
	k.mu.Lock()
	done := k.reading
	if done == nil {
		pause := unknownEvery
		if k.Set() == nil {
			pause = missingEvery
		}
		now := time.Now()
		if k.ctx.Err() != nil || !k.last.IsZero() && now.Sub(k.last) < pause {
			k.mu.Unlock()
			return false
		}
		done = make(chan struct{})
		k.last, k.reading = now, done
		k.work.Go(func() {
			defer func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				close(done)
				k.reading = nil
			}()
			logs.Contain(k.source.Log, "reading the keys of an issuer", func() { _ = k.Read(k.ctx) })
		})
	}
	k.mu.Unlock()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Run keeps the keys fresh until ctx ends.
func (k *Keys) Run(ctx context.Context) {
	pause := time.Second
	for ctx.Err() == nil {
		next := refreshEvery
		if k.source.File != "" {
			next = lookEvery
		}
		if k.Read(ctx) == nil {
			pause = time.Second
		} else {
			next = min(pause, next)
			pause = min(2*pause, time.Minute)
		}
		if waiting.Pause(ctx, next) != nil {
			return
		}
	}
}

// Read reads the keys now. The error is a sentence for operators, which the log gets once.
func (k *Keys) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	data, err := k.get(ctx)
	if err == nil {
		err = k.take(data)
	}
	if ctx.Err() != nil && k.ctx.Err() != nil {
		return err // the gateway stops
	}
	k.health.Note(k.source.Log, err, "the keys of an issuer of tokens cannot be read; those that were read before hold",
		"the keys of an issuer of tokens can be read again", "issuer", k.source.Name, "keys", k.Set().Size())
	return err
}

// take puts the keys of a document in force.
func (k *Keys) take(data []byte) error {
	set, err := ReadSet(data)
	if err != nil {
		return err
	}
	k.mu.Lock()
	isSame := k.Set() != nil && bytes.Equal(k.data, data)
	if !isSame {
		k.data = data
		k.set.Store(set)
	}
	k.mu.Unlock()
	if !isSame {
		k.source.Changed()
	}
	return nil
}

func (k *Keys) fetch(ctx context.Context) ([]byte, error) {
	if k.source.File == "" {
		return Get(ctx, k.source.URL, k.source.CA)
	}
	file, err := os.Open(k.source.File)
	if err != nil {
		return nil, say.Wrap(err, "issuer.file", "why", err)
	}
	defer func() { _ = file.Close() }()
	return read(http.MaxBytesReader(nil, file, outgoing.Largest))
}

func read(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(from)
	if _, isLarge := errors.AsType[*http.MaxBytesError](err); isLarge {
		return nil, say.Error("issuer.large", "most", "1 MB")
	}
	if err != nil {
		return nil, say.Wrap(err, "issuer.away", "why", err)
	}
	return data, nil
}

// Get returns a document of an issuer.
func Get(ctx context.Context, address, ca string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, say.Wrap(err, "issuer.away", "why", err)
	}
	data, status, err := Ask(request, ca)
	if err == nil && status != http.StatusOK {
		err = say.Error("issuer.status", "status", status)
	}
	return data, err
}

// Ask sends a request to an issuer, and returns the answer with its status. The certificates of a
// file are trusted, if ca names one, in place of the system's.
func Ask(request *http.Request, ca string) (answer []byte, status int, err error) {
	trust, err := outgoing.Trust(ca)
	if err != nil {
		return nil, 0, say.Wrap(err, "issuer.ca", "why", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := outgoing.New(outgoing.Options{Timeout: readTime, TLS: trust}).Do(request)
	if err != nil {
		return nil, 0, say.Wrap(err, "issuer.away", "why", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = read(response.Body)
	return answer, response.StatusCode, err
}
