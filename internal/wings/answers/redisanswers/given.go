package redisanswers

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/request/recall"
)

const (
	// givenPurpose is the purpose in the derivation of the key for the digests of ids.
	givenPurpose = "ids of accounts"
	// digestSize is how many bytes of a digest are kept.
	digestSize = 16
)

// givenKey returns the key of the ids that an owner was given: their digests by the time of
// their last use.
func (a account) givenKey() string { return prefix + "given:{" + a.name + "}" }

// digest returns the stored form of an id of an owner. With a master key nobody without it
// can add one, or move it to another owner.
func (s *Store) digest(owner recall.Owner, id string) string {
	mac := hmac.New(sha256.New, s.digesting)
	for _, part := range []string{owner.Key, owner.Issue, id} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return string(mac.Sum(nil)[:digestSize])
}

// Give notes that an owner was given ids. The store remembers as many ids of each owner as
// it keeps answers, and the ones that were unused for the longest time give way.
func (s *Store) Give(ctx context.Context, owner recall.Owner, ids ...string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := s.connection.Connect(ctx)
	if err != nil {
		return err
	}
	settings, now := s.options.Settings(), time.Now()
	key := accountOf(owner).givenKey()
	added := client.B().Zadd().Key(key).ScoreMember()
	for _, id := range ids {
		added = added.ScoreMember(float64(now.UnixMilli()), s.digest(owner, id))
	}
	return firstError(client.DoMulti(ctx, added.Build(),
		client.B().Zremrangebyscore().Key(key).Min("-inf").Max(number(now.Add(
			-settings.TTL.Std()).UnixMilli())).Build(),
		client.B().Zremrangebyrank().Key(key).Start(0).Stop(-int64(settings.MaxResponses)-1).Build(),
		client.B().Pexpire().Key(key).Milliseconds(settings.TTL.Std().Milliseconds()).Build()))
}

// Given reports which ids an owner was given.
func (s *Store) Given(ctx context.Context, owner recall.Owner, ids ...string) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := s.connection.Connect(ctx)
	if err != nil {
		return nil, err
	}
	key, digests := accountOf(owner).givenKey(), make([]string, len(ids))
	commands := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		digests[i] = s.digest(owner, id)
		commands[i] = client.B().Zscore().Key(key).Member(digests[i]).Build()
	}
	settings, now := s.options.Settings(), time.Now()
	since := float64(now.Add(-settings.TTL.Std()).UnixMilli())
	given, used := make([]bool, len(ids)), client.B().Zadd().Key(key).Xx().ScoreMember()
	for i, reply := range client.DoMulti(ctx, commands...) {
		at, err := reply.AsFloat64()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
		given[i] = err == nil && at > since
		if given[i] {
			used = used.ScoreMember(float64(now.UnixMilli()), digests[i])
		}
	}
	if slices.Contains(given, true) { // the found ids count even if this fails
		client.DoMulti(ctx, used.Build(), client.B().Pexpire().Key(key).Milliseconds(
			settings.TTL.Std().Milliseconds()).Build())
	}
	return given, nil
}
