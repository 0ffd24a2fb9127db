package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// killClient is one who talks to a gateway that will be killed.
type killClient struct {
	user   string
	sent   atomic.Int64
	whole  atomic.Int64
	tokens atomic.Int64
}

// ask sends one request and notes whether all of the answer came.
func (k *killClient) ask(ctx context.Context, base string, stream bool) bool {
	body := fmt.Sprintf(`{"model":"m","user":%q,"stream":%t,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"count me"}]}`, k.user, stream)
	if !stream {
		body = strings.Replace(body, `"stream_options":{"include_usage":true},`, "", 1)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return false
	}
	k.sent.Add(1)
	response, err := http.DefaultClient.Do(request) //nolint:forbidigo // a test's client
	if err != nil {
		return false
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	text := string(content)
	if stream {
		// Who has the mark has the answer, whatever becomes of the connection.
		if !strings.Contains(text, "data: [DONE]\n\n") {
			return false
		}
	} else if err != nil || response.StatusCode != http.StatusOK {
		return false
	}
	total := strings.LastIndex(text, `"total_tokens":`)
	if total < 0 {
		return false
	}
	digits := text[total+len(`"total_tokens":`):]
	n, _ := strconv.ParseInt(digits[:strings.IndexAny(digits, ",}")], 10, 64)
	k.whole.Add(1)
	k.tokens.Add(n)
	return true
}

// killRounds returns how often a gateway is killed: as often as a soak asks for.
func killRounds(usual int) int {
	if more, err := strconv.Atoi(os.Getenv("PATCHBAY_KILL_ROUNDS")); err == nil {
		return more
	}
	if testing.Short() {
		return 2
	}
	return usual
}

// underLoad has six clients talk to a gateway until it is killed.
func (k *killClient) underLoad(t *testing.T, c *child) (ended *sync.WaitGroup) {
	t.Helper()
	ended = new(sync.WaitGroup)
	base, before := c.url(), k.whole.Load()
	for n := range 6 {
		ended.Go(func() {
			for k.ask(gatewaytest.Deadline(t), base, n%2 == 0) {
			}
		})
	}
	gatewaytest.Eventually(t, "there is traffic", func() bool { return k.whole.Load() > before+20 })
	return ended
}

// counts says whether the ledger has what the client knows: all that was
// answered, and of the rest no more than was sent.
func (k *killClient) counts(requests, tokens int64) bool {
	whole, sent, cost := k.whole.Load(), k.sent.Load(), k.tokens.Load()/k.whole.Load() // all cost the same
	return requests >= whole && requests <= sent && tokens >= k.tokens.Load() && tokens <= k.tokens.Load()+(sent-whole)*cost
}

func (k *killClient) String() string {
	return fmt.Sprintf("%s: %d sent, %d answered for %d tokens", k.user, k.sent.Load(), k.whole.Load(), k.tokens.Load())
}

// TestQuotaSurvivesKill kills the gateway at random moments under load, many
// times: whoever got all of an answer is counted with its tokens, and nobody
// twice.
func TestQuotaSurvivesKill(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections) //nolint:forbidigo // a test's client
	b := gatewaytest.StartBackend(t)
	args := []string{
		"--data-dir", t.TempDir(), "--set", "quota.enabled=true", "--set", "quota.flush-interval-seconds=1", "--set", "log.access=false",
		"--set", "services.chat.instances=[{name: m, base-url: '" + b.URL() + "'}]",
	}
	var all []*killClient
	for round := range killRounds(8) {
		c := serving(t, args...)
		k := &killClient{user: fmt.Sprint("round-", round)}
		all = append(all, k)
		clients := k.underLoad(t, c)
		<-time.After(rand.N(1200 * time.Millisecond))
		c.kill()
		clients.Wait()
	}
	c := serving(t, args...)
	answered := int64(0)
	for _, k := range all {
		requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply {
			return c.ask(http.MethodGet, gatewaytest.LongAgo+"&userId="+url.QueryEscape(k.user), "")
		})
		answered += k.whole.Load()
		if !k.counts(requests, tokens) {
			t.Errorf("%d requests and %d tokens are counted; %v", requests, tokens, k)
		}
	}
	t.Logf("%d answers in %d rounds", answered, len(all))
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
}

// TestQuotaSurvivesDamageToItsJournal truncates and removes the journal of a gateway
// under load that may pass no request uncounted, and kills it when it has noticed.
func TestQuotaSurvivesDamageToItsJournal(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections) //nolint:forbidigo // a test's client
	b := gatewaytest.StartBackend(t)
	dir := t.TempDir()
	args := []string{
		"--data-dir", dir, "--set", "quota.enabled=true", "--set", "quota.fail-open=false", "--set", "quota.flush-interval-seconds=3600",
		"--set", "log.access=false", "--set", "services.chat.instances=[{name: m, base-url: '" + b.URL() + "'}]",
	}
	c, k := serving(t, args...), &killClient{user: "everyone"}
	flushed := regexp.MustCompile(`(?m)^model_router_quota_last_flush_seconds [^0\n]|^model_router_quota_last_flush_seconds 0[.]`)
	gatewaytest.Eventually(t, "the first flush is over, and with it the last segment that a flush removes", func() bool {
		return flushed.MatchString(c.ask(http.MethodGet, "/actuator/prometheus", "").Body)
	})
	clients := k.underLoad(t, c)
	journal := filepath.Join(dir, quota.JournalDir)
	repairs := 0
	for _, damage := range []func(string) error{
		func(path string) error { return os.Truncate(path, 0) },
		os.Remove,
		func(path string) error { return os.Truncate(path, 40) },
		func(string) error { return os.RemoveAll(journal) },
	} {
		segments, err := filepath.Glob(filepath.Join(journal, "*.log"))
		if err != nil || len(segments) == 0 {
			t.Fatalf("segments %v, %v", segments, err)
		}
		for _, segment := range segments {
			if err := damage(segment); err != nil {
				t.Fatal(err)
			}
		}
		repairs++
		gatewaytest.Eventually(t, "the journal is written anew", func() bool {
			return strings.Count(c.stderr.String(), "quota: the journal is back") == repairs
		})
		answered := k.whole.Load()
		gatewaytest.Eventually(t, "requests pass", func() bool { return k.whole.Load() > answered+20 })
	}
	c.kill()
	clients.Wait()
	c = serving(t, args...)
	requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply { return c.ask(http.MethodGet, gatewaytest.LongAgo, "") })
	if !k.counts(requests, tokens) {
		t.Errorf("%d requests and %d tokens are counted; %v", requests, tokens, k)
	}
}

// TestQuotaSurvivesKillWithSharedStores kills one of two gateways that share
// Redis and PostgreSQL, while the ways to both are faulty, and Redis loses its
// data now and then.
func TestQuotaSurvivesKillWithSharedStores(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections) //nolint:forbidigo // a test's client
	redis, postgres := storetest.Redis(t), storetest.Postgres(t)
	ways := []*storetest.Faults{storetest.Between(t, redis), storetest.Between(t, postgres)}
	b := gatewaytest.StartBackend(t)
	start := func(dir string) *child {
		return serving(t, "--data-dir", dir, "--set", "quota.enabled=true", "--set", "quota.flush-interval-seconds=1", "--set", "log.access=false",
			"--set", "quota.distributed.enabled=true", "--set", "redis.url="+ways[0].URL, "--set", "store.url="+ways[1].URL,
			"--set", "services.chat.instances=[{name: m, base-url: '"+b.URL()+"'}]")
	}
	dirs := []string{t.TempDir(), t.TempDir()}
	survivor, k := start(dirs[0]), &killClient{user: "everyone"}
	clients := k.underLoad(t, survivor)
	for round := range killRounds(4) {
		killed := start(dirs[1])
		others := k.underLoad(t, killed)
		for _, way := range ways {
			way.Any()
		}
		if round%3 == 2 {
			storetest.FlushAll(t, redis)
		}
		<-time.After(rand.N(800 * time.Millisecond))
		killed.kill()
		others.Wait()
		for _, way := range ways {
			way.Heal()
		}
	}
	last := start(dirs[1])
	survivor.kill()
	clients.Wait()
	survivor = start(dirs[0])
	for i, c := range []*child{survivor, last} {
		gatewaytest.Eventually(t, fmt.Sprintf("gateway %d has it all", i), func() bool {
			requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply { return c.ask(http.MethodGet, gatewaytest.LongAgo, "") })
			return k.counts(requests, tokens)
		})
		requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply { return c.ask(http.MethodGet, gatewaytest.LongAgo, "") })
		t.Logf("gateway %d has %d requests and %d tokens; %v", i, requests, tokens, k)
	}
}
