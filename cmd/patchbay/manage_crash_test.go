package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// kill -9 amid a stream of changes: whatever was acknowledged is there.
func TestAcknowledgedChangesSurviveCrashes(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	dir := t.TempDir()
	var acknowledged []string
	for round := range rounds {
		p := serving(t, "--data-dir", dir)
		list := p.ask(http.MethodGet, instList+"chat", "").succeeds(t).body
		for _, name := range acknowledged {
			if !strings.Contains(list, `"name":"`+name+`"`) {
				t.Fatalf("round %d: %s was acknowledged and is gone", round, name)
			}
		}
		ctx, cancel := context.WithCancel(deadline(t))
		done := make(chan []string)
		go func() { done <- addUntilDead(ctx, p, round) }()
		timer := time.NewTimer(time.Duration(rand.IntN(40)) * time.Millisecond)
		<-timer.C
		p.kill()
		cancel()
		acknowledged = append(acknowledged, <-done...)
	}
	t.Logf("%d changes were acknowledged", len(acknowledged))
	if len(acknowledged) == 0 {
		t.Error("nothing was acknowledged at all")
	}
}

// addUntilDead adds instances one after the other and returns those that the
// gateway said it has.
func addUntilDead(ctx context.Context, p *child, round int) []string {
	var names []string
	for n := 0; ; n++ {
		name := fmt.Sprintf("i-%d-%d", round, n)
		response, err := p.send(ctx, http.MethodPost, instAdd+"chat", fmt.Sprintf(`{"name":%q,"baseUrl":"http://127.0.0.1:1"}`, name))
		if err != nil {
			return names
		}
		_, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusCreated {
			return names
		}
		names = append(names, name)
	}
}

// The examples of the documentation do what they say.
func TestExamplesOfTheManagementDocumentation(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	r, secured := startGateway(t, ""), startGateway(t, securedYAML())
	content := string(mustRead(t, filepath.Join("..", "..", "docs", "management.md")))
	examples := regexp.MustCompile(`(?m)^curl (.*?) +# (\d+)$`).FindAllStringSubmatch(content, -1)
	if len(examples) < 30 {
		t.Fatalf("only %d examples", len(examples))
	}
	covered := map[string]bool{}
	for _, example := range examples {
		command := exec.CommandContext(deadline(t), "sh", "-c", curl+` -s -w '\n%{http_code}' `+example[1])
		command.Env = []string{"B=" + r.url}
		if strings.Contains(example[1], "$TOKEN") {
			command.Env = []string{"B=" + secured.url, "TOKEN=admin-token"}
		}
		output, err := command.CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		if err != nil || lines[len(lines)-1] != example[2] {
			t.Errorf("curl %s: %v, want %s: %s", example[1], err, example[2], output)
		}
		covered[operationOf(example[1])] = true
	}
	for _, route := range r.Routes {
		isOurs := regexp.MustCompile(` /api/(config/(type|instance|version|merge)|models|route|auth)`).MatchString(route.Pattern)
		if pattern := pathParameter.ReplaceAllString(route.Pattern, "*"); isOurs && !covered[pattern] {
			t.Errorf("%s has no example", route.Pattern)
		}
	}
}

// operationOf names the route that an example is about, with * for parameters.
func operationOf(arguments string) string {
	method := http.MethodGet
	if found := regexp.MustCompile(`-X (\w+)`).FindStringSubmatch(arguments); found != nil {
		method = found[1]
	}
	path := regexp.MustCompile(`\$B(/[^"?]*)`).FindStringSubmatch(arguments)[1]
	path = regexp.MustCompile(`/(chat|imgEdit|tts|team-a|ci|\d+)(/|$)`).ReplaceAllString(path, "/*$2")
	return method + " " + path
}
