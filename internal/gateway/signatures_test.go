package gateway_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// stored is a gateway with a master key whose instances were added over the API, so that
// nothing but its versions has their keys and addresses.
type stored struct {
	setup gatewaytest.Setup
	by    intruder
	own   *simulator.Backend // gets what its instances send
	spy   *spy               // belongs to the intruder
}

// spy is a backend and a proxy that notes what it is sent.
type spy struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newSpy(t *testing.T) *spy {
	t.Helper()
	s := new(spy)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, fmt.Sprint(r.URL, r.Header))
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(s.Close)
	return s
}

// saw reports whether the spy was sent a text.
func (s *spy) saw(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(strings.Join(s.seen, "\n"), text)
}

const (
	storedKey    = "sk-that-only-the-store-has"
	storedHeader = "a-header-that-only-the-store-has"
	ownVariable  = "the-value-of-the-variable-that-the-file-uses"
)

// signedStores returns a gateway that was started, got an instance over the API and was
// stopped: on disk, and with a shared configuration. Its current version is 2. The file
// refers to OWN_KEY for an instance of its own.
func signedStores(t *testing.T, test func(t *testing.T, s *stored)) {
	t.Helper()
	for _, isShared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %t", isShared), func(t *testing.T) {
			t.Parallel()
			s := &stored{own: gatewaytest.StartBackend(t), spy: newSpy(t)}
			s.setup = gatewaytest.Setup{
				DataDir: t.TempDir(), Env: []string{"OWN_KEY=" + ownVariable, "MASTER=" + rand.Text() + rand.Text()},
				YAML: "security: {master-key: '${MASTER}'}\n" + gatewaytest.ChatYAML(gatewaytest.Instance("of-file", s.own.URL(), "api-key: '${OWN_KEY}'")),
			}
			s.by = onDisk{s.setup.DataDir}
			if isShared {
				database := storetest.Postgres(t)
				s.by = inPostgres{database.URL}
				s.setup.YAML += fmt.Sprintf("store: {config: %s}\n", gatewaytest.Quote(database.URL))
			}
			r := s.start(t)
			var added gatewaytest.ManagementReply
			gatewaytest.Eventually(t, "the shared configuration is known", func() bool {
				added = r.API(http.MethodPost, "/api/config/instance/add/chat",
					fmt.Sprintf(`{"name": "m", "baseUrl": %q, "apiKey": %q, "headers": {"X-Team": %q}}`, s.own.URL(), storedKey, storedHeader))
				return added.Status != http.StatusServiceUnavailable
			})
			added.Is(t, http.StatusCreated)
			r.Halt()
			test(t, s)
		})
	}
}

func (s *stored) start(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.StartWith(t, s.setup)
}

// refuses returns why a gateway does not start.
func (s *stored) refuses(t *testing.T) error {
	t.Helper()
	g, err := gateway.New(gatewaytest.LoadDocumentWith(t, s.setup.YAML, s.setup.DataDir, s.setup.Env...), logs.New(new(gatewaytest.Buffer), logs.JSON, slog.LevelDebug), gateway.Options{})
	if err == nil {
		g.Start()
		g.Stop(t.Context())
		t.Fatal("the gateway starts")
	}
	return err
}

// instanceOf returns an instance of a version, by the name of its model.
func instanceOf(t *testing.T, record map[string]any, name string) map[string]any {
	t.Helper()
	chat := record["services"].(map[string]any)["chat"].(map[string]any)
	for _, instance := range chat["instances"].([]any) {
		if settings := instance.(map[string]any); settings["name"] == name {
			return settings
		}
	}
	t.Fatalf("there is no instance %s", name)
	return nil
}

// keepsSecrets sends requests for both models, and fails if the spy gets a secret.
func (s *stored) keepsSecrets(t *testing.T, r *gatewaytest.Gateway) {
	t.Helper()
	for _, model := range []string{"m", "of-file"} {
		r.Chat(chatFor(model))
	}
	for _, instance := range []string{"m@" + s.own.URL(), "of-file@" + s.own.URL(), "m@" + s.spy.URL} {
		r.API(http.MethodPost, "/api/config/instance/test/chat", fmt.Sprintf(`{"instanceId": %q}`, instance))
	}
	for _, secret := range []string{storedKey, storedHeader, ownVariable} {
		if s.spy.saw(secret) {
			t.Errorf("the intruder got %s", secret)
		}
	}
}

// serves fails unless requests for a model reach its own backend with these credentials.
func (s *stored) serves(t *testing.T, r *gatewaytest.Gateway, model, authorization string) {
	t.Helper()
	r.Chat(chatFor(model)).Succeeds(t)
	if got := lastAuthorization(s.own); got != "Bearer "+authorization {
		t.Errorf("the backend of %s got %q", model, got)
	}
}

// attacks are ways to make an instance send its secrets to somebody else, by a version
// that nobody signed.
func attacks(s *stored) map[string]func(t *testing.T, record map[string]any) {
	edit := func(name string, change func(instance map[string]any)) func(*testing.T, map[string]any) {
		return func(t *testing.T, record map[string]any) { change(instanceOf(t, record, name)) }
	}
	host := strings.TrimPrefix(s.spy.URL, "http://")
	return map[string]func(*testing.T, map[string]any){
		"proxy":                   edit("m", func(i map[string]any) { i["proxy"] = s.spy.URL }),
		"proxy of a reference":    edit("of-file", func(i map[string]any) { i["proxy"] = s.spy.URL }),
		"address":                 edit("m", func(i map[string]any) { i["baseUrl"] = s.spy.URL }),
		"address of a reference":  edit("of-file", func(i map[string]any) { i["baseUrl"] = s.spy.URL }),
		"path that is an address": edit("m", func(i map[string]any) { i["path"] = "//" + host + "/" }),
		"reference of another one": edit("m", func(i map[string]any) {
			i["baseUrl"], i["apiKey"] = s.spy.URL, map[string]any{"reference": "${OWN_KEY}"}
		}),
		"reference in a header": edit("m", func(i map[string]any) {
			i["baseUrl"], i["apiKey"], i["headers"] = s.spy.URL, "", map[string]any{"X-Key": map[string]any{"reference": "${OWN_KEY}"}}
		}),
		"a copy at another address": func(t *testing.T, record map[string]any) {
			chat := record["services"].(map[string]any)["chat"].(map[string]any)
			copied := decode(t, encode(t, instanceOf(t, record, "m")))
			copied["baseUrl"] = s.spy.URL
			chat["instances"] = append(chat["instances"].([]any), copied)
		},
	}
}

func chatFor(model string) string {
	return `{"model":"` + model + `",` + gatewaytest.SomeMessages + `}`
}

// TestUnsignedVersionsSendNoSecretsElsewhere: a version that nobody signed does not come into force, and so gives none
// of the secrets of a gateway to anybody.
func TestUnsignedVersionsSendNoSecretsElsewhere(t *testing.T) {
	t.Parallel()
	names := []string{}
	for name := range attacks(&stored{spy: &spy{Server: &httptest.Server{}}}) {
		names = append(names, name)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signedStores(t, func(t *testing.T, s *stored) {
				record := s.by.record(t, 2)
				attacks(s)[name](t, record)
				record["version"] = 3
				s.by.put(t, 3, record)
				s.by.setCurrent(t, 3)
				s.forget(t)
				err := s.refuses(t)
				if !errors.Is(err, mark.ErrMasterKey) && !errors.Is(err, versions.ErrForged) {
					t.Error(err)
				}
			})
		})
	}
}

// forget gives a gateway an empty data directory, as a container without a volume has.
// Where the configuration is not shared it has nothing else, and keeps it.
func (s *stored) forget(t *testing.T) {
	t.Helper()
	if _, isShared := s.by.(inPostgres); isShared {
		s.setup.DataDir = t.TempDir()
	}
}

// TestForgedVersionsDoNotComeIntoForce: a version or a pointer to the current one whose
// signature is wrong ends the start, whatever is wrong with it.
func TestForgedVersionsDoNotComeIntoForce(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(t *testing.T, s *stored){
		"a setting": func(t *testing.T, s *stored) {
			record := s.by.record(t, 2)
			instanceOf(t, record, "m")["proxy"] = s.spy.URL
			s.by.put(t, 2, record)
		},
		"a plain header": func(t *testing.T, s *stored) {
			record := s.by.record(t, 2)
			instanceOf(t, record, "m")["headers"].(map[string]any)["X-Target"] = s.spy.URL
			s.by.put(t, 2, record)
		},
		"a key": func(t *testing.T, s *stored) {
			record := s.by.record(t, 2)
			instanceOf(t, record, "m")["apiKey"] = "another"
			s.by.put(t, 2, record)
		},
		"terms": func(t *testing.T, s *stored) {
			record := s.by.record(t, 2)
			record["terms"] = map[string]any{}
			s.by.put(t, 2, record)
		},
		"the signature of another version": func(t *testing.T, s *stored) { s.by.sign(t, 2, s.by.signature(t, 1)) },
		"another version with its signature": func(t *testing.T, s *stored) {
			record := s.by.record(t, 1)
			record["version"] = 2
			s.by.put(t, 2, record)
			s.by.sign(t, 2, s.by.signature(t, 1))
		},
		"no signature at all": func(t *testing.T, s *stored) { s.by.sign(t, 2, "{}") },
		"the pointer": func(t *testing.T, s *stored) {
			s.by.sign(t, 0, strings.Replace(s.by.signature(t, 0), `"mac":"v1.`, `"mac":"v2.`, 1))
		},
		"a doubt that is gone": func(t *testing.T, s *stored) {
			s.by.sign(t, 2, strings.Replace(s.by.signature(t, 2), "}", `,"doubts":{"chat/x":"bare"}}`, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signedStores(t, func(t *testing.T, s *stored) {
				forge(t, s)
				s.forget(t)
				if err := s.refuses(t); !errors.Is(err, versions.ErrForged) || !strings.Contains(err.Error(), "does not have the master key") {
					t.Error(err)
				}
			})
		})
	}
}

// TestForgedVersionsLeaveRunningGatewaysAlone: a gateway that has a good configuration
// keeps it, also over a restart, and says loudly what is wrong.
func TestForgedVersionsLeaveRunningGatewaysAlone(t *testing.T) {
	t.Parallel()
	signedStores(t, func(t *testing.T, s *stored) {
		if _, isShared := s.by.(inPostgres); !isShared {
			t.Skip("only a shared configuration changes while a gateway runs")
		}
		r := s.start(t)
		record := s.by.record(t, 2)
		instanceOf(t, record, "m")["proxy"] = s.spy.URL
		record["version"] = 3
		s.by.put(t, 3, record)
		s.by.sign(t, 3, s.by.signature(t, 2))
		s.by.setCurrent(t, 3)
		for range 2 {
			gatewaytest.Eventually(t, "the forgery is reported", func() bool {
				failure := r.Control.Following().Failure()
				return failure != nil && strings.Contains(failure.Reason, "the signature is wrong")
			})
			gatewaytest.Eventually(t, "the log tells of it", func() bool {
				out := r.Logs.String()
				return strings.Contains(out, `"level":"ERROR"`) && strings.Contains(out, "the signature is wrong")
			})
			if version := r.Control.Version(); version != 2 {
				t.Errorf("version %d is in force", version)
			}
			s.serves(t, r, "m", storedKey)
			s.keepsSecrets(t, r)
			r.Halt()
			r = s.start(t)
		}
	})
}

// TestRemovedSignaturesOpenNothing: who removes one signature or all of them gets no start.
func TestRemovedSignaturesOpenNothing(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, s *stored){
		"of the version": func(t *testing.T, s *stored) { s.by.sign(t, 2, "") },
		"all":            func(t *testing.T, s *stored) { s.by.unsign(t) },
	} {
		for _, model := range []string{"m", "of-file"} {
			t.Run(name+"/"+model, func(t *testing.T) {
				t.Parallel()
				signedStores(t, func(t *testing.T, s *stored) {
					record := s.by.record(t, 2)
					instanceOf(t, record, model)["proxy"] = s.spy.URL
					s.by.put(t, 2, record)
					remove(t, s)
					s.forget(t)
					if err := s.refuses(t); !errors.Is(err, versions.ErrForged) {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestEarlierVersionsComeBackAsTheyWere: moving the pointer to an earlier signed version,
// without a signature or with the one that it had then, sends its secrets to the addresses
// that it was signed with.
func TestEarlierVersionsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	signedStores(t, func(t *testing.T, s *stored) {
		r := s.start(t)
		r.ChangeChat(func(chat *config.Service) { chat.RateLimit.Capacity++ })
		r.Halt()
		s.by.setCurrent(t, 2)
		r = s.start(t)
		if version := r.Control.Version(); version != 2 {
			t.Errorf("version %d is in force", version)
		}
		s.serves(t, r, "m", storedKey)
		s.serves(t, r, "of-file", ownVariable)
		s.keepsSecrets(t, r)
	})
}
