package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// tutorial is a section of a document whose commands are run, with other ports.
type tutorial struct {
	t       *testing.T
	dir     string
	env     []string
	ports   *strings.Replacer
	section string
}

func newTutorial(t *testing.T, document, heading string, env ...string) *tutorial {
	t.Helper()
	text := string(gatewaytest.ReadFile(t, filepath.Join("../../docs", document)))
	_, rest, found := strings.Cut(text, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", document, heading)
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	var pairs []string
	for _, written := range []string{"127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082", "127.0.0.1:8083"} {
		pairs = append(pairs, written, storetest.FreeAddress(t))
	}
	u := &tutorial{t: t, dir: t.TempDir(), ports: strings.NewReplacer(pairs...), section: section}
	if err := os.Symlink(binary, filepath.Join(u.dir, "patchbay")); err != nil {
		t.Fatal(err)
	}
	u.env = append([]string{"PATH=" + u.dir + ":" + os.Getenv("PATH") + ":/usr/sbin", "HOME=" + u.dir}, env...)
	return u
}

// blocks returns the blocks of a language.
func (u *tutorial) blocks(language string) []string {
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"(?: [^\n]*)?\n(.*?)```").FindAllStringSubmatch(u.section, -1) {
		blocks = append(blocks, u.ports.Replace(match[1]))
	}
	return blocks
}

// copyFile puts a file of the repository where the commands find it.
func (u *tutorial) copyFile(name string) {
	to := filepath.Join(u.dir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		u.t.Fatal(err)
	}
	gatewaytest.WriteFile(u.t, to, u.ports.Replace(string(gatewaytest.ReadFile(u.t, filepath.Join("../..", name)))))
}

func (u *tutorial) command(line string) *exec.Cmd {
	c := exec.CommandContext(gatewaytest.Deadline(u.t), "bash", "-c", "exec "+line)
	c.Dir, c.Env = u.dir, u.env
	return c
}

// start runs a command until the end of the test.
func (u *tutorial) start(line string) {
	u.t.Helper()
	out := new(gatewaytest.Buffer)
	c := u.command(line)
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
		if u.t.Failed() {
			u.t.Logf("%s:\n%s", line, out.String())
		}
	})
}

// answers tells whether a gateway is ready at an address of the document.
func (u *tutorial) answers(ctx context.Context, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+u.ports.Replace(address)+"/actuator/health/readiness", nil)
	if err != nil {
		u.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// TestFromOneGatewayToThree runs every command of the section of docs/scaling.md, in its
// order: those that serve stay, the others must succeed.
func TestFromOneGatewayToThree(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nginx"); err != nil {
		if _, err := os.Stat("/usr/sbin/nginx"); err != nil {
			t.Skip("nginx is not installed")
		}
	}
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	database, redis := storetest.Postgres(t), storetest.Redis(t)
	u := newTutorial(t, "scaling.md", "From one gateway to three",
		"DATABASE_URL="+database.URL, "REDIS_URL="+redis.URL, "MASTER_KEY="+rand.Text()+rand.Text())
	gatewaytest.WriteFile(t, filepath.Join(u.dir, "team.yaml"), u.blocks("yaml")[0])
	u.copyFile("deploy/nginx/patchbay.conf")
	ctx := gatewaytest.Deadline(t)
	served, asked, last := 0, 0, ""
	for _, block := range u.blocks("sh") {
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, "export "), strings.HasPrefix(line, "deploy/cluster/start.sh"): // TestOneCommandStartsThreeGateways runs it
			case strings.HasPrefix(line, "patchbay serve"), strings.HasPrefix(line, "nginx"):
				u.start(line)
				served++
				address := map[int]string{1: "127.0.0.1:8081", 2: "127.0.0.1:8082", 3: "127.0.0.1:8083", 4: "127.0.0.1:8080"}[served]
				gatewaytest.Eventually(t, line, func() bool { return u.answers(ctx, address) })
			default:
				var out []byte
				gatewaytest.Eventually(t, line, func() bool { // another gateway may take a moment
					var err error
					out, err = u.command(line).CombinedOutput()
					return err == nil && (!strings.Contains(line, "instance/type/chat") || strings.Contains(string(out), "llama3")) &&
						(!strings.Contains(line, "/api/cluster") || strings.Count(string(out), `"state":"up"`) == 3)
				})
				asked++
				last += string(out)
			}
		}
	}
	if served != 4 || asked < 4 || !strings.Contains(last, "llama3") || !strings.HasSuffix(last, "ready\n") {
		t.Errorf("%d commands served and %d asked: %s", served, asked, last)
	}
}

// TestOneCommandStartsThreeGateways runs deploy/cluster/start.sh: three gateways have one
// configuration, keys and terms, know each other, and end together.
func TestOneCommandStartsThreeGateways(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	section := string(gatewaytest.ReadFile(t, "../../docs/scaling.md"))
	_, written, _ := strings.Cut(string(gatewaytest.ReadFile(t, "../../deploy/cluster/team.yaml")), "\n")
	if !strings.Contains(section, written) || !strings.Contains(section, "\ndeploy/cluster/start.sh\n") {
		t.Error("docs/scaling.md shows another team.yaml, or another command")
	}
	database, redis, upstream := storetest.Postgres(t), storetest.Redis(t), gatewaytest.StartBackend(t)
	u := newTutorial(t, "scaling.md", "From one gateway to three", "DATABASE_URL="+database.URL, "REDIS_URL="+redis.URL, "MASTER_KEY="+rand.Text()+rand.Text())
	u.copyFile("deploy/cluster/team.yaml")
	gatewaytest.WriteFile(t, filepath.Join(u.dir, "deploy/cluster/start.sh"), string(gatewaytest.ReadFile(t, "../../deploy/cluster/start.sh")))
	first := freePorts(t, 3)
	u.env = append(u.env, fmt.Sprint("PORT=", first), "PATCHBAY_SECURITY_ENABLED=true", "PATCHBAY_SECURITY_TOKENS_0_NAME=a", "PATCHBAY_SECURITY_TOKENS_0_ROLE=ADMIN",
		"PATCHBAY_SECURITY_TOKENS_0_TOKEN_SHA256="+gatewaytest.HashOf("admin-token"), "PATCHBAY_QUOTA_DISTRIBUTED_TIMEOUT=5s")
	out := new(gatewaytest.Buffer)
	command := u.command("bash deploy/cluster/start.sh")
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	gatewaytest.Eventually(t, "all are ready", func() bool { return strings.Contains(out.String(), "ready; Ctrl-C stops all") })
	ask := func(gateway int, credential, method, path, body string) gatewaytest.Reply {
		t.Helper()
		request, err := http.NewRequestWithContext(gatewaytest.Deadline(t), method, fmt.Sprintf("http://127.0.0.1:%d%s", first+gateway, path), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+credential)
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return gatewaytest.ReadReply(response)
	}
	api := func(gateway int, method, path, body string) gatewaytest.ManagementReply {
		t.Helper()
		return gatewaytest.EnvelopeOf(t, ask(gateway, "admin-token", method, path, body))
	}
	api(0, "POST", "/api/config/instance/add/chat", `{"name":"m","baseUrl":"`+upstream.URL()+`"}`).Is(t, 201)
	key := gatewaytest.DataOf[newCredential](t, api(1, "POST", "/api/auth/keys", `{"id":"k","tenant":"acme"}`).Is(t, 201)).Key
	api(2, "PUT", "/api/config/terms/tenants/acme", `{"limits":{"requestsPerMinute":77}}`).Is(t, 200)
	for n := range 3 {
		gatewaytest.Eventually(t, "each has the terms and the key", func() bool {
			return strings.Contains(ask(n, "admin-token", "GET", "/api/config/terms", "").Body, `"requestsPerMinute":77`) &&
				strings.Contains(ask(n, "admin-token", "GET", "/api/auth/keys", "").Body, `"id":"k"`)
		})
		if answer := ask(n, key, "POST", "/v1/chat/completions", gatewaytest.PlainHi); answer.Status != http.StatusOK || answer.Header.Get("X-Ratelimit-Limit-Requests") != "77" {
			t.Errorf("gateway %d answers %d %v", n, answer.Status, answer.Header)
		}
		gatewaytest.Eventually(t, "each knows the others", func() bool {
			return strings.Count(ask(n, "admin-token", "GET", "/api/cluster", "").Body, `"state":"up"`) == 3
		})
	}
	version := gatewaytest.DataOf[int](t, api(0, "GET", "/api/config/version/current", ""))
	api(0, "POST", fmt.Sprint("/api/config/version/rollback/", version-1), "").Is(t, 200)
	for n := range 3 {
		gatewaytest.Eventually(t, "the tenant has no limit on all", func() bool {
			return strings.Contains(ask(n, "admin-token", "GET", "/api/config/terms", "").Body, `"tenants":[]`)
		})
	}
	checkSharedLimit(t, redis, func(gateway int) int {
		return ask(gateway, key, "POST", "/v1/chat/completions", gatewaytest.PlainHi).Status
	},
		func(gateway int) bool {
			return strings.Contains(ask(gateway, "admin-token", "GET", "/metrics", "").Body, "\nmodel_router_shared_limits_healthy 1\n")
		})
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("the command ends with %v", err)
	}
	for n := range 3 {
		if connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", first+n)); err == nil {
			_ = connection.Close()
			t.Errorf("gateway %d runs", n)
		}
	}
}

// checkSharedLimit kills Redis, starts it again without its data, and checks that three
// gateways then have the limit of team.yaml together: a bucket of 100, with 10 a second, and
// at most a lease of 100/6 for each beyond it, because the data were lost.
func checkSharedLimit(t *testing.T, redis *storetest.Server, chat func(gateway int) (status int), isHealthy func(gateway int) bool) {
	t.Helper()
	redis.Kill()
	for n := range 3 {
		gatewaytest.Eventually(t, "each takes its share", func() bool {
			chat(n)
			return !isHealthy(n)
		})
	}
	redis.Start()
	for n := range 3 {
		gatewaytest.Eventually(t, "the limit is shared again", func() bool { return isHealthy(n) })
	}
	began, allowed := time.Now(), 0
	for n := range 240 {
		if chat(n%3) == http.StatusOK {
			allowed++
		}
	}
	if most := 100 + 3*100/6 + 10*(int(time.Since(began)/time.Second)+1); allowed > most {
		t.Errorf("%d of 240 were let in, at most %d may be", allowed, most)
	}
}

// freePorts returns the first of some ports in a row that nobody uses.
func freePorts(t *testing.T, count int) int {
	t.Helper()
	for range 100 {
		_, text, _ := net.SplitHostPort(storetest.FreeAddress(t))
		first, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		free := 0
		for n := range count {
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", first+n))
			if err != nil {
				break
			}
			_ = listener.Close()
			free++
		}
		if free == count {
			return first
		}
	}
	t.Fatal("there are no free ports")
	return 0
}
