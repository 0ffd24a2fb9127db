package registry

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/cluster"
	"github.com/patchbay-ai/patchbay/internal/redis"
)

// Redis is the list of gateways that share no configuration, but Redis.
type Redis struct {
	client rueidis.Client
	key    string
}

// announceScript stores a member with the time of the server, removes the old ones, and
// returns all with their age in milliseconds. Its arguments are id, record, and for how
// long in milliseconds and how many are kept.
const announceScript = `
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local keep, most = tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now) .. ' ' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], keep)
local all = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local at, record = string.match(flat[i + 1], '^(%d+) (.*)$')
  if at then all[#all + 1] = {flat[i], now - tonumber(at), record} else redis.call('HDEL', KEYS[1], flat[i]) end
end
table.sort(all, function(a, b) return a[2] < b[2] end)
local reply = {}
for i, member in ipairs(all) do
  if member[2] > keep or i > most then
    redis.call('HDEL', KEYS[1], member[1])
  else
    reply[#reply + 1] = string.format('%.0f', member[2])
    reply[#reply + 1] = member[3]
  end
end
return reply
`

// OpenRedis connects to the list in the Redis at an address. Errors never contain the
// address, which may hold a password.
func OpenRedis(ctx context.Context, address, prefix string) (*Redis, error) {
	client, err := redis.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	return &Redis{client: client, key: prefix + ":members"}, nil
}

// Announce stores a member and returns all.
func (r *Redis) Announce(ctx context.Context, self cluster.Member) ([]cluster.Seen, error) {
	record, err := json.Marshal(self)
	if err != nil {
		return nil, err
	}
	reply, err := r.client.Do(ctx, r.client.B().Eval().Script(announceScript).Numkeys(1).Key(r.key).
		Arg(self.ID, string(record), strconv.FormatInt(cluster.KeepFor.Milliseconds(), 10), strconv.Itoa(cluster.MaxMembers)).Build()).AsStrSlice()
	if err != nil {
		return nil, err
	}
	if len(reply)%2 != 0 {
		return nil, errors.New("redis gave a reply that is not one of the script's")
	}
	var all []cluster.Seen
	for i := 0; i < len(reply); i += 2 {
		ago, err := strconv.ParseInt(reply[i], 10, 64)
		if err != nil {
			return nil, err
		}
		all = appendSeen(all, []byte(reply[i+1]), time.Duration(ago)*time.Millisecond)
	}
	return all, nil
}

// Leave removes a member.
func (r *Redis) Leave(ctx context.Context, id string) error {
	return r.client.Do(ctx, r.client.B().Hdel().Key(r.key).Field(id).Build()).Error()
}

// Close closes the connection.
func (r *Redis) Close() { r.client.Close() }
