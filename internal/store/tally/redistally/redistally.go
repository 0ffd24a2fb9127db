// Package redistally keeps the state that gateways share in Redis, or in anything that
// speaks its protocol, alone, behind sentinels or as a cluster.
//
// A limit is a hash. A mark says how long the store has had its data, and a hash lists the
// gateways that were heard of. One script does everything that an exchange does to a limit,
// the mark and the list, so all of them are in the same part of a cluster. A sheet of totals
// is a hash in any part of it, with a script of its own.
package redistally

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/store/redis"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

//go:embed exchange.lua
var exchangeSource string

//go:embed totals.lua
var totalsSource string

// script returns the script with the times that tally defines.
func script() string {
	text := exchangeSource
	for name, value := range map[string]time.Duration{
		"SILENT_US": tally.SilentAfter, "FORGET_US": tally.ForgetAfter, "SETTLE_US": tally.SettleTime,
		"PROBATION_US": tally.ProbationTime, "LEASE_US": tally.LeaseTime,
	} {
		text = strings.Replace(text, name, strconv.FormatInt(value.Microseconds(), 10), 1)
	}
	return text
}

// Store is a connection to the shared state in Redis. One goroutine uses it, except for
// Tell.
type Store struct {
	client rueidis.Client
	prefix string
	member string
	script *redis.Script
	totals *redis.Script
	epoch  string        // as it was seen last
	clock  func() string // returns the time of an exchange; empty means the time of Redis
}

// Open connects a gateway to the store at an address, until the context ends. The
// member is the gateway's id. Errors never contain the address, which may hold a
// password.
func Open(ctx context.Context, address, prefix, member string) (*Store, error) {
	client, err := redis.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	return &Store{
		client: client, prefix: prefix, member: member,
		script: redis.NewScript(script()), totals: redis.NewScript(totalsSource), clock: func() string { return "" },
	}, nil
}

// Close closes the connection.
func (s *Store) Close() { s.client.Close() }

// Ping reports whether the store takes writes: a replica, or a Redis without memory,
// answers and refuses them.
func (s *Store) Ping(ctx context.Context) error {
	const kept = 10 * time.Second
	return s.client.Do(ctx, s.client.B().Set().Key(s.key("probe")).Value(s.member).Px(kept).Build()).Error()
}

// Leave removes this gateway from the members.
func (s *Store) Leave(ctx context.Context) error {
	return s.client.Do(ctx, s.client.B().Hdel().Key(s.key("members")).Field(s.member).Build()).Error()
}

// Exchange runs the script for each ask, or once where there is none. All of them are sent
// together.
func (s *Store) Exchange(
	ctx context.Context, members int, asks []tally.Ask,
) (tally.Presence, []tally.Grant, error) {
	calls := make([]redis.Call, max(1, len(asks)))
	for i := range calls {
		calls[i] = redis.Call{
			Script: s.script,
			Keys:   []string{s.key("mark"), s.key("members"), s.key("changes")},
			Args:   []string{s.clock(), s.member, s.epoch, rand.Text(), strconv.Itoa(members)},
		}
		if i < len(asks) {
			calls[i].Keys = append(calls[i].Keys, s.key("limit:"+asks[i].Name))
			calls[i].Args = append(calls[i].Args, arguments(&asks[i])...)
		}
	}
	var presence tally.Presence
	grants := make([]tally.Grant, len(asks))
	replies := redis.Run(ctx, s.client, calls...)
	for i, reply := range replies {
		fields, err := reply.ToArray()
		if err != nil {
			return presence, nil, refusal(err, replies)
		}
		grant, seen, err := readReply(fields, i < len(asks))
		if errors.Is(err, errDelayed) {
			// One at a time is under way, so the store has something else. The lease begins anew.
			grant = tally.Grant{Capacity: float64(asks[i].Capacity), Rate: float64(asks[i].Rate)}
		} else if err != nil {
			return presence, nil, err
		}
		s.epoch, presence = seen.Epoch, seen
		if i < len(asks) {
			grants[i] = grant
		}
	}
	return presence, grants, nil
}

// refusal returns the error of an exchange. If Redis has refused all of it, it was heard by
// nobody.
func refusal(err error, replies []rueidis.RedisResult) error {
	for _, reply := range replies {
		if _, isRedis := rueidis.IsRedisErr(reply.Error()); !isRedis {
			return err
		}
	}
	return fmt.Errorf("%w: %w", tally.ErrRefused, err)
}

// Tell stores totals, with one command for each sheet, sends all commands together, and counts
// news. A sheet that is only read takes no script, which would have to copy all of it. The
// parts of a cluster keep no order among each other, and a Redis that does not know the script
// counts news before it stores totals, so readers of news read twice, and each sheet is named
// once.
func (s *Store) Tell(ctx context.Context, sheets []tally.Sheet, isNews bool) ([]map[string]string, error) {
	calls := make([]redis.Call, len(sheets), len(sheets)+1)
	for i := range sheets {
		sheet := &sheets[i]
		calls[i] = redis.Call{Name: "HGETALL", Keys: []string{sheet.Name}}
		if len(sheet.Totals) == 0 && sheet.IsRead {
			continue
		}
		calls[i].Script = s.totals
		calls[i].Args = []string{integer(sheet.Expire.Unix()), flag(sheet.IsOrdered), flag(sheet.IsRead)}
		for _, total := range sheet.Totals {
			calls[i].Args = append(calls[i].Args, total.Writer, total.Numbers, total.Instead)
		}
	}
	if isNews {
		calls = append(calls, redis.Call{Name: "INCR", Keys: []string{s.key("changes")}})
	}
	replies := redis.Run(ctx, s.client, calls...)
	told := make([]map[string]string, len(sheets))
	for i := range replies {
		if err := replies[i].Error(); err != nil && !isWrongType(err) {
			return nil, err
		}
		if i == len(sheets) || !sheets[i].IsRead {
			continue
		}
		if isWrongType(replies[i].Error()) {
			told[i] = map[string]string{}
			continue
		}
		all, err := replies[i].AsStrMap()
		if err != nil {
			return nil, err
		}
		told[i] = all
	}
	return told, nil
}

// isWrongType reports whether a place that is only read is not one of ours.
func isWrongType(err error) bool {
	answer, isRedis := rueidis.IsRedisErr(err)
	return isRedis && strings.HasPrefix(answer.Error(), "WRONGTYPE")
}

// IsSpread reports whether the store is a cluster.
func (s *Store) IsSpread() bool { return s.client.Mode() == rueidis.ClientModeCluster }

func flag(isSet bool) string {
	if isSet {
		return "1"
	}
	return ""
}

func arguments(a *tally.Ask) []string {
	return []string{
		strconv.Itoa(a.Capacity), strconv.Itoa(a.Rate),
		integer(a.Window.Microseconds()), integer(a.WarmUp.Microseconds()),
		a.Epoch, integer(a.Granted), integer(a.Number), integer(a.Returned), integer(a.Spent), integer(a.Own),
		integer(a.Outstanding), integer(a.Want), times(a.Times), integer(a.Need),
	}
}

// times writes when permits were spent.
func times(all []tally.Time) string {
	var text []byte
	for _, one := range all {
		text = strconv.AppendInt(text, one.Ago.Microseconds(), 10)
		text = strconv.AppendInt(append(text, ':'), one.Permits, 10)
		text = append(text, ' ')
	}
	return string(text)
}

var (
	errReply   = errors.New("redis gave a reply that is not one of the script's")
	errDelayed = errors.New("redis took an exchange for one that was delayed")
)

func readReply(fields []rueidis.RedisMessage, isAsk bool) (grant tally.Grant, presence tally.Presence, err error) {
	const short, whole = 4, 10
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
	presence = tally.Presence{
		Epoch: grant.Epoch, Members: int(numbers[1]), Silent: int(numbers[2]), Changes: int64(numbers[3]),
	}
	if !isAsk {
		return grant, presence, nil
	}
	if numbers[4] < 0 {
		return grant, presence, errDelayed
	}
	grant.Permits, grant.Granted = int64(numbers[4]), int64(numbers[9])
	grant.Left, grant.Capacity, grant.Rate = numbers[5], numbers[6], numbers[7]
	grant.Retry = time.Duration(numbers[8]) * time.Microsecond
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

// key returns the name of a key. All keys are in the same part of a cluster.
func (s *Store) key(name string) string { return s.prefix + ":{tally}:" + name }

func integer(n int64) string { return strconv.FormatInt(n, 10) }
