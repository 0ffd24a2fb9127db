// Package redisstore is the counter of the quota ledger that several gateways
// share: Redis or anything that speaks its protocol, alone, behind sentinels or
// as a cluster.
//
// The rows of one window are fields of a few hashes, one for each group of
// keys. All windows of a request are in the same group, so that one script call
// reaches them in a cluster too; and a reader knows the names of all hashes
// without searching for them.
package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/redis"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Store is a connection to the shared counter.
type Store struct {
	client rueidis.Client
	prefix string
	script *redis.Script
}

const (
	// groups is how many parts of a cluster the rows are spread over.
	groups = 8
	// markTime is how long a mark is kept; a new mark makes gateways push everything.
	markTime = 7 * 24 * time.Hour
	// separator stands between the parts of a field; none of them can hold it.
	separator = "\x00"
	// detailSuffix ends the field with the details of a row.
	detailSuffix = separator + "detail"
)

// pushScript stores the greater of the stored and the given totals for each field,
// and returns whether a stored total was below what was acknowledged before. It
// also returns its first argument, which identifies the reply.
//
// Details are in a field of their own, which earlier releases pass over. Their numbers
// are compared as texts, because the numbers of Lua are exact up to 2^53 only.
const pushScript = `
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
local function raise(key, field, given)
  local known = redis.call('HGET', key, field)
  if known then
    local n = 0
    for total in string.gmatch(known, '%d+') do
      n = n + 1
      if given[n] and less(given[n], total) then given[n] = total end
    end
  end
  redis.call('HSET', key, field, table.concat(given, ' '))
end
local lost = 0
for i = 1, #KEYS do
  local at = 1 + (i - 1) * 10
  local field = ARGV[at + 1]
  local requests, tokens = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local known = redis.call('HGET', KEYS[i], field)
  local knownRequests, knownTokens = 0, 0
  if known then
    local r, t = string.match(known, '^(%d+) (%d+)$')
    knownRequests, knownTokens = tonumber(r) or 0, tonumber(t) or 0
  end
  if knownRequests < tonumber(ARGV[at + 4]) or knownTokens < tonumber(ARGV[at + 5]) then
    lost = 1
  end
  if requests > knownRequests or tokens > knownTokens then
    redis.call('HSET', KEYS[i], field, string.format('%.0f %.0f', math.max(requests, knownRequests), math.max(tokens, knownTokens)))
    redis.call('EXPIREAT', KEYS[i], ARGV[at + 6])
  end
  if ARGV[at + 7] ~= '' then
    raise(KEYS[i], field .. ARGV[at + 7], {ARGV[at + 8], ARGV[at + 9], ARGV[at + 10]})
    redis.call('EXPIREAT', KEYS[i], ARGV[at + 6])
  end
end
return {ARGV[1], lost}
`

// Open connects to the store at an address, until the context ends. Errors never
// contain the address, which may hold a password.
func Open(ctx context.Context, address, prefix string) (*Store, error) {
	client, err := redis.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	return &Store{client: client, prefix: prefix, script: redis.NewScript(pushScript)}, nil
}

// Close closes the connection.
func (s *Store) Close() { s.client.Close() }

// Push stores rows and reports whether the store had less than it acknowledged.
func (s *Store) Push(ctx context.Context, rows []quota.Push) (lost bool, err error) {
	var keys, args [groups][]string
	nonce := rand.Text()
	for i := range rows {
		row := &rows[i]
		g := groupOf(&row.Key)
		if args[g] == nil {
			args[g] = append(args[g], nonce)
		}
		keys[g] = append(keys[g], s.hash(g, row.Window, row.Start))
		args[g] = append(args[g], fieldOf(&row.Row), number(row.Requests), number(row.Tokens),
			number(row.SeenRequests), number(row.SeenTokens), number(row.Expire.Unix()))
		if row.Detail == (quota.Detail{}) && row.SeenDetail == (quota.Detail{}) {
			args[g] = append(args[g], "", "", "", "")
		} else {
			args[g] = append(args[g], detailSuffix, number(row.Prompt), number(row.Completion), number(row.Cost))
		}
	}
	// All groups at once: the client sends them together, and far stores cost one
	// round trip.
	var less [groups]bool
	var failed [groups]error
	var calls sync.WaitGroup
	for g := range keys {
		if keys[g] != nil {
			calls.Go(func() { less[g], failed[g] = s.run(ctx, keys[g], args[g]) })
		}
	}
	calls.Wait()
	return slices.Contains(less[:], true), errors.Join(failed[:]...)
}

// run calls the script for one group.
func (s *Store) run(ctx context.Context, keys, args []string) (lost bool, err error) {
	reply, err := s.script.Run(ctx, s.client, redis.Call{Keys: keys, Args: args})[0].ToArray()
	if err != nil {
		return false, err
	}
	return readReply(reply, args[0])
}

var errForeignReply = errors.New("the reply of Redis belongs to another request")

func readReply(reply []rueidis.RedisMessage, nonce string) (lost bool, err error) {
	if len(reply) != 2 {
		return false, errForeignReply
	}
	if echo, err := reply[0].ToString(); err != nil || echo != nonce {
		return false, errForeignReply
	}
	less, err := reply[1].AsInt64()
	return less != 0, err
}

// Read returns every row of the windows that begin at these moments.
func (s *Store) Read(ctx context.Context, windows []quota.CalendarWindow) ([]quota.Row, error) {
	var commands rueidis.Commands
	for _, w := range windows {
		for g := range groups {
			commands = append(commands, s.client.B().Hgetall().Key(s.hash(g, w.Window, w.Start)).Build())
		}
	}
	if len(commands) == 0 {
		return nil, nil
	}
	var rows []quota.Row
	for i, reply := range s.client.DoMulti(ctx, commands...) {
		fields, err := reply.AsStrMap()
		if err != nil {
			return nil, err
		}
		for field, value := range fields {
			if row, ok := readField(field, value); ok {
				row.Window, row.Start = windows[i/groups].Window, windows[i/groups].Start.UTC()
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

// markScript stores a mark under every key that has none, and returns the marks of all.
const markScript = `
local marks = {}
for i, key in ipairs(KEYS) do
  redis.call('SET', key, ARGV[1], 'NX', 'EX', ARGV[2])
  marks[i] = redis.call('GET', key)
end
return marks
`

// Mark stores a mark in every group that has none, and returns the marks of all. That is one
// command, or one for each group where they may be in several parts of a cluster.
func (s *Store) Mark(ctx context.Context, mark string) (string, error) {
	// With its text, so that it takes one round trip, as a request does.
	var keys [][]string
	for g := range groups {
		if g == 0 || s.client.Mode() == rueidis.ClientModeCluster {
			keys = append(keys, nil)
		}
		keys[len(keys)-1] = append(keys[len(keys)-1], s.mark(g))
	}
	commands := make(rueidis.Commands, len(keys))
	for i, some := range keys {
		commands[i] = s.client.B().Eval().Script(markScript).Numkeys(int64(len(some))).Key(some...).Arg(mark, number(int64(markTime/time.Second))).Build()
	}
	var marks []string
	for _, reply := range s.client.DoMulti(ctx, commands...) {
		some, err := reply.AsStrSlice()
		if err != nil {
			return "", err
		}
		marks = append(marks, some...)
	}
	return strings.Join(marks, "."), nil
}

func (s *Store) mark(group int) string { return fmt.Sprintf("%s:{q%d}:mark", s.prefix, group) }

// hash returns the name of the hash with the rows of a group in a window.
func (s *Store) hash(group int, w quota.Window, start time.Time) string {
	return fmt.Sprintf("%s:{q%d}:%s:%s", s.prefix, group, w, start.UTC().Format("20060102150405"))
}

// groupOf returns the group of a key, which is the same in every gateway.
func groupOf(key *quota.Key) int {
	h := fnv.New32a()
	for _, part := range [...]string{key.Tenant, key.APIKey, key.User, key.Service.String(), key.Model} {
		_, _ = h.Write([]byte(part)) // it never fails
		_, _ = h.Write([]byte(separator))
	}
	return int(h.Sum32() % groups)
}

func fieldOf(row *quota.Row) string {
	k := &row.Key
	return strings.Join([]string{row.Writer, k.Tenant, k.APIKey, k.User, k.Service.String(), k.Model}, separator)
}

// readField reads a field: the requests and tokens of a row, or its details, which are
// a row of the same writer and are merged with it by readers.
func readField(field, value string) (quota.Row, bool) {
	plain, isDetail := strings.CutSuffix(field, detailSuffix)
	parts, numbers := strings.Split(plain, separator), strings.Split(value, " ")
	if len(parts) != 6 || isDetail && len(numbers) != 3 || !isDetail && len(numbers) != 2 {
		return quota.Row{}, false
	}
	service, err := schema.ParseServiceType(parts[4])
	row := quota.Row{Writer: parts[0], Key: quota.Key{Tenant: parts[1], APIKey: parts[2], User: parts[3], Service: service, Model: parts[5]}}
	to := []*int64{&row.Requests, &row.Tokens}
	if isDetail {
		to = []*int64{&row.Prompt, &row.Completion, &row.Cost}
	}
	for i, text := range numbers {
		var wrong error
		*to[i], wrong = strconv.ParseInt(text, 10, 64)
		err = errors.Join(err, wrong)
	}
	return row, err == nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
