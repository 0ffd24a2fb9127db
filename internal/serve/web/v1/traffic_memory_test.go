package v1_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// What a request took of the budget is given back when its memory is free: a
// stream that has begun holds nothing of it.
func TestBudgetForBodiesIsGivenBack(t *testing.T) {
	t.Parallel()
	held := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL)))
	stream := r.ChatLater(gatewaytest.Deadline(t), gatewaytest.StreamHi)
	<-held.Entered
	isFree := func(when string) {
		t.Helper()
		gatewaytest.Eventually(t, "the budget is free "+when, func() bool { return r.Memory.Bodies().Taken() == 0 })
	}
	isFree("while a stream runs")
	close(held.Open)
	(<-stream).Succeeds(t)
	r.Chat(`{"model":"m"`).FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, "invalid_json", "")
	r.Chat(`{"model":"nobody","messages":[{"role":"user","content":"hi"}]}`)
	r.Post("/v1/audio/transcriptions", "no form")
	isFree("after all of them")
}

// takeAllBut has many others take what there is in a pool, but for what is left.
func takeAllBut(t *testing.T, pool *memory.Room, left int64) (giveBack func()) {
	t.Helper()
	var leases []*memory.Lease
	for n := byte(1); pool.Limit()-pool.Taken() > left; n++ {
		lease := pool.Lease("", netip.AddrFrom4([4]byte{192, 0, 2, n}))
		free := pool.Limit() - pool.Taken()
		if verdict := lease.Take(min(free-left, (free+1)/2)); verdict != memory.Granted {
			t.Fatalf("of %d bytes %d are free, and half of them cannot be taken: %d", pool.Limit(), free, verdict)
		}
		leases = append(leases, &lease)
	}
	return func() {
		for _, lease := range leases {
			lease.Close()
		}
	}
}

// twoKeysYAML lets two keys in, "secret-a" and "secret-b".
func twoKeysYAML(services string) string {
	return fmt.Sprintf("security: {enabled: true, keys: [{id: a, key-sha256: %s}, {id: b, key-sha256: %s}]}\n", gatewaytest.HashOf("secret-a"), gatewaytest.HashOf("secret-b")) + services
}

// twoCallers are the headers by which a gateway tells two callers apart.
var twoCallers = map[string][2]string{
	"two keys":      {"Authorization: Bearer secret-a", "Authorization: Bearer secret-b"},
	"two addresses": {"X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2"},
}

// startForTwo starts a gateway for two callers that are told apart in one of these ways.
func startForTwo(t *testing.T, way, services string) *gatewaytest.Gateway {
	t.Helper()
	if way == "two keys" {
		services = twoKeysYAML(services)
	}
	return gatewaytest.Start(t, services)
}

// sizedChat is a chat request of about so many bytes.
func sizedChat(size int) string {
	return `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
}

// A length that is announced takes nothing: what counts is what has arrived.
func TestAnnouncedBodiesTakeNoMemory(t *testing.T) {
	t.Parallel()
	for way, callers := range twoCallers {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			r := startForTwo(t, way, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())))
			const connections, limit = 29, 16 << 20
			r.Memory.Bodies().SetLimit(limit)
			for range connections {
				conn := r.DialRaw()
				head := gatewaytest.PostHead + callers[0] + "\r\nContent-Length: 4000000\r\n\r\n"
				if _, err := io.WriteString(conn, head+strings.Repeat(" ", 3000)); err != nil {
					t.Fatal(err)
				}
			}
			bodies := r.Memory.Bodies()
			gatewaytest.Eventually(t, "all of them are being read", func() bool { return bodies.Taken() >= connections*3000 })
			if taken := bodies.Taken(); taken > connections*128<<10 {
				t.Errorf("%d bytes are taken for %d that arrived", taken, connections*3000)
			}
			for _, caller := range callers {
				name, value, _ := strings.Cut(caller, ": ")
				r.Chat(sizedChat(60_000), name, value).Succeeds(t)
			}
		})
	}
}

// A caller who sends all that it can leaves memory to the others, and is told.
func TestOneCallerLeavesMemoryToOthers(t *testing.T) {
	t.Parallel()
	for way, callers := range twoCallers {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			r := startForTwo(t, way, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())))
			const limit = 24 << 20
			bodies := r.Memory.Bodies()
			bodies.SetLimit(limit)
			refused := 0
			for range 20 { // each of them sends half of its body
				conn := r.DialRaw()
				before := bodies.Taken()
				head := gatewaytest.PostHead + callers[0] + "\r\nContent-Length: 4000000\r\n\r\n"
				if _, err := io.WriteString(conn, head+strings.Repeat(" ", 2_000_000)); err != nil {
					refused++ // its connection was closed while it sent
					continue
				}
				closed := make(chan gatewaytest.Reply, 1)
				go func() {
					response, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err == nil {
						closed <- gatewaytest.ReadReply(response)
					}
					close(closed)
				}()
				gatewaytest.Eventually(t, "it is refused or waits", func() bool {
					select {
					case reply, told := <-closed:
						if told {
							reply.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "overloaded", "")
						}
						refused++
						return true
					default:
						return bodies.Taken() >= before+2_000_000
					}
				})
			}
			if refused == 0 || bodies.Taken() > bodies.Most() {
				t.Errorf("%d are refused, %d bytes of %d are taken", refused, bodies.Taken(), limit)
			}
			name, value, _ := strings.Cut(callers[0], ": ")
			answer := r.Chat(sizedChat(4_000_000), name, value)
			answer.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "overloaded", "")
			if answer.RetryOf(t) != time.Second || !strings.Contains(answer.Body, "as one caller may have now") {
				t.Errorf("told %s, headers %v", answer.Body, answer.Header)
			}
			name, value, _ = strings.Cut(callers[1], ": ")
			for _, size := range []int{60_000, 1_500_000} {
				r.Chat(sizedChat(size), name, value).Succeeds(t)
			}
		})
	}
}

// A request that finds nothing left of the budget is refused and may try again.
func TestRequestsWithoutBudgetAreRefused(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())))
	giveBack := takeAllBut(t, r.Memory.Bodies(), 0)
	answer := r.Chat(gatewaytest.PlainHi)
	answer.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "overloaded", "")
	if answer.RetryOf(t) != time.Second {
		t.Errorf("headers %v", answer.Header)
	}
	giveBack()
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
}

// A large answer takes from the same budget until the client has it, whether its length
// is known or not. Without budget it is given up, which is no failure of the instance.
func TestLargeAnswersTakeFromTheBudget(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 3<<20)
	body := `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `"},"finish_reason":"stop"}]}`
	for name, header := range map[string]string{
		"known length":   fmt.Sprintf("Content-Length: %d\r\n", len(body)),
		"unknown length": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, b := gatewaytest.StartOne(t)
			b.ScriptForever(simulator.Step{Raw: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + header + "\r\n" + body})
			for _, left := range slices.Repeat([]int64{2 << 20, 100 << 10}, 3) { // six failures would open the breaker
				giveBack := takeAllBut(t, r.Memory.Bodies(), left)
				taken := r.Memory.Bodies().Taken()
				answer := r.Chat(gatewaytest.PlainHi)
				answer.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "overloaded", "")
				if answer.RetryOf(t) != time.Second {
					t.Errorf("headers %v", answer.Header)
				}
				gatewaytest.Eventually(t, "the rest is free", func() bool { return r.Memory.Bodies().Taken() == taken })
				giveBack()
			}
			if answer := r.Chat(gatewaytest.PlainHi); !strings.Contains(answer.Body, text) {
				t.Errorf("status %d and %d bytes", answer.Status, len(answer.Body))
			}
			gatewaytest.Eventually(t, "all is free", func() bool { return r.Memory.Bodies().Taken() == 0 })
		})
	}
}
