// Package redisbudget is the store in Redis through which gateways share budgets.
package redisbudget

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/budget"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/redis"
)

// Store is a connection to the budgets in Redis. What each gateway has committed is a field
// of one hash for each account and window.
type Store struct {
	client  rueidis.Client
	prefix  string
	changes string // the key that counts what was told
	commit  *redis.Script
}

const (
	// commitScript stores what a gateway has committed, unless there is something newer,
	// and returns what all have. What of it is reserved is a field of its own with one part
	// more, which gateways of the release before pass over.
	commitScript = `
local known = redis.call('HGET', KEYS[1], ARGV[1])
local order = -1
if known then order = tonumber(string.match(known, '^(%d+) ')) or -1 end
if tonumber(ARGV[2]) > order then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
  if ARGV[5] == '' then
    redis.call('HDEL', KEYS[1], ARGV[1] .. ':reserved')
  else
    redis.call('HSET', KEYS[1], ARGV[1] .. ':reserved', ARGV[2] .. ' ' .. ARGV[5] .. ' reserved')
  end
  redis.call('EXPIREAT', KEYS[1], ARGV[4])
end
return redis.call('HGETALL', KEYS[1])
`
	// keepBudget is how long commitments are kept after the end of their window.
	keepBudget = time.Hour
)

// Open connects to the store at an address, until the context ends. Changes is the key that
// is incremented when a gateway has told something new.
func Open(ctx context.Context, address, prefix, changes string) (*Store, error) {
	client, err := redis.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	return &Store{client, prefix + ":budget", changes, redis.NewScript(commitScript)}, nil
}

// Close closes the connection.
func (s *Store) Close() { s.client.Close() }

// Commit stores what a gateway has committed and returns what all have.
func (s *Store) Commit(ctx context.Context, gateway string, own []budget.Commitment) ([]map[string]budget.Committed, error) {
	calls := make([]redis.Call, len(own))
	for i, c := range own {
		calls[i] = redis.Call{Keys: []string{s.hash(&c)}, Args: []string{
			gateway, number(c.Order), writeAmounts(c.Amounts), number(c.Window.End(c.Start).Add(keepBudget).Unix()), writeReserved(c.Reserved),
		}}
	}
	// Both at once: the client sends them together. Readers read twice, so that the order
	// does not matter.
	var counting sync.WaitGroup
	var counted error
	if slices.ContainsFunc(own, func(c budget.Commitment) bool { return c.IsNew }) {
		counting.Go(func() { counted = s.client.Do(ctx, s.client.B().Incr().Key(s.changes).Build()).Error() })
	}
	replies := s.commit.Run(ctx, s.client, calls...)
	if counting.Wait(); counted != nil {
		return nil, counted
	}
	all := make([]map[string]budget.Committed, len(own))
	for i, reply := range replies {
		fields, err := reply.AsStrMap()
		if err != nil {
			return nil, err
		}
		all[i] = make(map[string]budget.Committed, len(fields))
		for name, value := range fields {
			if committed, ok := readCommitted(value); ok {
				committed.Reserved = readReserved(fields[name+reservedSuffix], committed.Order)
				all[i][name] = committed
			}
		}
	}
	return all, nil
}

func (s *Store) hash(c *budget.Commitment) string {
	start := c.Start.UTC().Format("20060102")
	if c.Window == quota.BudgetTotal {
		start = "all"
	}
	return fmt.Sprintf("%s:{%s}:%s:%s", s.prefix, c.Account, c.Window, start)
}

// reservedSuffix is what the field of reservations has behind the name of the gateway, and
// the last part of its value.
const reservedSuffix, reservedMark = ":reserved", " reserved"

// writeReserved returns the reservations of a gateway, or nothing where it has none.
func writeReserved(a budget.Amounts) string {
	if a == (budget.Amounts{}) {
		return ""
	}
	return writeAmounts(a)
}

// readReserved reads the field of reservations. One of another order belongs to something
// else that the gateway committed, and none means that nothing is reserved.
func readReserved(value string, order int64) budget.Amounts {
	text, _ := strings.CutSuffix(value, reservedMark)
	if reserved, ok := readCommitted(text); ok && reserved.Order == order {
		return reserved.Amounts
	}
	return budget.Amounts{}
}

func writeAmounts(a budget.Amounts) string {
	return number(a[budget.Requests]) + " " + number(a[budget.Tokens]) + " " + number(a[budget.Cost])
}

// readCommitted reads the value of a field: the order, and the amounts.
func readCommitted(value string) (c budget.Committed, ok bool) {
	parts := strings.Split(value, " ")
	if len(parts) != len(c.Amounts)+1 {
		return c, false
	}
	numbers := make([]int64, len(parts))
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return c, false
		}
		numbers[i] = n
	}
	c.Order = numbers[0]
	copy(c.Amounts[:], numbers[1:])
	return c, true
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
