package redisanswers

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/request/recall"
	"github.com/patchbay-ai/patchbay/internal/store/redis"
)

//go:embed share.lua
var shareSource string

//go:embed total.lua
var totalSource string

const (
	// entrySize is about the memory that Redis needs for an answer besides its text.
	entrySize = 500
	// rounds bounds the tries to make room, and to put the counts right, for one answer;
	// the next one goes on.
	rounds = 8
	// askEvery is how often Redis is asked how much memory it may have. All answers
	// together take at most one part in memoryPart of that.
	askEvery   = time.Minute
	memoryPart = 2
)

// account is the unit that an owner is counted as: a key, whoever has its id, and the group
// that is weighed against other groups.
type account struct{ name, group string }

func accountOf(owner recall.Owner) account {
	a := account{name: nameOf(owner.Key), group: "key " + owner.Key}
	if owner.Tenant != "" {
		a.group = "tenant " + owner.Tenant
	}
	return a
}

// nameOf returns the id of a key with its length, which keeps owners apart whatever the id
// and the text behind it contain.
func nameOf(key string) string { return strconv.Itoa(len(key)) + ":" + key }

// share returns the keys of the notes about an owner: when each answer was used last, and
// how large they are. Both are in the same part of a cluster.
func (a account) share() []string {
	base := prefix + "of:{" + a.name + "}:"
	return []string{base + "used", base + "bytes"}
}

// total returns the keys of the notes about all owners, which are in the same part of a
// cluster as well; see total.lua.
func (a account) total() []string {
	const base = prefix + "{all}:"
	return []string{base + "groups", base + "owners", base + "used", base + "of", groupKey(a.group)}
}

func groupKey(group string) string { return prefix + "{all}:group:" + group }

// trim notes the size of an answer of an account, -1 if it is no longer kept and an empty
// id if nothing has changed. It returns how many bytes the account has then, and the
// answers that have to give way to bring it below the most.
func (s *Store) trim(ctx context.Context, client rueidis.Client, a account, id string, bytes int,
	most int64) (has int64, gone []string, err error) {
	settings := s.options.Settings()
	gone, err = redis.Run(ctx, client, redis.Call{Script: s.share, Keys: a.share(), Args: []string{
		number(time.Now().UnixMilli()), number(settings.TTL.Std().Milliseconds()), id, strconv.Itoa(bytes),
		number(most), strconv.Itoa(settings.MaxResponses),
	}})[0].AsStrSlice()
	if err != nil || len(gone) == 0 {
		return 0, nil, err
	}
	has, err = strconv.ParseInt(gone[0], 10, 64)
	return has, gone[1:], err
}

// removal returns the commands that remove answers of an account.
func (a account) removal(client rueidis.Client, ids []string) rueidis.Commands {
	var commands rueidis.Commands
	for _, id := range ids {
		commands = append(commands, client.B().Del().Key(a.key(id)).Build())
	}
	return commands
}

// key returns the key of an answer.
func (a account) key(id string) string { return prefix + a.name + ":" + id }

// makeRoom notes the size of an account, and removes the surplus of others, or its own: the
// oldest answers of whoever has the most.
func (s *Store) makeRoom(ctx context.Context, client rueidis.Client, a account, has int64) error {
	for range rounds {
		sum, fullest, stale, err := s.count(ctx, client, a, has)
		if err != nil {
			return err
		}
		if stale.name != "" {
			wrong := account{stale.name, stale.group}
			if _, _, _, err := s.count(ctx, client, wrong, 0); err != nil {
				return err
			}
			continue
		}
		excess := sum - s.most(ctx, client)
		if excess <= 0 || fullest == "" {
			return nil
		}
		if a, has, err = s.shrink(ctx, client, fullest, excess); err != nil || a.name == "" {
			return err
		}
	}
	return nil
}

// count notes how many bytes an account has. It returns the sum of all, the group with the
// most, and an account with a wrong count: it has nothing.
func (s *Store) count(ctx context.Context, client rueidis.Client, a account,
	has int64) (sum int64, fullest string, wrong account, err error) {
	reply, err := redis.Run(ctx, client, redis.Call{Script: s.total, Keys: a.total(), Args: []string{
		number(time.Now().UnixMilli()), number(s.options.Settings().TTL.Std().Milliseconds()), a.name, a.group,
		number(has),
	}})[0].AsStrSlice()
	if err != nil {
		return 0, "", account{}, err
	}
	if len(reply) != 4 { //nolint:mnd // what total.lua returns
		return 0, "", account{}, errors.New("the counts of kept responses cannot be read")
	}
	sum, err = strconv.ParseInt(reply[0], 10, 64)
	return sum, reply[1], account{name: reply[2], group: reply[3]}, err
}

// shrink removes the oldest answers of the account that has the most in a group. It returns
// that account, empty if there is none, and its remaining bytes.
func (s *Store) shrink(ctx context.Context, client rueidis.Client, group string, excess int64) (account, int64, error) {
	fullest, err := client.Do(ctx, client.B().Zrevrange().Key(groupKey(group)).Start(0).Stop(
		0).Withscores().Build()).AsZScores()
	if err != nil || len(fullest) == 0 {
		return account{}, 0, err
	}
	a := account{name: fullest[0].Member, group: group}
	has, gone, err := s.trim(ctx, client, a, "", -1, max(0, int64(fullest[0].Score)-excess))
	if err != nil {
		return account{}, 0, err
	}
	return a, has, firstError(client.DoMulti(ctx, a.removal(client, gone)...))
}

func firstError(replies []rueidis.RedisResult) error {
	for _, reply := range replies {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// most returns how many bytes all answers may have: the configured bound, and not more than
// a part of the memory that Redis may have.
func (s *Store) most(ctx context.Context, client rueidis.Client) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.asked) >= askEvery {
		s.asked = now
		s.memory = memoryOf(ctx, client)
	}
	most := int64(s.options.Settings().MaxSharedBytes)
	if s.memory > 0 {
		most = min(most, s.memory/memoryPart)
	}
	return most
}

// memoryOf returns how much memory Redis may have, that server of a cluster which may have the
// least; 0 if there is no bound, or if it does not say.
func memoryOf(ctx context.Context, client rueidis.Client) int64 {
	least := int64(0)
	for _, node := range client.Nodes() {
		text, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			value, found := strings.CutPrefix(line, "maxmemory:")
			if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); found && err == nil && n > 0 &&
				(least == 0 || n < least) {
				least = n
			}
		}
	}
	return least
}
