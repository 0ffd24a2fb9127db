// Package redisanswers keeps responses in Redis or anything that speaks its protocol, so
// that all gateways which share it find them.
package redisanswers

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/answers"
	"github.com/patchbay-ai/patchbay/internal/redis"
)

// Store keeps responses in Redis, which removes them when their time has come. What one key
// keeps is bounded here, what all of them keep by Redis itself.
type Store struct {
	connection *redis.Lazy
	settings   func() answers.Settings
	share      *redis.Script
}

const (
	prefix = "patchbay:responses:"
	// timeout bounds one command: a client waits for it.
	timeout = 2 * time.Second
)

// New returns the store at an address, to which it connects when it is used. Settings
// returns those that are in force.
func New(address string, settings func() answers.Settings) *Store {
	return &Store{connection: redis.NewLazy(address), settings: settings, share: redis.NewScript(shareSource)}
}

//go:embed share.lua
var shareSource string

// Close closes the connection.
func (s *Store) Close() { s.connection.Close() }

// stored is an answer as it is kept. Issue is that of its owner; releases that did not
// write it pass it over.
type stored struct {
	Issue    string         `json:"issue,omitempty"`
	Previous []string       `json:"previous,omitempty"`
	Input    jsontext.Value `json:"input"`
	Response jsontext.Value `json:"response,omitzero"`
	Instance string         `json:"instance,omitempty"`
}

// keyOf returns the key of an answer. The length of the owner keeps owners apart whatever
// they and the ids contain.
func keyOf(owner answers.Owner, id string) string {
	return prefix + strconv.Itoa(len(owner.Key)) + ":" + owner.Key + ":" + id
}

// shareOf returns the keys of what is noted about an owner: when each answer was used last,
// and how large they are. Both are in the same part of a cluster.
func shareOf(owner answers.Owner) []string {
	base := prefix + "of:{" + strconv.Itoa(len(owner.Key)) + ":" + owner.Key + "}:"
	return []string{base + "used", base + "bytes"}
}

// note notes the size of an answer of an owner, -1 if it is no longer kept, and removes
// what has to give way so that the owner stays within the bounds. Where no keys are
// required there is nobody whose share could be taken.
func (s *Store) note(ctx context.Context, client rueidis.Client, owner answers.Owner, id string, bytes int) error {
	if owner.Key == "" {
		return nil
	}
	settings := s.settings()
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	gone, err := redis.Run(ctx, client, redis.Call{Script: s.share, Keys: shareOf(owner), Args: []string{
		number(time.Now().UnixMilli()), number(settings.TTL.Std().Milliseconds()), id, strconv.Itoa(bytes),
		number(int64(settings.MaxBytes)), strconv.Itoa(settings.MaxResponses),
	}})[0].AsStrSlice()
	if err != nil {
		return err
	}
	commands := make(rueidis.Commands, len(gone))
	for i, id := range gone {
		commands[i] = client.B().Del().Key(keyOf(owner, id)).Build()
	}
	var failed []error
	for _, reply := range client.DoMulti(ctx, commands...) {
		failed = append(failed, reply.Error())
	}
	return errors.Join(failed...)
}

// isOf reports whether a stored answer is that of an owner, and not of a key that had the
// same id before. Of an answer without an issue, which the release before wrote, this is
// known if the key is older than all answers that others may have left.
func (v *stored) isOf(owner answers.Owner, ttl time.Duration) bool {
	if v.Issue == "" {
		return owner.Since.IsZero() || time.Since(owner.Since) >= ttl
	}
	return v.Issue == owner.Issue
}

// Put keeps an answer.
func (s *Store) Put(ctx context.Context, a *answers.Answer) error {
	settings := s.settings()
	value := stored{Issue: a.Owner.Issue, Previous: a.Previous, Instance: a.Instance, Response: a.Response}
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
	client, err := s.connection.Connect(ctx)
	if err != nil {
		return err
	}
	if err := s.note(ctx, client, a.Owner, a.ID, len(text)); err != nil {
		return err
	}
	return client.Do(ctx, client.B().Set().Key(keyOf(a.Owner, a.ID)).Value(rueidis.BinaryString(text)).Px(settings.TTL.Std()).Build()).Error()
}

// Get returns answers of an owner.
func (s *Store) Get(ctx context.Context, owner answers.Owner, ids ...string) ([]*answers.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := s.connection.Connect(ctx)
	if err != nil {
		return nil, err
	}
	commands := make(rueidis.Commands, 0, len(ids))
	for _, id := range ids {
		commands = append(commands, client.B().Get().Key(keyOf(owner, id)).Build())
	}
	ttl := s.settings().TTL.Std()
	found := make([]*answers.Answer, len(ids))
	var used []string
	for i, reply := range client.DoMulti(ctx, commands...) {
		text, err := reply.AsBytes()
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
		if !value.isOf(owner, ttl) {
			continue
		}
		used = append(used, ids[i])
		found[i] = &answers.Answer{ID: ids[i], Owner: owner, Previous: value.Previous, Response: value.Response, Instance: value.Instance}
		if n := len(value.Input); n > len("[]") {
			found[i].Input = value.Input[1 : n-1]
		}
	}
	prolong(ctx, client, owner, ttl, used)
	return found, nil
}

// prolong keeps answers of an owner for as long as if they were new. An answer that was
// found is one also where this fails.
func prolong(ctx context.Context, client rueidis.Client, owner answers.Owner, ttl time.Duration, ids []string) {
	if len(ids) == 0 {
		return
	}
	share := shareOf(owner)
	noted := client.B().Zadd().Key(share[0]).Xx().ScoreMember()
	now := float64(time.Now().UnixMilli())
	var commands rueidis.Commands
	for _, id := range ids {
		noted = noted.ScoreMember(now, id)
		commands = append(commands, client.B().Pexpire().Key(keyOf(owner, id)).Milliseconds(ttl.Milliseconds()).Build())
	}
	commands = append(commands, noted.Build())
	for _, key := range share {
		commands = append(commands, client.B().Pexpire().Key(key).Milliseconds(ttl.Milliseconds()).Build())
	}
	client.DoMulti(ctx, commands...)
}

// Delete removes an answer.
func (s *Store) Delete(ctx context.Context, owner answers.Owner, id string) (bool, error) {
	found, err := s.Get(ctx, owner, id)
	if err != nil || found[0] == nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := s.connection.Connect(ctx)
	if err != nil {
		return false, err
	}
	n, err := client.Do(ctx, client.B().Del().Key(keyOf(owner, id)).Build()).AsInt64()
	if err != nil || n == 0 {
		return false, err
	}
	return true, s.note(ctx, client, owner, id, -1)
}
