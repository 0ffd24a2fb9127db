// Package redislimit keeps the rate limits that gateways share in Redis, or in
// anything that speaks its protocol, alone, behind sentinels or as a cluster.
//
// A limit is a hash. Limits are spread over a few groups, so that they do not all
// live in the same part of a cluster. Each group has a mark, which tells how long the
// store has had its data, and a list of the gateways that were heard of. One script
// does everything that an exchange does to a limit, its mark and the list.
package redislimit

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/redis"
)

// groups is how many parts of a cluster the limits are spread over.
const groups = 4

//go:embed exchange.lua
var exchangeSource string

// script returns the script with the times that ratelimit defines.
func script() string {
	text := exchangeSource
	for name, value := range map[string]time.Duration{
		"SILENT_US": ratelimit.SilentAfter, "FORGET_US": ratelimit.ForgetAfter, "SETTLE_US": ratelimit.SettleTime,
		"PROBATION_US": ratelimit.ProbationTime, "LEASE_US": ratelimit.LeaseTime,
	} {
		text = strings.Replace(text, name, strconv.FormatInt(value.Microseconds(), 10), 1)
	}
	return text
}

// Store is a connection to the limits in Redis. One goroutine uses it.
type Store struct {
	client rueidis.Client
	prefix string
	member string
	source string         // of the script
	sha    string         // its name in Redis
	epochs [groups]string // as they were seen last
	clock  func() string  // returns the time of an exchange; empty means that of Redis
}

// Open connects a gateway to the store at an address, until the context ends. The
// member is the gateway's id. Errors never contain the address, which may hold a
// password.
func Open(ctx context.Context, address, prefix, member string) (*Store, error) {
	client, err := redis.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, prefix: prefix, member: member, source: script(), clock: func() string { return "" }}
	sum := sha1.Sum([]byte(s.source)) //nolint:gosec // Redis names scripts so
	s.sha = hex.EncodeToString(sum[:])
	return s, nil
}

// Close closes the connection.
func (s *Store) Close() { s.client.Close() }

// Ping tells whether every part of the store answers.
func (s *Store) Ping(ctx context.Context) error {
	commands := make(rueidis.Commands, groups)
	for g := range commands {
		commands[g] = s.client.B().Exists().Key(s.markOf(g)).Build()
	}
	var failed []error
	for _, reply := range s.client.DoMulti(ctx, commands...) {
		failed = append(failed, reply.Error())
	}
	return errors.Join(failed...)
}

// Leave removes this gateway from the lists.
func (s *Store) Leave(ctx context.Context) error {
	commands := make(rueidis.Commands, groups)
	for g := range commands {
		commands[g] = s.client.B().Hdel().Key(s.membersOf(g)).Field(s.member).Build()
	}
	var failed []error
	for _, reply := range s.client.DoMulti(ctx, commands...) {
		failed = append(failed, reply.Error())
	}
	return errors.Join(failed...)
}

// Exchange runs the script for each ask, and for each group without one. All of them
// are sent together.
func (s *Store) Exchange(ctx context.Context, members int, asks []ratelimit.Ask) (ratelimit.Presence, []ratelimit.Grant, error) {
	var calls []call
	covered := [groups]bool{}
	for i := range asks {
		g := group(asks[i].Name)
		covered[g] = true
		calls = append(calls, call{
			group: g,
			keys:  []string{s.markOf(g), s.membersOf(g), s.limitOf(g, asks[i].Name)},
			args:  append(s.preamble(g, members), arguments(&asks[i])...),
		})
	}
	for g := range groups {
		if !covered[g] {
			calls = append(calls, call{group: g, keys: []string{s.markOf(g), s.membersOf(g)}, args: s.preamble(g, members)})
		}
	}
	var presence ratelimit.Presence
	grants := make([]ratelimit.Grant, len(asks))
	for i, reply := range s.run(ctx, calls) {
		fields, err := reply.ToArray()
		if err != nil {
			return presence, nil, err
		}
		grant, seen, err := readReply(fields, i < len(asks))
		if err != nil {
			return presence, nil, err
		}
		s.epochs[calls[i].group] = grant.Epoch
		presence.Members, presence.Silent = max(presence.Members, seen.Members), max(presence.Silent, seen.Silent)
		if i < len(asks) {
			grants[i] = grant
		}
	}
	return presence, grants, nil
}

// call is one run of the script.
type call struct {
	group      int
	keys, args []string
}

// run runs the script, and sends its text to those parts of the store that do not know
// it.
func (s *Store) run(ctx context.Context, calls []call) []rueidis.RedisResult {
	commands := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		commands[i] = s.client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	}
	replies := s.client.DoMulti(ctx, commands...)
	for i, c := range calls {
		if err, isRedis := rueidis.IsRedisErr(replies[i].Error()); isRedis && err.IsNoScript() {
			replies[i] = s.client.Do(ctx, s.client.B().Eval().Script(s.source).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build())
		}
	}
	return replies
}

func (s *Store) preamble(g, members int) []string {
	return []string{s.clock(), s.member, s.epochs[g], rand.Text(), strconv.Itoa(members)}
}

func arguments(a *ratelimit.Ask) []string {
	return []string{
		strconv.Itoa(a.Capacity), strconv.Itoa(a.Rate), integer(a.Window.Microseconds()), integer(a.WarmUp.Microseconds()),
		a.Epoch, integer(a.Granted), integer(a.Number), integer(a.Returned), integer(a.Spent), integer(a.Own), integer(a.Outstanding), integer(a.Want),
	}
}

var (
	errReply   = errors.New("redis gave a reply that is not one of the script's")
	errDelayed = errors.New("redis took an exchange for one that was delayed")
)

func readReply(fields []rueidis.RedisMessage, isAsk bool) (grant ratelimit.Grant, presence ratelimit.Presence, err error) {
	const short, whole = 3, 9
	if !isAsk && len(fields) != short || isAsk && len(fields) != whole {
		return grant, presence, errReply
	}
	numbers := make([]float64, len(fields))
	for i := 1; i < len(fields); i++ {
		if numbers[i], err = readNumber(&fields[i]); err != nil {
			return grant, presence, errReply
		}
	}
	if grant.Epoch, err = fields[0].ToString(); err != nil {
		return grant, presence, errReply
	}
	presence = ratelimit.Presence{Members: int(numbers[1]), Silent: int(numbers[2])}
	if !isAsk {
		return grant, presence, nil
	}
	if numbers[3] < 0 {
		return grant, presence, errDelayed
	}
	grant.Permits, grant.Granted = int64(numbers[3]), int64(numbers[8])
	grant.Left, grant.Capacity, grant.Rate = numbers[4], numbers[5], numbers[6]
	grant.Retry = time.Duration(numbers[7]) * time.Microsecond
	return grant, presence, nil
}

func readNumber(field *rueidis.RedisMessage) (float64, error) {
	if field.IsInt64() {
		n, err := field.ToInt64()
		return float64(n), err
	}
	text, err := field.ToString()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

func (s *Store) markOf(g int) string    { return fmt.Sprintf("%s:{l%d}:mark", s.prefix, g) }
func (s *Store) membersOf(g int) string { return fmt.Sprintf("%s:{l%d}:members", s.prefix, g) }
func (s *Store) limitOf(g int, name string) string {
	return fmt.Sprintf("%s:{l%d}:limit:%s", s.prefix, g, name)
}

// group returns the group of a limit, which is the same in every gateway.
func group(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // it never fails
	return int(h.Sum32() % groups)
}

func integer(n int64) string { return strconv.FormatInt(n, 10) }
