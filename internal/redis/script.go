package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"

	"github.com/redis/rueidis"
)

// Script is a script that Redis runs.
type Script struct{ source, sha string }

// NewScript returns the script with this text.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return &Script{source, hex.EncodeToString(sum[:])}
}

// Call is one run of a Script.
type Call struct{ Keys, Args []string }

// Run runs the script with each call, all of which are sent together, and returns the
// replies in the same order. It sends the text of the script only to a Redis that does not
// know it, which takes a second round trip.
func (s *Script) Run(ctx context.Context, client rueidis.Client, calls ...Call) []rueidis.RedisResult {
	commands := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		commands[i] = client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build()
	}
	replies := client.DoMulti(ctx, commands...)
	var unknown []int
	commands = nil
	for i, c := range calls {
		if err, isRedis := rueidis.IsRedisErr(replies[i].Error()); isRedis && err.IsNoScript() {
			unknown = append(unknown, i)
			commands = append(commands, client.B().Eval().Script(s.source).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build())
		}
	}
	if len(unknown) > 0 {
		for n, reply := range client.DoMulti(ctx, commands...) {
			replies[unknown[n]] = reply
		}
	}
	return replies
}
