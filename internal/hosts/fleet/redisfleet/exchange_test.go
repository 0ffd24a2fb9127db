package redisfleet

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	cryptorand "crypto/rand"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/store/redis"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// member is a gateway as far as it exchanges what it knows about three instances.
type member struct {
	*Exchange
	t    *testing.T
	log  *safeBuffer
	all  []*fleet.Instance
	stop func()
}

// safeBuffer is a log that is read while it is written.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// join starts a gateway, which ends with the test.
func join(t *testing.T, url, id string, change ...func(*Options)) *member {
	t.Helper()
	m := &member{t: t, log: new(safeBuffer)}
	options := Options{Gateway: id, Address: url, Prefix: "patchbay", Log: slog.New(slog.NewTextHandler(m.log, nil))}
	_, _ = cryptorand.Read(options.Secret[:]) // it never fails
	options.Fleet = fleet.New(fleet.Options{Secret: options.Secret, Gateway: id}, time.Now())
	options.IsWanted = func() bool { return options.Fleet.Size() > 0 }
	for _, c := range change {
		c(&options)
	}
	for _, host := range []string{"http://a", "http://b", "http://c"} {
		m.all = append(m.all, options.Fleet.Instance(host, "m"))
	}
	m.Exchange = New(options)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	m.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(m.stop)
	return m
}

// ask returns a request with a prompt of a seed's.
func (m *member) ask(seed uint64) *fleet.Ask {
	rng := rand.New(rand.NewPCG(seed, 1))
	text := make([]byte, 8000)
	for n := 0; n < len(text); n += 8 {
		binary.BigEndian.PutUint64(text[n:], rng.Uint64())
	}
	p := m.options.Fleet.Borrow("")
	p.Text(text)
	return &fleet.Ask{Prompt: p, Tokens: 2000}
}

// send sends a prompt, and returns the host that has it.
func (m *member) send(seed uint64) string {
	now := time.Now()
	call := m.options.Fleet.Choose(m.all, m.ask(seed), now)
	call.First(now)
	call.End(fleet.Answer{PromptTokens: -1, CachedTokens: -1, OutputTokens: -1}, now)
	return call.Instance.Host().Name()
}

// knows returns the host that is believed to have a prompt.
func (m *member) knows(seed uint64) string {
	for _, e := range m.options.Fleet.Explain(m.all, m.ask(seed), time.Now()) {
		if e.Matched > 0.9 {
			return e.Instance.Host().Name()
		}
	}
	return ""
}

// agree waits until each of the gateways hears all others and knows what they send.
func agree(t *testing.T, members ...*member) {
	t.Helper()
	waittest.Eventually(t, "the gateways know each other", func() bool {
		for _, m := range members {
			if m.Stats().Others != len(members)-1 || m.Stats().Failure != nil {
				return false
			}
		}
		return true
	})
	for _, from := range members {
		seed := rand.Uint64()
		// What is sent while secrets change is lost, so it is sent again.
		waittest.Eventually(t, "what "+from.options.Gateway+" sends is known", func() bool {
			host := from.send(seed)
			for _, m := range members {
				if m.knows(seed) != host {
					return false
				}
			}
			return true
		})
	}
}

// TestGatewaysKnowWhatOthersSent within a second or two, over each kind of Redis, and those
// with another prefix do not.
func TestGatewaysKnowWhatOthersSent(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) string{
		"alone":     func(t *testing.T) string { t.Helper(); return storetest.Redis(t).URL },
		"cluster":   func(t *testing.T) string { t.Helper(); return storetest.RedisCluster(t).URL },
		"sentinels": func(t *testing.T) string { t.Helper(); return storetest.RedisSentinels(t).URL },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			a, b, c := join(t, url, "a"), join(t, url, "b"), join(t, url, "c")
			elsewhere := join(t, url, "d", func(o *Options) { o.Prefix = "other" })
			agree(t, a, b, c)
			began, seed := time.Now(), rand.Uint64()
			host := a.send(seed)
			waittest.Eventually(t, "both know", func() bool { return b.knows(seed) == host && c.knows(seed) == host })
			t.Logf("known after %v", time.Since(began))
			if s := elsewhere.Stats(); elsewhere.knows(seed) != "" || s.Received+s.Foreign+s.Malformed+int64(s.Others) != 0 || s.Failure != nil {
				t.Errorf("a gateway with another prefix has heard something: %+v", s)
			}
		})
	}
}

// TestGatewaysAreAloneWithoutRedis, say so once, and agree again afterwards on the secret
// that they had, although Redis has lost it.
func TestGatewaysAreAloneWithoutRedis(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	a, b := join(t, server.URL, "a"), join(t, server.URL, "b")
	agree(t, a, b)
	seed := rand.Uint64()
	host := a.send(seed)
	server.Kill()
	for _, m := range []*member{a, b} {
		waittest.Eventually(t, "the gateway is alone", func() bool { return m.Stats().Others == 0 && m.Stats().Failure != nil })
	}
	if own := rand.Uint64(); a.send(own) != a.knows(own) {
		t.Error("a gateway that is alone does not know what it has sent itself")
	}
	server.Start()
	agree(t, a, b)
	if a.knows(seed) != host {
		t.Error("what was known before the outage is forgotten")
	}
	for _, m := range []*member{a, b} {
		log := m.log.String()
		if strings.Count(log, "cannot be exchanged") != 1 || strings.Count(log, "again what they know") != 1 {
			t.Errorf("%s", log)
		}
	}
}

// TestGatewaysThatBeginWithoutRedis find each other when it comes.
func TestGatewaysThatBeginWithoutRedis(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	server.Kill()
	a, b := join(t, server.URL, "a"), join(t, server.URL, "b")
	for _, m := range []*member{a, b} {
		waittest.Eventually(t, "the gateway has tried more than once", func() bool { return m.Stats().Failures > 1 })
	}
	server.Start()
	agree(t, a, b)
}

// TestReplicaTakesOver: gateways go on with the new master.
func TestReplicaTakesOver(t *testing.T) {
	t.Parallel()
	sentinels := storetest.RedisSentinels(t)
	a, b := join(t, sentinels.URL, "a"), join(t, sentinels.URL, "b")
	agree(t, a, b)
	sentinels.Master.Kill()
	waittest.Eventually(t, "the replica is promoted", sentinels.Promoted)
	agree(t, a, b)
}

// TestGatewaysNoticeThatTheyAreCutOff: a Redis that takes everything and delivers nothing is
// as good as none.
func TestGatewaysNoticeThatTheyAreCutOff(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	way := storetest.Between(t, server)
	a, b := join(t, way.URL, "a"), join(t, server.URL, "b")
	agree(t, a, b)
	way.Swallow()
	waittest.Eventually(t, "the gateway is alone", func() bool {
		a.send(rand.Uint64())
		return a.Stats().Others == 0 && a.Stats().Failure != nil
	})
	if s := b.Stats(); s.Failure != nil {
		t.Errorf("%+v of the other one", s)
	}
	way.Heal()
	agree(t, a, b)
}

// publish sends a text to gateways, as anybody can who reaches Redis.
func publish(t *testing.T, url, channel, text string) {
	t.Helper()
	client, err := redis.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Do(t.Context(), client.B().Publish().Channel(channel).Message(text).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// TestMessagesOfOthersChangeNothing: what is malformed, of another version or made with
// another secret is counted and ignored.
func TestMessagesOfOthersChangeNothing(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	a, b := join(t, server.URL, "a"), join(t, server.URL, "b")
	agree(t, a, b)
	seed := rand.Uint64()
	host := a.send(seed)
	waittest.Eventually(t, "it is known", func() bool { return b.knows(seed) == host })
	before := b.options.Fleet.Pictures(time.Now())
	stranger := newCodec(&fleet.Secret{1})
	good := string(b.codec.wrap("z", []byte{255}))
	for _, text := range []string{
		"", "x", strings.Repeat("x", 1<<20), "\x02" + good[1:], good[:len(good)-1], good, string(b.codec.wrap("", nil)),
		string(stranger.wrap("z", nil)), string(stranger.wrap("a", []byte{1, 0})),
	} {
		publish(t, server.URL, b.channel, text)
	}
	waittest.Eventually(t, "all are counted", func() bool { s := b.Stats(); return s.Foreign == 3 && s.Malformed == 6 })
	after := b.options.Fleet.Pictures(time.Now())
	for n := range before {
		if before[n].Cached != after[n].Cached || after[n].Queue != 0 || after[n].Others != 0 {
			t.Errorf("%+v became %+v", before[n], after[n])
		}
	}
	if b.Stats().Others != 1 {
		t.Errorf("%+v", b.Stats())
	}
	agree(t, a, b)
}

// TestGatewaysAgreeAfterRedisLostTheSecret: one that starts then brings another secret, and
// the others find out.
func TestGatewaysAgreeAfterRedisLostTheSecret(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	a, b := join(t, server.URL, "a"), join(t, server.URL, "b")
	agree(t, a, b)
	storetest.FlushAll(t, server)
	agree(t, a, b, join(t, server.URL, "c"))
}

// TestRestartedGatewayIsWarmByWhatOthersTell: it begins with nothing, and knows every
// conversation that goes on anywhere.
func TestRestartedGatewayIsWarmByWhatOthersTell(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	a, b := join(t, server.URL, "a"), join(t, server.URL, "b")
	agree(t, a, b)
	seed := rand.Uint64()
	host := b.send(seed)
	waittest.Eventually(t, "it is known", func() bool { return a.knows(seed) == host })
	b.stop()
	b = join(t, server.URL, "b")
	waittest.Eventually(t, "it is back", func() bool { return b.Stats().Others == 1 && b.Stats().Failure == nil })
	if b.knows(seed) != "" {
		t.Error("it knows what nobody has told it")
	}
	a.send(seed) // the conversation goes on, over another gateway
	waittest.Eventually(t, "it is known again", func() bool { return b.knows(seed) == host })
}

// TestSecretOfAMasterKeyIsNotInRedis, and gateways with different ones do not take each
// other's messages.
func TestSecretOfAMasterKeyIsNotInRedis(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	with := func(master string) func(*Options) {
		return func(o *Options) {
			keys, err := seal.New(master, "")
			if err != nil {
				t.Fatal(err)
			}
			o.Keys = keys
		}
	}
	key := cryptorand.Text() + cryptorand.Text()
	a, b := join(t, server.URL, "a", with(key)), join(t, server.URL, "b", with(key))
	agree(t, a, b)
	if a.secret == a.options.Secret {
		t.Error("the secret is not derived")
	}
	client, err := redis.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if names, err := client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice(); err != nil || len(names) != 0 {
		t.Errorf("Redis has %q: %v", names, err)
	}
	other := join(t, server.URL, "c", with(key+"!"))
	waittest.Eventually(t, "both kinds ignore each other", func() bool {
		a.send(rand.Uint64())
		other.send(rand.Uint64())
		return a.Stats().Foreign > 0 && other.Stats().Foreign > 0
	})
	if a.Stats().Others != 1 || other.Stats().Others != 0 {
		t.Errorf("%+v, %+v", a.Stats(), other.Stats())
	}
}

// TestGatewayWithoutAFleetHasNoConnection, and ends it when its last instance is gone.
func TestGatewayWithoutAFleetHasNoConnection(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	a, b := join(t, server.URL, "a"), join(t, server.URL, "b")
	agree(t, a, b)
	for _, i := range a.all {
		i.Remove()
	}
	waittest.Eventually(t, "it exchanges no more", func() bool { return !a.Stats().IsOn && a.Stats().Others == 0 })
	sent := a.Stats().Sent
	publish(t, server.URL, a.channel, "x")
	waittest.Eventually(t, "the other one hears", func() bool { return b.Stats().Malformed == 1 })
	if s := a.Stats(); s.Malformed != 0 || s.Sent != sent || s.Failure != nil {
		t.Errorf("%+v", s)
	}
}
