// Package rediscache keeps the answers of the cache in Redis or anything that speaks its
// protocol: all gateways that share it find them.
package rediscache

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/redis"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache"
)

const (
	// waitToGet is how long a request waits for Redis. waitToPut is the same for keeping an
	// answer that was sent, and waitToClear for a call of the API.
	waitToGet   = 200 * time.Millisecond
	waitToPut   = 5 * time.Second
	waitToClear = 30 * time.Second
	// mostPending is how many answers may wait to be kept; more are not.
	mostPending = 64
	// scanned is how many keys Redis looks at for each step of Clear.
	scanned = 1000
)

// Store keeps answers in Redis, which removes them when their time has come and bounds its
// memory itself.
type Store struct {
	connection *redis.Lazy
	prefix     string
	keys       *seal.Keys // nil leaves answers as they are
	settings   func() answercache.Settings
	log        *slog.Logger

	pending chan struct{}
	writers sync.WaitGroup // begun with mu
	mu      sync.Mutex
	closed  bool
}

// New returns the store at an address. It connects when it is used. The keys, which may be
// nil, encrypt the answers. The function settings returns the settings in force.
func New(address, prefix string, keys *seal.Keys, settings func() answercache.Settings, log *slog.Logger) *Store {
	return &Store{log: log, connection: redis.NewLazy(address), prefix: prefix + ":answer-cache:", keys: keys,
		settings: settings, pending: make(chan struct{}, mostPending)}
}

// Close waits for the answers that are being kept, and closes the connection.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.writers.Wait()
	s.connection.Close()
}

// stored is the form of an answer in Redis.
type stored struct {
	ContentType string       `json:"contentType"`
	Events      bool         `json:"events,omitzero"`
	Framed      bool         `json:"framed,omitzero"`
	Data        []byte       `json:"data"`
	Ends        []int        `json:"ends"`
	Usage       schema.Usage `json:"usage"`
}

func (s *Store) nameOf(key answercache.Key) string { return s.prefix + hex.EncodeToString(key[:]) }

// Get returns an answer. An unreadable one, such as one sealed with another key, counts as
// missing.
func (s *Store) Get(ctx context.Context, key answercache.Key) (*answercache.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, waitToGet)
	defer cancel()
	client, err := s.connection.Connect(ctx)
	if err != nil {
		return nil, err
	}
	name := s.nameOf(key)
	text, err := client.Do(ctx, client.B().Get().Key(name).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err == nil && s.keys != nil {
		if text, err = s.keys.Open(name, text); err != nil {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	var v stored
	if json.Unmarshal([]byte(text), &v) != nil || !v.isWhole() {
		return nil, nil
	}
	return &answercache.Answer{ContentType: v.ContentType, Events: v.Events, Framed: v.Framed, Data: v.Data,
		Ends: v.Ends, Usage: v.Usage}, nil
}

// isWhole reports whether the parts make up the data.
func (v *stored) isWhole() bool {
	at := 0
	for _, end := range v.Ends {
		if end < at || end > len(v.Data) {
			return false
		}
		at = end
	}
	return at == len(v.Data)
}

// Put keeps an answer, after it returns. Where too many wait to be kept, it is not.
func (s *Store) Put(_ context.Context, key answercache.Key, a *answercache.Answer) error {
	select {
	case s.pending <- struct{}{}:
	default:
		return errors.New("too many answers wait for Redis")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		<-s.pending
		return errors.New("the cache of answers is closed")
	}
	s.writers.Go(func() {
		defer func() { <-s.pending }()
		// The next request finds out whether Redis is there.
		logs.Contain(s.log, "keeping an answer", func() { _ = s.write(key, a) })
	})
	return nil
}

func (s *Store) write(key answercache.Key, a *answercache.Answer) error {
	text, err := json.Marshal(stored{a.ContentType, a.Events, a.Framed, a.Data, a.Ends, a.Usage})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitToPut)
	defer cancel()
	client, err := s.connection.Connect(ctx)
	if err != nil {
		return err
	}
	name, value := s.nameOf(key), string(text)
	if s.keys != nil {
		value = s.keys.Seal(name, value)
	}
	return client.Do(ctx, client.B().Set().Key(name).Value(value).PxMilliseconds(
		s.settings().TTL.Std().Milliseconds()).Build()).Error()
}

// Clear removes all answers, of all gateways.
func (s *Store) Clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitToClear)
	defer cancel()
	client, err := s.connection.Connect(ctx)
	if err != nil {
		return err
	}
	for _, node := range client.Nodes() {
		for cursor := uint64(0); ; {
			found, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(s.prefix+
				"*").Count(scanned).Build()).AsScanEntry()
			if err != nil {
				return err
			}
			for _, name := range found.Elements {
				if err := client.Do(ctx, client.B().Unlink().Key(name).Build()).Error(); err != nil {
					return err
				}
			}
			if cursor = found.Cursor; cursor == 0 {
				break
			}
		}
	}
	return nil
}
