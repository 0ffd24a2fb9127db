package redisanswers

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/store/takeover"
)

const (
	// scanned is how many keys Redis looks at for each step of takeOver.
	scanned = 500
	// stepTime bounds one step, and tryAgain is the time between two attempts.
	stepTime = 10 * time.Second
	tryAgain = 5 * time.Second
	// markKey has the mark that all answers are sealed, for gateways that share nothing
	// else; its text is signed for markText.
	markKey  = prefix + "taken-over"
	markText = "kept responses are sealed"
)

// takeOver seals the answers of the release before, until all are sealed or the context
// ends.
func (s *Store) takeOver(ctx context.Context) {
	for {
		err := s.sealAll(ctx)
		if err == nil {
			err = s.options.Takeovers.Finish(ctx, takeover.Responses)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		s.options.Log.Debug("kept responses cannot be taken over now", "error", err)
		if waiting.Pause(ctx, tryAgain) != nil {
			return
		}
	}
}

// sealAll seals all answers that are plain, unless the mark says that none is.
func (s *Store) sealAll(ctx context.Context) error {
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	mark, err := client.Do(ctx, client.B().Get().Key(markKey).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	if s.options.Keys.Verify(mark, markText) == nil {
		return nil
	}
	for _, node := range client.Nodes() {
		for cursor := uint64(0); ; {
			if cursor, err = s.sealSome(ctx, client, node, cursor); err != nil {
				return err
			}
			if cursor == 0 {
				break
			}
		}
	}
	return client.Do(ctx, client.B().Set().Key(markKey).Value(s.options.Keys.Sign(markText)).Build()).Error()
}

func (s *Store) connect(ctx context.Context) (rueidis.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	return s.connection.Connect(ctx)
}

// sealSome seals the answers that it finds from a place on, and returns the next place, 0
// at the end.
func (s *Store) sealSome(ctx context.Context, client, node rueidis.Client, cursor uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	found, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(prefix+"*").Count(scanned).Build()).AsScanEntry()
	if err != nil {
		return 0, err
	}
	for _, key := range found.Elements {
		if !isAnswer(key) {
			continue
		}
		text, err := client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			continue // its time has come
		}
		if err != nil {
			return 0, err
		}
		if isPlain(text) {
			if err := s.reseal(ctx, client, key, text); err != nil {
				return 0, err
			}
		}
	}
	return found.Cursor, nil
}

// isAnswer reports whether a key holds an answer, and not a count.
func isAnswer(key string) bool {
	length, rest, found := strings.Cut(strings.TrimPrefix(key, prefix), ":")
	n, err := strconv.Atoi(length)
	return found && err == nil && n >= 0 && n < len(rest) && rest[n] == ':'
}

// reseal seals a plain answer in its place, for the owner that it names. It does not come
// back if it was removed meanwhile, and stays for as long as it would have.
func (s *Store) reseal(ctx context.Context, client rueidis.Client, key, text string) error {
	value, err := decode(text)
	if err != nil {
		return nil // nobody can read it either way
	}
	sealed := s.seal(key, value.Issue, []byte(text))
	err = client.Do(ctx, client.B().Set().Key(key).Value(sealed).Xx().Keepttl().Build()).Error()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}
