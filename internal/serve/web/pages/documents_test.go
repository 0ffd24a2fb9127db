package pages_test

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// documentPages are the pages below /docs, with a word of each language.
var documentPages = map[string][2]string{
	"/docs": {"Documentation", "文档"}, "/docs/start": {"First five minutes", "最初的五分钟"}, "/docs/first-backend": {"First real backend", "接入第一个真实后端"},
	"/docs/traffic": {"Traffic policy", "流量策略"}, "/docs/quota": {"The quota ledger", "配额账本"}, "/docs/errors": {"Error codes", "错误码"},
	"/docs/balancing": {"Where a request goes", "请求发往哪里"}, "/docs/limits": {"Limits, slots and the queue", "限流、槽位与队列"},
	"/docs/failures": {"When a backend fails", "后端出故障时"}, "/docs/websockets": {"WebSockets", "WebSocket"},
	"/docs/models":  {"Models: names, discovery, sleep", "模型：名称、发现与休眠"},
	"/docs/caching": {"Answers that are kept or shared", "保留或共用的回答"},
}

func TestDocumentationIsServedInTwoLanguages(t *testing.T) {
	r := gatewaytest.Start(t, "")
	for path, titles := range documentPages {
		for i, lang := range []string{"en", "zh"} {
			page := r.Do("GET", path+"?lang="+lang, "").Succeeds(t)
			if !regexp.MustCompile(`<h1 id="[^"]+">`+titles[i]+`</h1>`).MatchString(page.Body) || page.Header.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("%s in %s: %v %.400s", path, lang, page.Header, page.Body)
			}
			if again := r.Do("GET", path+"?lang="+lang, "", "If-None-Match", page.Header.Get("Etag")); again.Status != 304 {
				t.Errorf("%s again: %d", path, again.Status)
			}
			if plain := r.Do("GET", path+"?lang="+lang, "", "Accept-Encoding", "identity").Succeeds(t); plain.Body != page.Body || plain.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s is something else without compression", path)
			}
		}
	}
	if page := r.Do("HEAD", "/docs/start", ""); page.Status != 200 || page.Body != "" {
		t.Errorf("HEAD: %d %s", page.Status, page.Body)
	}
}

// The address decides on the language, and else the browser as it does for the console.
func TestLanguageOfTheDocumentation(t *testing.T) {
	r := gatewaytest.Start(t, "")
	for _, c := range []struct{ query, accepted, want string }{
		{"", "", "en"}, {"", "de-DE,de;q=0.9", "en"}, {"", "zh-CN,zh;q=0.9,en;q=0.8", "zh"}, {"", "en-US, en;q=0.9, zh-TW;q=0.5", "zh"},
		{"", "en, zh;q=0", "en"}, {"", "en, zh; q=0.0", "en"}, {"", "ZH", "zh"}, {"", "zhx", "en"},
		{"?lang=zh", "en", "zh"}, {"?lang=en", "zh", "en"}, {"?lang=zh-CN", "", "zh"}, {"?lang=fr", "zh", "zh"}, {"?lang=", "", "en"},
	} {
		page := r.Do("GET", "/docs/start"+c.query, "", "Accept-Language", c.accepted).Succeeds(t)
		if !strings.Contains(page.Body, ` data-served="`+c.want+`"`) {
			t.Errorf("%q with %q is not in %s", c.query, c.accepted, c.want)
		}
		if !slices.Contains(page.Header.Values("Vary"), "Accept-Language") {
			t.Errorf("%v", page.Header)
		}
	}
}

// Every link of the pages to the gateway itself leads to something, and to a section that is
// there, also where keys and tokens are needed for everything else.
func TestLinksOfTheDocumentationLeadSomewhere(t *testing.T) {
	// The pages in both languages, their files, the console and the API.
	t.Run("beside the console", func(t *testing.T) { checkLinks(t, "security: {enabled: true}\n", 15) })
	t.Run("on a port without it", func(t *testing.T) { checkLinks(t, "server: {management-listen: '127.0.0.1:0'}\n", 13) })
}

func checkLinks(t *testing.T, yaml string, least int) {
	t.Helper()
	r := gatewaytest.Start(t, yaml)
	reference := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	bodies := map[string]string{}
	get := func(path string) string {
		if bodies[path] == "" {
			bodies[path] = r.Do("GET", path, "", "Accept", browser).Succeeds(t).Body
		}
		return bodies[path]
	}
	for page := range documentPages {
		for _, lang := range []string{"en", "zh"} {
			address := page + "?lang=" + lang
			content := get(address)
			for _, match := range reference.FindAllStringSubmatch(content, -1) {
				to, err := url.Parse(strings.ReplaceAll(match[1], "&amp;", "&"))
				if err != nil {
					t.Fatal(err)
				}
				if to.Host == "github.com" || to.Host == "127.0.0.1:8080" { // the repository, and the address of the demo
					continue
				}
				base, _ := url.Parse(address)
				full := base.ResolveReference(to)
				fragment := full.Fragment
				if full.Fragment = ""; full.Host != "" {
					t.Errorf("%s leads to %s", address, match[1])
					continue
				}
				if body := get(full.String()); fragment != "" && !strings.Contains(body, ` id="`+fragment+`"`) {
					t.Errorf("%s leads to %s, where there is no such section", address, match[1])
				}
				if lang := full.Query().Get("lang"); strings.HasPrefix(match[1], "/docs") && regexp.MustCompile(`^/docs(/[a-z-]+)?\?`).MatchString(match[1]) && lang != base.Query().Get("lang") {
					t.Errorf("%s leads to %s, in another language", address, match[1])
				}
			}
		}
	}
	if len(bodies) < least {
		t.Errorf("only %d addresses were looked at", len(bodies))
	}
}

func TestDocumentationLoadsNothingFromElsewhere(t *testing.T) {
	r := gatewaytest.Start(t, "")
	console := r.Do("GET", "/", "", "Accept", browser).Succeeds(t)
	for path := range documentPages {
		page := r.Do("GET", path, "", "Accept", browser).Succeeds(t)
		for _, name := range []string{"Content-Security-Policy", "Referrer-Policy", "Cross-Origin-Opener-Policy", "Permissions-Policy", "X-Content-Type-Options"} {
			if page.Header.Get(name) != console.Header.Get(name) || page.Header.Get(name) == "" {
				t.Errorf("%s: %s is %q", path, name, page.Header.Get(name))
			}
		}
		if inline := regexp.MustCompile(`<script>|<style|style="| on[a-z]+="`).FindString(page.Body); inline != "" {
			t.Errorf("%s has %q, which its policy forbids", path, inline)
		}
	}
}

// An address below /docs without a page is explained to people, and an error for programs.
func TestAPageThatDoesNotExistIsExplained(t *testing.T) {
	r := gatewaytest.Start(t, "")
	for _, path := range []string{"/docs/nothing", "/docs/start/more", "/docs/missing", "/docs/index", "/docs/en/start", "/docs/style.css.gz", "/docs/api/x"} {
		page := r.Do("GET", path+"?lang=zh", "", "Accept", browser)
		if page.Status != 404 || !strings.Contains(page.Body, "没有这个页面") || !strings.Contains(page.Body, `href="/docs/start?lang=zh"`) || page.Header.Get("Etag") != "" {
			t.Errorf("%s: %d %v %.200s", path, page.Status, page.Header, page.Body)
		}
		if answer := r.Do("GET", path, "", "Accept", "application/json"); answer.Status != 404 || !strings.HasPrefix(answer.Body, `{"error":`) {
			t.Errorf("%s for a program: %d %s", path, answer.Status, answer.Body)
		}
	}
	if answer := r.Do("POST", "/docs/start", ""); answer.Status != 405 || answer.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("POST: %d %v", answer.Status, answer.Header)
	}
	if page := r.Do("GET", "/docs/", "").Succeeds(t); !strings.Contains(page.Body, "First five minutes") {
		t.Error("/docs/ is not the contents")
	}
}
