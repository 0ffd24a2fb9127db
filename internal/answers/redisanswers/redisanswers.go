// Package redisanswers keeps responses in Redis or anything that speaks its protocol, so
// that all gateways which share it find them.
package redisanswers

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/answers"
	"github.com/patchbay-ai/patchbay/internal/quota/redisstore"
)

// Store keeps responses in Redis, which removes them when their time has come, and bounds
// its memory itself.
type Store struct {
	address  string
	settings func() answers.Settings

	mu     sync.Mutex
	client rueidis.Client // nil until it is connected
	tried  time.Time      // when the last attempt to connect failed
	closed bool
}

const (
	prefix = "patchbay:responses:"
	// timeout bounds one command: a client waits for it.
	timeout = 2 * time.Second
	// pause is the time between two attempts to connect.
	pause = time.Second
)

// New returns the store at an address, to which it connects when it is used. Settings
// returns those that are in force.
func New(address string, settings func() answers.Settings) *Store {
	return &Store{address: address, settings: settings}
}

var (
	errClosed       = errors.New("the store of responses is closed")
	errNotConnected = errors.New("there is no connection to Redis")
)

// connect returns the connection. Errors never contain the address, which may hold a
// password.
func (s *Store) connect(ctx context.Context) (rueidis.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case s.client != nil:
		return s.client, nil
	case time.Since(s.tried) < pause:
		return nil, errNotConnected
	}
	client, err := redisstore.Connect(ctx, s.address)
	if err != nil {
		s.tried = time.Now()
		return nil, err
	}
	s.client = client
	return client, nil
}

// Close closes the connection.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.client != nil {
		s.client.Close()
	}
}

// stored is an answer as it is kept.
type stored struct {
	Previous []string       `json:"previous,omitempty"`
	Input    jsontext.Value `json:"input"`
	Response jsontext.Value `json:"response,omitzero"`
	Instance string         `json:"instance,omitempty"`
}

// keyOf returns the key of an answer. The length of the owner keeps owners apart whatever
// they and the ids contain.
func keyOf(owner, id string) string {
	return prefix + strconv.Itoa(len(owner)) + ":" + owner + ":" + id
}

// Put keeps an answer.
func (s *Store) Put(ctx context.Context, a *answers.Answer) error {
	settings := s.settings()
	value := stored{Previous: a.Previous, Instance: a.Instance, Response: a.Response}
	value.Input = append(append(append(value.Input, '['), a.Input...), ']')
	text, err := json.Marshal(value, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return err
	}
	if answers.TooLarge(settings, len(text)) {
		return answers.ErrTooLarge
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	return client.Do(ctx, client.B().Set().Key(keyOf(a.Owner, a.ID)).Value(rueidis.BinaryString(text)).Px(settings.TTL.Std()).Build()).Error()
}

// Get returns answers of an owner.
func (s *Store) Get(ctx context.Context, owner string, ids ...string) ([]*answers.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	commands := make(rueidis.Commands, 0, 2*len(ids))
	ttl := s.settings().TTL.Std()
	for _, id := range ids {
		key := keyOf(owner, id)
		commands = append(commands, client.B().Get().Key(key).Build(), client.B().Pexpire().Key(key).Milliseconds(ttl.Milliseconds()).Build())
	}
	found := make([]*answers.Answer, len(ids))
	replies := client.DoMulti(ctx, commands...)
	for i, id := range ids {
		text, err := replies[2*i].AsBytes()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var value stored
		if err := json.Unmarshal(text, &value, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
			return nil, err
		}
		found[i] = &answers.Answer{ID: id, Owner: owner, Previous: value.Previous, Response: value.Response, Instance: value.Instance}
		if n := len(value.Input); n > len("[]") {
			found[i].Input = value.Input[1 : n-1]
		}
	}
	return found, nil
}

// Delete removes an answer.
func (s *Store) Delete(ctx context.Context, owner, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := s.connect(ctx)
	if err != nil {
		return false, err
	}
	n, err := client.Do(ctx, client.B().Del().Key(keyOf(owner, id)).Build()).AsInt64()
	return n > 0, err
}
