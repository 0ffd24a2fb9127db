package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// teamBudget is a key with a budget on three gateways in processes of their own, which
// share PostgreSQL and Redis, and the record of all requests that were made with it.
type teamBudget struct {
	t          *testing.T
	db, redis  *storetest.Server
	args       [3][]string
	gateways   [3]*child
	client     *http.Client
	budget     int64
	mu         sync.Mutex
	made       []madeRequest
	beyondPart int64 // what outages may add to the budget, by docs/quota.md
}

// madeRequest is one request as its client saw it.
type madeRequest struct {
	gateway    int
	start, end time.Time
	status     int // 0 where no whole answer came
}

// A request costs 40 tokens, and reserves max_tokens of 40 and an estimate of its prompt,
// which is less than 30.
const (
	requestCost     = 40
	mostReservation = 70
)

func newTeamBudget(t *testing.T, budget int64) *teamBudget {
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Body: `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":30,"total_tokens":40}}`})
	team := &teamBudget{t: t, db: storetest.Postgres(t), redis: storetest.Redis(t), budget: budget, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(team.client.CloseIdleConnections)
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	security := strings.Replace(gatewaytest.SecuredYAML(), "enabled: true,", fmt.Sprintf("enabled: true, keys: [{id: k, key-sha256: %s, budgets: {total: {tokens: %d}}}],", gatewaytest.HashOf("secret"), budget), 1)
	gatewaytest.WriteFile(t, file, gatewaytest.PoolYAML(b)+security+fmt.Sprintf("store: {config: %s, url: %s}\nredis: {url: %s}\nlog: {access: false}\nquota: {flush-interval-seconds: 1, distributed: {enabled: true, timeout: 2s}}\n",
		gatewaytest.Quote(team.db.URL), gatewaytest.Quote(team.db.URL), gatewaytest.Quote(team.redis.URL)))
	for n := range team.gateways {
		team.args[n] = []string{"--config", file, "--data-dir", t.TempDir()}
		team.gateways[n] = serving(t, team.args[n]...)
	}
	team.meet()
	return team
}

// meet waits until the gateways know how many they are. One that was killed counts for ten
// seconds beside the one that took its place.
func (b *teamBudget) meet() {
	for n := range b.gateways {
		gatewaytest.Eventually(b.t, "all know each other", func() bool {
			lines := strings.Split(b.gateway(n).stderr.String(), "\n")
			for n := len(lines) - 1; n >= 0; n-- {
				if strings.Contains(lines[n], "the number of gateways that share Redis has changed") {
					return !strings.Contains(lines[n], `"gateways":1,`) && !strings.Contains(lines[n], `"gateways":2,`) &&
						!strings.Contains(lines[n], `"gateways":1}`) && !strings.Contains(lines[n], `"gateways":2}`)
				}
			}
			return false
		})
	}
}

func (b *teamBudget) gateway(n int) *child {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gateways[n]
}

func (b *teamBudget) ask(gateway int) madeRequest {
	one := madeRequest{gateway: gateway, start: time.Now()}
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(b.t), http.MethodPost, b.gateway(gateway).url()+"/v1/chat/completions", strings.NewReader(gatewaytest.With(`"max_tokens":40`)))
	if err != nil {
		b.t.Error(err)
		return one
	}
	request.Header.Set("Authorization", "Bearer secret")
	response, err := b.client.Do(request)
	if err == nil {
		_, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	if err == nil {
		one.status = response.StatusCode
	}
	one.end = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made = append(b.made, one)
	return one
}

// load has clients make so many requests at each gateway, and calls a function meanwhile.
func (b *teamBudget) load(each int, meanwhile func()) {
	var clients sync.WaitGroup
	for n := range b.gateways {
		clients.Go(func() {
			for range each {
				if b.ask(n).status == 0 {
					return // it was killed
				}
			}
		})
	}
	meanwhile()
	clients.Wait()
}

func (b *teamBudget) count(status int) (count int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.made {
		if one.status == status {
			count++
		}
	}
	return count
}

// loseRedis kills Redis and adds what that may cost: docs/quota.md says that the gateways
// spend at most the mean of what each does not know, which is what the others reserved
// since its last contact with Redis. A gateway had contact during its last request that
// was answered, so these are the requests at the others that ended after that one began.
func (b *teamBudget) loseRedis() {
	b.redis.Kill()
	killed := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	unknown := int64(0)
	for n := range b.gateways {
		var last time.Time
		for _, one := range b.made {
			if one.gateway == n && one.status == http.StatusOK && one.end.Before(killed) && one.start.After(last) {
				last = one.start
			}
		}
		for _, one := range b.made {
			if one.gateway != n && one.end.After(last) {
				unknown += mostReservation
			}
		}
		unknown += int64(len(b.gateways)-1) * mostReservation // the requests that run now
	}
	b.beyondPart += unknown / int64(len(b.gateways))
}

// back waits until every gateway that noticed the outage has Redis again. The promise
// supposes that these moments are less than three seconds apart; on a machine that was too
// busy for that the budget is not checked.
func (b *teamBudget) back() {
	const away, shared = "what gateways share cannot be reached", "what gateways share is exact again"
	var first, last time.Time
	for n := range b.gateways {
		gatewaytest.Eventually(b.t, "Redis is there again", func() bool {
			log := b.gateway(n).stderr.String()
			return strings.Count(log, away) <= strings.Count(log, shared)
		})
		log := b.gateway(n).stderr.String()
		at := strings.LastIndex(log, shared)
		if at < 0 {
			continue
		}
		line := log[strings.LastIndexByte(log[:at], '\n')+1:]
		_, text, _ := strings.Cut(line, `"ts":"`)
		text, _, _ = strings.Cut(text, `"`)
		when, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			b.t.Fatal(err)
		}
		if first.IsZero() || when.Before(first) {
			first = when
		}
		if when.After(last) {
			last = when
		}
	}
	if last.Sub(first) > 2500*time.Millisecond {
		b.t.Logf("the gateways found Redis again %v apart", last.Sub(first))
		b.beyondPart += b.budget
	}
}

func (b *teamBudget) restart(n int) {
	b.gateway(n).kill()
	next := serving(b.t, b.args[n]...)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gateways[n] = next
}

// exhaust makes requests until every gateway refuses, and next to nothing is left. What
// requests without an answer had reserved may be left.
func (b *teamBudget) exhaust() {
	gatewaytest.Eventually(b.t, "the budget is used up", func() bool {
		refused := 0
		for n := range b.gateways {
			if b.ask(n).status == http.StatusTooManyRequests {
				refused++
			}
		}
		return refused == len(b.gateways) && b.count(http.StatusOK)*requestCost > b.budget-(1+b.count(0))*mostReservation
	})
}

var usedTokens = regexp.MustCompile(`"used":(\d+)`)

// check compares what was spent with the budget, and with what the gateways say.
func (b *teamBudget) check() {
	b.t.Helper()
	spent, unknown := b.count(http.StatusOK)*requestCost, b.count(0)
	b.t.Logf("%d tokens of %d are spent, %d more are allowed; %d requests have no answer", spent, b.budget, b.beyondPart, unknown)
	if spent > b.budget+b.beyondPart {
		b.t.Errorf("%d tokens of %d are spent, and only %d more are allowed", spent, b.budget, b.beyondPart)
	}
	for n, g := range b.gateways {
		gatewaytest.Eventually(b.t, fmt.Sprint("gateway ", n, " knows what all have spent"), func() bool {
			shown := usedTokens.FindStringSubmatch(g.askAs("admin-token", http.MethodGet, "/api/monitoring/budgets", "").Body)
			if shown == nil {
				return false
			}
			used, err := strconv.ParseInt(shown[1], 10, 64)
			return err == nil && used >= spent && used <= spent+unknown*mostReservation
		})
	}
}

// A budget of 10,000 tokens that three gateways share, hammered while Redis is killed,
// comes back without its data and is killed again, ends within what docs/quota.md promises.
func TestBudgetOfThreeGatewaysWhileRedisIsKilled(t *testing.T) {
	t.Parallel()
	team := newTeamBudget(t, 10_000)
	team.load(30, func() {
		gatewaytest.Eventually(t, "there is traffic", func() bool { return team.count(http.StatusOK) > 20 })
		team.loseRedis()
	})
	team.load(20, func() {})
	team.redis.Start()
	team.load(20, team.back)
	team.exhaust()
	team.check()
}

// Random histories of load, gateways that are killed, and stores that are killed keep the
// budget.
func TestBudgetOfThreeGatewaysInRandomHistories(t *testing.T) {
	t.Parallel()
	for range killRounds(4) / 4 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			team := newTeamBudget(t, 20_000)
			for range 5 {
				each := 5 + random.IntN(25)
				switch random.IntN(4) {
				case 0:
					team.load(each, func() {})
				case 1: // requests in flight are lost, and what was spent is not
					n := random.IntN(3)
					team.load(each, func() { team.restart(n) })
					team.meet()
				case 2:
					team.load(each, team.loseRedis)
					team.load(random.IntN(20), func() {})
					team.redis.Start()
					team.load(random.IntN(10), team.back)
				case 3:
					team.load(each, team.db.Kill)
					team.load(random.IntN(20), func() {})
					team.db.Start()
				}
			}
			team.exhaust()
			team.check()
		})
	}
}
