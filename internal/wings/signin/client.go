package signin

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
)

const (
	// stepTime bounds one question to a provider.
	stepTime = 5 * time.Second
	// freshTime is how long the settings of a provider are used before they are read again, and
	// restTime how long a failure to read them is believed.
	freshTime = time.Hour
	restTime  = 2 * time.Second
	wellKnown = "/.well-known/openid-configuration"
)

// Metadata are the settings that a provider publishes.
type Metadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	UserInfo      string   `json:"userinfo_endpoint"`
	Keys          string   `json:"jwks_uri"`
	EndSession    string   `json:"end_session_endpoint"`
	BackChannel   bool     `json:"backchannel_logout_supported"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// Client asks one provider. Nothing is asked before somebody signs in.
type Client struct {
	Provider

	callback string // where the provider sends people back to
	log      *slog.Logger
	turn     chan struct{} // holds a token while the provider's settings are not read
	warning  jwt.EmailWarning

	mu     sync.Mutex // guards the fields below
	meta   *Metadata
	keys   *jwt.Keys
	read   time.Time // of the last attempt
	failed error     // of the last attempt
}

// NewClient returns a client of a provider, for a gateway that people know by an address.
func NewClient(p Provider, publicURL string, log *slog.Logger) *Client {
	c := &Client{Provider: p, callback: strings.TrimSuffix(publicURL, "/") + "/auth/callback", log: log,
		turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

// Close ends what runs in the background.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys != nil {
		c.keys.Close()
	}
}

// Failure returns why the provider's settings could not be read the last time; nil if they could,
// or were never read.
func (c *Client) Failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Discover returns the settings of the provider. Those that were read before hold while they cannot
// be read.
func (c *Client) Discover(ctx context.Context) (*Metadata, *jwt.Keys, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*stepTime)
	defer cancel()
	select {
	case <-c.turn:
	case <-ctx.Done():
		return nil, nil, say.Wrap(ctx.Err(), "issuer.away", "why", ctx.Err())
	}
	defer func() { c.turn <- struct{}{} }()
	c.mu.Lock()
	meta, keys, failed, age := c.meta, c.keys, c.failed, time.Since(c.read)
	c.mu.Unlock()
	if failed == nil && meta != nil && age < freshTime || failed != nil && age < restTime {
		if meta == nil {
			return nil, nil, failed
		}
		return meta, keys, nil
	}
	found, err := c.readMetadata(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.failed = time.Now(), err
	if err != nil {
		if failed == nil {
			c.log.Warn("the settings of a provider for sign-in cannot be read", "provider", c.Name, "error", err)
		}
		if c.meta == nil {
			return nil, nil, err
		}
		return c.meta, c.keys, nil
	}
	if c.keys != nil {
		c.keys.Close()
	}
	// The keys are read when the next person comes back, so one that was withdrawn is not used.
	c.keys = jwt.NewKeys(jwt.Source{Name: c.Name, URL: found.Keys, CA: c.CA, Log: c.log})
	c.meta = found
	return c.meta, c.keys, nil
}

func (c *Client) readMetadata(ctx context.Context) (*Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	data, err := jwt.Get(ctx, strings.TrimSuffix(c.Issuer, "/")+wellKnown, c.CA)
	if err != nil {
		return nil, err
	}
	meta := new(Metadata)
	if err := json.Unmarshal(data, meta); err != nil {
		return nil, say.Error("signin.metadata")
	}
	if meta.Issuer != c.Issuer {
		return nil, say.Error("signin.issuer", "found", shorten(meta.Issuer), "issuer", c.Issuer)
	}
	for name, address := range map[string]string{"authorization_endpoint": meta.Authorization,
		"token_endpoint": meta.Token, "jwks_uri": meta.Keys, "userinfo_endpoint": meta.UserInfo,
		"end_session_endpoint": meta.EndSession} {
		if isOptional := name == "userinfo_endpoint" || name == "end_session_endpoint"; address == "" && isOptional {
			continue
		}
		fault := outgoing.AddressFault(address)
		if isDowngrade := strings.HasPrefix(c.Issuer, "https:") && strings.HasPrefix(address, "http:"); isDowngrade {
			fault = say.New("field.url_scheme")
		}
		if fault.Is() {
			return nil, say.Error("signin.endpoint", "name", name, "fault", fault)
		}
	}
	return meta, nil
}

// Challenge are the secrets of one sign-in.
type Challenge struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
}

// Address returns where the browser goes to sign in.
func (c *Client) Address(ctx context.Context, secrets Challenge, codeChallenge string) (string, error) {
	meta, _, err := c.Discover(ctx)
	if err != nil {
		return "", err
	}
	to, err := url.Parse(meta.Authorization)
	if err != nil {
		return "", err
	}
	query := to.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": c.ClientID, "redirect_uri": c.callback,
		"scope": strings.Join(append([]string{"openid"}, c.Scopes...), " "), "state": secrets.State,
		"nonce": secrets.Nonce, "code_challenge": codeChallenge, "code_challenge_method": "S256",
	} {
		query.Set(name, value)
	}
	to.RawQuery = query.Encode()
	return to.String(), nil
}

// LogoutAddress returns where the browser ends the person's session at the provider, and where it
// comes back to; empty where the provider has no such place or is not known now.
func (c *Client) LogoutAddress(publicURL string) string {
	c.mu.Lock()
	meta := c.meta
	c.mu.Unlock()
	if meta == nil || meta.EndSession == "" {
		return ""
	}
	to, err := url.Parse(meta.EndSession)
	if err != nil {
		return ""
	}
	query := to.Query()
	query.Set("client_id", c.ClientID)
	query.Set("post_logout_redirect_uri", strings.TrimSuffix(publicURL, "/")+"/")
	to.RawQuery = query.Encode()
	return to.String()
}

// Person is somebody whom a provider has identified.
type Person struct {
	Subject, Name, Seat string
	// Claims are those that rules ask for.
	Claims map[string][]string
}

// Identify exchanges the code of a sign-in for the person.
func (c *Client) Identify(ctx context.Context, code string, secrets Challenge) (*Person, error) {
	meta, keys, err := c.Discover(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := c.exchange(ctx, meta, code, secrets.Verifier)
	if err != nil {
		return nil, err
	}
	verifying, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	if keys.Set() == nil {
		// This read is none for the sake of an unknown key, of which there is one a minute.
		if err := keys.Read(verifying); err != nil {
			return nil, err
		}
	}
	claims, err := keys.Verify(verifying, tokens.ID, jwt.Expected{Issuer: c.Issuer, Audience: []string{c.ClientID}},
		time.Now())
	if err != nil {
		return nil, err
	}
	if nonce, _ := claims["nonce"].(string); nonce != secrets.Nonce || nonce == "" {
		return nil, say.Error("signin.nonce")
	}
	if _, isList := claims["aud"].([]any); isList || claims["azp"] != nil {
		// A token that names several audiences says which one asked for it.
		if azp, _ := claims["azp"].(string); azp != "" && azp != c.ClientID {
			return nil, say.Error("token.audience")
		}
	}
	sources := []jwt.Claims{claims}
	if c.lacks(claims.Verified(c.TrustEmail)) && meta.UserInfo != "" && tokens.Access != "" {
		more, err := c.userInfo(ctx, meta, tokens.Access)
		if err != nil {
			return nil, err
		}
		if more.Subject() != claims.Subject() {
			return nil, say.Error("signin.userinfo_other")
		}
		sources = append(sources, more)
	}
	if c.usesEmail() {
		for _, source := range sources {
			c.warning.Check(c.log, "security.oidc", c.Name, source)
		}
	}
	seat, _ := claims["sid"].(string)
	return &Person{Subject: claims.Subject(), Name: nameOf(sources), Seat: seat, Claims: c.Kept(sources...)}, nil
}

// ErrCode means that the provider does not take the code of a sign-in.
var ErrCode = say.Error("signin.code")

// tokens are the answer to a code.
type tokens struct {
	ID     string `json:"id_token"`
	Access string `json:"access_token"`
}

func (c *Client) exchange(ctx context.Context, meta *Metadata, code, verifier string) (*tokens, error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {c.callback},
		"code_verifier": {verifier}}
	isBasic := len(meta.AuthMethods) == 0 || slices.Contains(meta.AuthMethods, "client_secret_basic")
	if c.ClientSecret == "" || !isBasic {
		form.Set("client_id", c.ClientID)
	}
	if c.ClientSecret != "" && !isBasic {
		form.Set("client_secret", c.ClientSecret)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, meta.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c.ClientSecret != "" && isBasic {
		request.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(c.ClientSecret))
	}
	answer := new(tokens)
	if err := c.ask(ctx, request, answer); err != nil {
		return nil, err
	}
	if answer.ID == "" {
		return nil, say.Error("signin.no_id_token")
	}
	return answer, nil
}

func (c *Client) userInfo(ctx context.Context, meta *Metadata, token string) (claims jwt.Claims, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, meta.UserInfo, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	err = c.ask(ctx, request, &claims)
	return claims, err
}

// ask sends a question to the provider and reads the answer, which is JSON.
func (c *Client) ask(ctx context.Context, request *http.Request, to any) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	data, status, err := jwt.Ask(request.WithContext(ctx), c.CA)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		var refusal struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(data, &refusal) == nil && refusal.Error == "invalid_grant" {
			return ErrCode
		}
		if refusal.Error != "" {
			return say.Error("signin.refused", "error", shorten(refusal.Error))
		}
		return say.Error("issuer.status", "status", status)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return say.Error("signin.answer")
	}
	return nil
}
