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

// Call is one command: a run of a Script, or the command with this Name where there is none.
type Call struct {
	Script     *Script
	Name       string
	Keys, Args []string
}

// Run sends all calls together and returns the replies in the same order. It sends the
// text of a script only to a Redis that does not know it, which takes a second round
// trip.
func Run(ctx context.Context, client rueidis.Client, calls ...Call) []rueidis.RedisResult {
	commands := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		if c.Script == nil {
			commands[i] = client.B().Arbitrary(c.Name).Keys(c.Keys...).Args(c.Args...).Build()
		} else {
			commands[i] = client.B().Evalsha().Sha1(c.Script.sha).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(
				c.Args...).Build()
		}
	}
	replies := client.DoMulti(ctx, commands...)
	var unknown []int
	commands = nil
	for i, c := range calls {
		if err, isRedis := rueidis.IsRedisErr(replies[i].Error()); isRedis && err.IsNoScript() {
			unknown = append(unknown, i)
			commands = append(commands, client.B().Eval().Script(c.Script.source).Numkeys(int64(len(c.Keys))).Key(
				c.Keys...).Arg(c.Args...).Build())
		}
	}
	if len(unknown) > 0 {
		for n, reply := range client.DoMulti(ctx, commands...) {
			replies[unknown[n]] = reply
		}
	}
	return replies
}
