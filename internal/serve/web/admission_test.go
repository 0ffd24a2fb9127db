package web_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// revocable is a gate with one token, which can be revoked.
type revocable struct {
	gate        *web.Gate
	credentials *access.Credentials
}

func newRevocable(t *testing.T) revocable {
	t.Helper()
	dir, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	settings := access.Settings{Enabled: true, Tokens: []access.Token{{Name: "v", Role: access.Viewer, TokenSHA256: access.HashOf("secret")}}}
	credentials, err := access.OpenCredentials(dir, settings, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	return revocable{web.NewGate(web.GateOptions{Roster: credentials.Roster, Version: func() int { return 1 }, Log: log}), credentials}
}

func (g revocable) revoke(t *testing.T) {
	if err := g.credentials.Tokens.Revoke(context.Background(), "v", access.Change{At: time.Now()}); err != nil {
		t.Error(err)
	}
}

// serve runs a handler behind the gate, and returns its reply and whether its connection
// was broken off.
func (g revocable) serve(method string, permission access.Permission, handler http.HandlerFunc) (reply *httptest.ResponseRecorder, broken bool) {
	shell := web.NewShell(g.gate.Guard(web.Route{Pattern: method + " /api/x", Permission: permission, Handler: handler}), web.Options{
		Log: slog.New(slog.DiscardHandler),
		Fail: func(w http.ResponseWriter, _ *http.Request, _ *schema.Error) {
			w.WriteHeader(http.StatusInternalServerError)
		},
	})
	reply = httptest.NewRecorder()
	defer func() {
		err, _ := recover().(error)
		broken = errors.Is(err, http.ErrAbortHandler)
	}()
	request := httptest.NewRequest(method, "http://localhost/api/x", nil)
	request.Header.Set("Authorization", "Bearer secret")
	shell.ServeHTTP(reply, request)
	return reply, false
}

// A reply that takes long ends within a second after its caller's token was revoked.
func TestLongRepliesEndWithTheirToken(t *testing.T) {
	t.Parallel()
	write := func(w http.ResponseWriter) error {
		_, err := io.WriteString(w, "x")
		return err
	}
	writeUntilRefused := func(w http.ResponseWriter) {
		for write(w) == nil {
			<-time.After(100 * time.Millisecond)
		}
	}
	for name, test := range map[string]struct {
		permission access.Permission
		handler    func(w http.ResponseWriter, r *http.Request)
		status     int
		broken     bool
		lasts      time.Duration
		method     string
	}{
		"a list that is written": {access.ReadTypes, func(w http.ResponseWriter, _ *http.Request) { writeUntilRefused(w) }, 200, true, 4 * time.Second, ""},
		"events that are written": {access.ReadTypes, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			writeUntilRefused(w)
		}, 200, false, 4 * time.Second, ""},
		"nothing is written": {access.ReadTypes, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusOK)
			_ = write(w)
		}, 401, false, 4 * time.Second, ""},
		"everything was written before": {access.ReadTypes, func(w http.ResponseWriter, r *http.Request) {
			_ = write(w)
			<-r.Context().Done()
		}, 200, false, 4 * time.Second, ""},
		"a panic": {access.ReadTypes, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			panic("a bug")
		}, 500, false, 4 * time.Second, ""},
		"what anyone may have": {access.Anyone, func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(10 * time.Second)
			_ = write(w)
		}, 200, false, 10 * time.Second, ""},
		"a change, perhaps of the token itself": {access.ReadTypes, func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(10 * time.Second)
			_ = write(w)
		}, 200, false, 10 * time.Second, http.MethodPost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := newRevocable(t)
				begun := time.Now()
				time.AfterFunc(3500*time.Millisecond, func() { gate.revoke(t) })
				reply, broken := gate.serve(cmp.Or(test.method, http.MethodGet), test.permission, test.handler)
				if lasted := time.Since(begun); lasted < test.lasts || lasted >= test.lasts+200*time.Millisecond {
					t.Errorf("it lasted %s, want %s", lasted, test.lasts)
				}
				if reply != nil && reply.Code != test.status || broken != test.broken {
					t.Errorf("status %d, broken off: %t", reply.Code, broken)
				}
				if reply != nil && test.status == http.StatusUnauthorized && (reply.Header().Get("Www-Authenticate") == "" || reply.Header().Get("Content-Length") == "1000") {
					t.Errorf("%v", reply.Header())
				}
			})
		})
	}
}

// A reply goes on for as long as its token is good.
func TestLongRepliesOfAGoodTokenGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reply, broken := newRevocable(t).serve(http.MethodGet, access.ReadTypes, func(w http.ResponseWriter, r *http.Request) {
			for range 3600 {
				<-time.After(time.Second)
				if _, err := io.WriteString(w, "x"); err != nil || r.Context().Err() != nil {
					t.Fatal(err, r.Context().Err())
				}
			}
		})
		if reply.Code != http.StatusOK || reply.Body.Len() != 3600 || broken {
			t.Errorf("%d, %d bytes, broken off: %t", reply.Code, reply.Body.Len(), broken)
		}
	})
}
