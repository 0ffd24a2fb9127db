// Package redisanswers keeps responses in Redis or anything that speaks its protocol: all
// gateways that share it find them. With a master key they are encrypted, and bound to
// their owner and id.
package redisanswers

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/request/recall"
	"github.com/patchbay-ai/patchbay/internal/store/redis"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/answers"
)

// Store keeps responses in Redis, which removes them when their time has come. The answers
// of each key are bounded, and those of all keys together.
type Store struct {
	options      Options
	connection   *redis.Lazy
	share, total *redis.Script
	digesting    []byte // the key of digests of ids

	mu     sync.Mutex
	asked  time.Time // when Redis was asked for its memory, and its answer
	memory int64
	warned time.Time // when it was logged that an answer was refused
}

// Options are the parts that a Store works with.
type Options struct {
	// Address is the address of Redis. The store connects when it is used.
	Address string
	// Keys encrypt the answers; nil leaves them as they are.
	Keys *seal.Keys
	// Settings returns the settings in force.
	Settings func() answers.Settings
	Log      *slog.Logger
}

const (
	prefix = "patchbay:responses:"
	// timeout bounds one command: a client waits for it.
	timeout = 2 * time.Second
	// warnEvery is the least time between two lines about refused answers.
	warnEvery = 10 * time.Second
)

// New returns a store.
func New(options Options) *Store {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{options: options, connection: redis.NewLazy(options.Address), share: redis.NewScript(shareSource),
		total: redis.NewScript(totalSource)}
	s.digesting = make([]byte, sha256.Size)
	if options.Keys != nil {
		options.Keys.Derive(givenPurpose, s.digesting)
	}
	return s
}

// Close closes the connection.
func (s *Store) Close() { s.connection.Close() }

// Put keeps an answer.
func (s *Store) Put(ctx context.Context, a *recall.Answer) error {
	settings := s.options.Settings()
	text, err := encode(a)
	if err != nil {
		return err
	}
	if answers.TooLarge(settings, len(text)) {
		return recall.ErrTooLarge
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := s.connection.Connect(ctx)
	if err != nil {
		return err
	}
	owner := accountOf(a.Owner)
	key := owner.key(a.ID)
	value := s.seal(key, text)
	has, gone, err := s.trim(ctx, client, owner, a.ID, len(value)+entrySize, int64(settings.MaxBytes))
	if err != nil {
		return err
	}
	commands := append(owner.removal(client, gone),
		client.B().Set().Key(key).Value(value).Px(settings.TTL.Std()).Build())
	if err := firstError(client.DoMulti(ctx, commands...)); err != nil {
		return err
	}
	return s.makeRoom(ctx, client, owner, has)
}

// Get returns answers of an owner.
func (s *Store) Get(ctx context.Context, owner recall.Owner, ids ...string) ([]*recall.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := s.connection.Connect(ctx)
	if err != nil {
		return nil, err
	}
	account := accountOf(owner)
	commands := make(rueidis.Commands, 0, len(ids))
	for _, id := range ids {
		commands = append(commands, client.B().Get().Key(account.key(id)).Build())
	}
	found := make([]*recall.Answer, len(ids))
	var used []string
	for i, reply := range client.DoMulti(ctx, commands...) {
		text, err := reply.ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if found[i] = s.read(owner, ids[i], text); found[i] == nil {
			continue
		}
		used = append(used, ids[i])
	}
	s.prolong(ctx, client, account, used)
	return found, nil
}

// read returns the answer of an owner from a text in Redis, nil if it belongs to another
// one. It logs an answer that somebody else changed, moved or added.
func (s *Store) read(owner recall.Owner, id, text string) *recall.Answer {
	opened, isGood := s.open(accountOf(owner).key(id), text)
	if !isGood {
		s.warn(owner, id)
		return nil
	}
	value, err := decode(opened)
	if err != nil || value.Issue != owner.Issue {
		return nil
	}
	return value.answer(owner, id)
}

// warn logs that an answer was refused.
func (s *Store) warn(owner recall.Owner, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.warned) >= warnEvery {
		s.warned = now
		s.options.Log.Warn("a kept response is refused: it was not stored by a gateway with this master key for this "+
			"owner, or was changed since", "id", id, "key_id", owner.Key)
	}
}

// prolong keeps answers of an owner for as long as if they were new. An answer that was
// found is one also where this fails.
func (s *Store) prolong(ctx context.Context, client rueidis.Client, a account, ids []string) {
	if len(ids) == 0 {
		return
	}
	ttl, now := s.options.Settings().TTL.Std().Milliseconds(), float64(time.Now().UnixMilli())
	share, total := a.share(), a.total()
	noted := client.B().Zadd().Key(share[0]).Xx().ScoreMember()
	var commands rueidis.Commands
	for _, id := range ids {
		noted = noted.ScoreMember(now, id)
		commands = append(commands, client.B().Pexpire().Key(a.key(id)).Milliseconds(ttl).Build())
	}
	commands = append(commands, noted.Build(), client.B().Zadd().Key(total[2]).Xx().ScoreMember().ScoreMember(now,
		a.name).Build())
	for _, key := range append(share, total...) {
		commands = append(commands, client.B().Pexpire().Key(key).Milliseconds(ttl).Build())
	}
	client.DoMulti(ctx, commands...)
}

// Delete removes an answer.
func (s *Store) Delete(ctx context.Context, owner recall.Owner, id string) (bool, error) {
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
	account := accountOf(owner)
	n, err := client.Do(ctx, client.B().Del().Key(account.key(id)).Build()).AsInt64()
	if err != nil || n == 0 {
		return false, err
	}
	has, gone, err := s.trim(ctx, client, account, id, -1, int64(s.options.Settings().MaxBytes))
	if err == nil {
		err = firstError(client.DoMulti(ctx, account.removal(client, gone)...))
	}
	if err == nil {
		err = s.makeRoom(ctx, client, account, has)
	}
	return true, err
}
