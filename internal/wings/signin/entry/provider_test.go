package entry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// provider is a provider that can be made to lie and to hang.
type provider struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	keys   []jose.JSONWebKey                  // published; the first one signs
	claims map[string]any                     // of the id token
	info   map[string]any                     // of userinfo
	lie    func(claims map[string]any)        // changes the id token
	sign   func(claims map[string]any) string // replaces the signature
	meta   func(map[string]any)               // changes the settings
	hang   string                             // the path that does not answer
	asked  map[string]int                     // questions by path
	codes  map[string]url.Values              // what each code was asked with
	done   chan struct{}
}

const (
	clientID = "patchbay"
	secret   = "a secret: with+signs"
)

func startProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, asked: map[string]int{}, codes: map[string]url.Values{}, done: make(chan struct{}),
		claims: map[string]any{"sub": "ada-1", "name": "Ada Lovelace", "groups": []string{"ops", "staff"}, "sid": "seat-1"},
		info:   map[string]any{"sub": "ada-1"}}
	p.rotate("k1")
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() { close(p.done); p.Server.Close() })
	return p
}

// rotate publishes a new key, which signs from now on, and withdraws the others.
func (p *provider) rotate(id string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		p.t.Fatal(err)
	}
	p.set(func() { p.keys = []jose.JSONWebKey{{Key: key, KeyID: id, Algorithm: "RS256", Use: "sig"}} })
}

func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// count returns how often a path was asked for.
func (p *provider) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked[r.URL.Path]++
	hangs := p.hang == r.URL.Path
	p.mu.Unlock()
	if hangs {
		select {
		case <-r.Context().Done():
		case <-p.done:
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		meta := map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize?tenant=x", "token_endpoint": p.URL + "/token",
			"jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/userinfo", "end_session_endpoint": p.URL + "/logout", "backchannel_logout_supported": true}
		if p.meta != nil {
			p.meta(meta)
		}
		p.write(w, meta)
	case "/keys":
		set := jose.JSONWebKeySet{}
		for _, key := range p.keys {
			set.Keys = append(set.Keys, key.Public())
		}
		p.write(w, set)
	case "/authorize":
		code := rand.Text()
		p.codes[code] = r.URL.Query()
		to, _ := url.Parse(r.URL.Query().Get("redirect_uri"))
		to.RawQuery = url.Values{"code": {code}, "state": {r.URL.Query().Get("state")}, "iss": {p.URL}}.Encode()
		http.Redirect(w, r, to.String(), http.StatusFound)
	case "/token":
		p.token(w, r)
	case "/userinfo":
		p.write(w, p.info)
	default:
		http.NotFound(w, r)
	}
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	asked := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	user, password, _ := r.BasicAuth()
	if asked == nil || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("code_challenge_method") != "S256" ||
		asked.Get("redirect_uri") != r.PostFormValue("redirect_uri") || user != clientID || password != url.QueryEscape(secret) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant","error_description":"no"}`)
		return
	}
	claims := maps.Clone(p.claims)
	now := time.Now()
	maps.Copy(claims, map[string]any{"iss": p.URL, "aud": clientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": asked.Get("nonce")})
	if p.lie != nil {
		p.lie(claims)
	}
	text := ""
	if p.sign != nil {
		text = p.sign(claims)
	} else {
		text = p.signed(claims)
	}
	p.write(w, map[string]any{"id_token": text, "access_token": "at", "token_type": "Bearer"})
}

// signed returns a token that the newest key has signed.
func (p *provider) signed(claims map[string]any) string {
	return signedBy(p.t, jose.SignatureAlgorithm(p.keys[0].Algorithm), p.keys[0], claims)
}

func signedBy(t *testing.T, algorithm jose.SignatureAlgorithm, key any, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Error(err)
		return ""
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Error(err)
		return ""
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Error(err)
	}
	return text
}

// logoutToken returns the token with which the provider tells that somebody signed out there.
func (p *provider) logoutToken(claims map[string]any) string {
	now := time.Now()
	all := map[string]any{"iss": p.URL, "aud": clientID, "iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(), "jti": rand.Text(),
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}
	maps.Copy(all, claims)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signed(all)
}

func (p *provider) write(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.MarshalWrite(w, value); err != nil {
		p.t.Error(err)
	}
}

func newECKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
