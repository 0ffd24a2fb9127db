// Package redisanswers keeps responses in Redis or anything that speaks its protocol, so
// that all gateways which share it find them.
package redisanswers

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/answers"
	"github.com/patchbay-ai/patchbay/internal/quota/redisstore"
)

// Store is a connection to the responses in Redis. Redis removes them when their time has
// come, and bounds its memory itself.
type Store struct {
	client   rueidis.Client
	settings func() answers.Settings
}

const (
	prefix = "patchbay:responses:"
	// timeout bounds one command: a client waits for it.
	timeout = 2 * time.Second
)

// Open connects to the store at an address, until the context ends. Errors never contain
// the address, which may hold a password. Settings returns those that are in force.
func Open(ctx context.Context, address string, settings func() answers.Settings) (*Store, error) {
	client, err := redisstore.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	return &Store{client: client, settings: settings}, nil
}

// Close closes the connection.
func (s *Store) Close() { s.client.Close() }

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
	return s.client.Do(ctx, s.client.B().Set().Key(keyOf(a.Owner, a.ID)).Value(rueidis.BinaryString(text)).Px(settings.TTL.Std()).Build()).Error()
}

// Get returns answers of an owner.
func (s *Store) Get(ctx context.Context, owner string, ids ...string) ([]*answers.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	commands := make(rueidis.Commands, 0, 2*len(ids))
	ttl := s.settings().TTL.Std()
	for _, id := range ids {
		key := keyOf(owner, id)
		commands = append(commands, s.client.B().Get().Key(key).Build(), s.client.B().Pexpire().Key(key).Milliseconds(ttl.Milliseconds()).Build())
	}
	found := make([]*answers.Answer, len(ids))
	replies := s.client.DoMulti(ctx, commands...)
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
	n, err := s.client.Do(ctx, s.client.B().Del().Key(keyOf(owner, id)).Build()).AsInt64()
	return n > 0, err
}
