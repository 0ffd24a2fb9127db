package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// atOnce is how many backends are asked at a time.
const atOnce = 16

// group is the instances that are reached in the same way.
type group struct {
	adapter   string
	settings  backend.Settings // of the first
	instances []backend.Settings
}

// backends asks every backend for its models.
func (e *examination) backends(ctx context.Context) []Finding {
	groups := e.groups()
	if len(groups) == 0 && len(e.Document.ProcessNames()) > 0 {
		return nil // the servers of all instances are processes
	}
	if len(groups) == 0 && slices.ContainsFunc(slices.Collect(maps.Values(e.Document.Services)),
		func(s config.Service) bool { return len(s.Instances) > 0 }) {
		return []Finding{warn("backends", "enable one of them", "all instances are disabled")}
	}
	if len(groups) == 0 {
		return []Finding{warn("backends", "add some: patchbay add http://HOST:PORT, or services.chat.instances in "+
			"the file", "no instances are configured")}
	}
	findings := make([][]Finding, len(groups))
	slots := make(chan struct{}, atOnce)
	var asking sync.WaitGroup
	for i := range groups {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, e.CheckTime)
			defer cancel()
			findings[i] = e.backend(ctx, &groups[i])
		})
	}
	asking.Wait()
	return slices.Concat(findings...)
}

// groups returns the instances that are enabled, by how they are reached.
func (e *examination) groups() []group {
	var groups []group
	for _, serviceType := range schema.ServiceTypes() {
		service := e.Document.Services[serviceType]
		for _, instance := range service.Instances {
			if !instance.Enabled || instance.Process != "" {
				continue
			}
			adapter := cmp.Or(instance.Adapter, service.Adapter)
			at := slices.IndexFunc(groups, func(g group) bool {
				return g.adapter == adapter &&
					reachedAlike(g.settings, instance)
			})
			if at < 0 {
				at = len(groups)
				groups = append(groups, group{adapter: adapter, settings: instance})
			}
			groups[at].instances = append(groups[at].instances, instance)
		}
	}
	return groups
}

func reachedAlike(a, b backend.Settings) bool {
	return a.BaseURL == b.BaseURL && a.APIKey == b.APIKey && a.Proxy == b.Proxy && a.TLS == b.TLS
}

// backend judges one backend.
func (e *examination) backend(ctx context.Context, g *group) []Finding {
	area := "backend " + g.settings.BaseURL
	reached := &attempt{}
	found, err := ask(ctx, g, e.sender(g, reached))
	if err != nil {
		return []Finding{fail(area, "correct the instance; patchbay check says where it is", "%v", err)}
	}
	if reached.cause != transport.CauseNone {
		return []Finding{fail(area, fixOf(reached.cause, g.adapter), "%s", reached.cause.Text())}
	}
	var findings []Finding
	root, endpoint := kinds.CutEndpoint(g.settings.BaseURL)
	switch {
	case endpoint != "" && found.Adapter == "":
		return append(findings, fail(area, "write base-url: "+root,
			"base-url ends in the endpoint %s: status %d of %s", endpoint, reached.status, reached.url))
	case reached.status == http.StatusUnauthorized || reached.status == http.StatusForbidden:
		return append(findings, fail(area, "give the instance an api-key that the backend takes, or set the variable "+
			"that it refers to", "the backend refuses the key (status %d)", reached.status))
	case reached.status >= http.StatusInternalServerError:
		findings = append(findings, fail(area, "look at the log of the backend", "it answers with status %d",
			reached.status))
	case found.Adapter == "":
		findings = append(findings, ok(area, "answers in %s; it has no list of models to compare with", reached.took))
	default:
		findings = append(findings, ok(area, "answers in %s and has %s", reached.took,
			say.Counted(len(found.Models), "model")))
		findings = append(findings, missingModels(area, g, found.Models)...)
	}
	findings = append(findings, e.adapters(ctx, area, g)...)
	if finding, has := peerCertificate(ctx, area, g.settings); has {
		findings = append(findings, finding)
	}
	return findings
}

// ask asks a backend for its models. A backend that lists models to deploy, not deployed
// ones, is only called.
func ask(ctx context.Context, g *group, send discover.Send) (discover.Found, error) {
	kind, err := kinds.Lookup(g.adapter)
	if err != nil || kind.Deployments == "" || g.settings.Models.Given() {
		return discover.Ask(ctx, send, discover.Backend{BaseURL: g.settings.BaseURL, APIKey: g.settings.APIKey,
			Adapter: g.adapter})
	}
	asked := g.settings.Found("deployment")
	asked.Adapter, asked.Path = g.adapter, "/"
	if _, _, err := send(ctx, schema.Chat, asked, ""); errors.Is(err, discover.ErrRefused) {
		return discover.Found{}, err
	}
	return discover.Found{}, nil
}

// attempt is the result of asking a backend.
type attempt struct {
	cause  transport.Cause
	status int
	url    string
	took   time.Duration
}

// sender asks a backend as the instances of a group would, with their headers, proxy and
// certificates.
func (e *examination) sender(g *group, reached *attempt) discover.Send {
	return func(ctx context.Context, serviceType schema.ServiceType, asked backend.Settings,
		post string) (int, []byte, error) {
		described := g.settings.Found(asked.Name)
		described.BaseURL, described.Adapter, described.Path = asked.BaseURL, asked.Adapter, asked.Path
		doc := e.Document.Alone(serviceType, config.DefaultService(), described)
		table, err := routing.Compile(doc.Routed(), nil, nil)
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", discover.ErrRefused, err)
		}
		instance := table.Service(serviceType).Instance(described.ID())
		if instance.Fault.Is() {
			return 0, nil, fmt.Errorf("%w: %s", discover.ErrRefused, instance.Fault)
		}
		call, err := discover.CallOf(ctx, instance, post)
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", discover.ErrRefused, err)
		}
		reached.url = instance.URL(call.Path)
		start := time.Now()
		response, err := e.client.Send(ctx, &instance.Origin, call,
			transport.Timeouts{Connect: e.CheckTime / 3, FirstByte: 2 * e.CheckTime / 3, Idle: 2 * e.CheckTime / 3})
		if err != nil {
			reached.cause = cmp.Or(transport.CauseOf(err), transport.CauseNoConnection)
			return 0, nil, errors.New(reached.cause.Text())
		}
		defer func() { _ = response.Close() }()
		if post == "" { // a posted body is meant to be refused
			reached.status, reached.took = response.Status, time.Since(start).Round(100*time.Microsecond)
		}
		e.heard(response.Header("Date"))
		body, err := io.ReadAll(io.LimitReader(response, discover.MaxList))
		return response.Status, body, err
	}
}

// missingModels names the models that the backend does not list.
func missingModels(area string, g *group, models []discover.Model) []Finding {
	var names []string
	for _, m := range models {
		names = append(names, m.ID)
	}
	var findings []Finding
	for _, instance := range g.instances {
		if instance.Models.Given() && !slices.ContainsFunc(names, instance.Models.Include) {
			findings = append(findings, warn(area, "load or pull a model there, or correct models",
				"lists no model that %s stands for", strings.Join(instance.Models, ", ")))
		}
		name := cmp.Or(instance.UpstreamModel, instance.Name)
		if instance.Models.Given() || slices.Contains(names, name) || slices.Contains(names, discover.ShortName(name)) {
			continue
		}
		fix := "correct name or upstream-model"
		if pull := kinds.GuideTo(g.adapter).Pull; pull != "" {
			fix = pull + name + ", or correct name or upstream-model"
		}
		message := fmt.Sprintf("does not list the model %q", name)
		if near := schema.Nearest(name, names, 1); len(near) > 0 {
			message += fmt.Sprintf(", but %q", near[0])
		}
		findings = append(findings, warn(area, fix, "%s", message))
	}
	return findings
}

// noAdapter is a LoRA adapter that no engine has. An engine without the commands says so before it looks
// for the path, and so does one that was started without LoRA.
const noAdapter, noPath = "patchbay-doctor", "/patchbay-doctor/there/is/no/such/adapter"

// adapters reports an engine that takes no LoRA adapters while it runs, although the file has some
// for its model.
func (e *examination) adapters(ctx context.Context, area string, g *group) []Finding {
	kind, err := kinds.Lookup(g.adapter)
	if err != nil {
		return nil
	}
	named := func(s backend.Settings) bool { return len(s.Adapted(e.Document.LoRAs())) > 0 }
	at := slices.IndexFunc(g.instances, named)
	switch {
	case at < 0:
		return nil
	case kind.Adapters.Load == nil:
		return []Finding{warn(area, "take the base out of loras, or correct adapter",
			"loras has adapters of %q, and engines of the kind %s take none while they run", g.instances[at].Name,
			kind.Name)}
	}
	base, absent := g.instances[at].Name, engines.Order{Model: noAdapter, Path: noPath}
	status, text, err := e.order(ctx, g, base, kind.Adapters.Load(absent))
	switch said := string(text); {
	case err != nil:
		return nil // it was reached before
	case status == http.StatusNotFound && strings.Contains(said, kind.Adapters.Unknown),
		strings.Contains(said, kind.Adapters.Off):
		return []Finding{warn(area, "start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True",
			"takes no LoRA adapters while it runs, and loras has some of %q", base)}
	case status < http.StatusMultipleChoices: // old engines look for the path when somebody asks for the adapter
		_, _, _ = e.order(ctx, g, base, kind.Adapters.Unload(absent))
	}
	return []Finding{ok(area, "takes LoRA adapters while it runs")}
}

// order sends a command to the engine of a group.
func (e *examination) order(ctx context.Context, g *group, model string, command engines.Command) (int, []byte, error) {
	to := backend.Settings{Name: model, BaseURL: g.settings.BaseURL, Adapter: g.adapter, Path: command.Path}
	if strings.HasSuffix(strings.TrimRight(to.BaseURL, "/"), "/v1") {
		to.Path = strings.TrimPrefix(to.Path, "/v1")
	}
	return e.sender(g, &attempt{})(ctx, schema.Chat, to, command.Body)
}

// fixOf returns a remedy for a backend that cannot be reached.
func fixOf(cause transport.Cause, adapter string) string {
	switch cause {
	case transport.CauseRefused:
		if start := kinds.GuideTo(adapter).Start; start != "" {
			return start + ", or correct base-url"
		}
		return "start the backend, or correct host and port of base-url"
	case transport.CauseUnknownHost, transport.CauseNameResolution:
		return "correct the host of base-url, or the name resolution of this machine"
	case transport.CauseUnreachable, transport.CauseConnectTimeout:
		return "look for a firewall or a wrong address between this machine and the backend"
	case transport.CauseUnknownAuthority:
		return "name the authority of its certificate in tls.ca of the instance"
	case transport.CauseWrongName:
		return "use the name of the certificate in base-url, or set tls.server-name of the instance"
	case transport.CauseExpired, transport.CauseCertificate:
		return "renew the certificate of the backend"
	case transport.CauseNotTLS:
		return "write http:// in base-url, or turn TLS on at the backend"
	case transport.CauseNotHTTP:
		return "write https:// in base-url, or correct the port: something else listens there"
	case transport.CauseProxyUnreachable, transport.CauseProxyRefused, transport.CauseProxyAuthentication:
		return "correct the proxy of the environment or of the instance, or set proxy: none"
	case transport.CauseForbidden:
		return "use another address: link-local addresses and metadata services are refused"
	}
	return "look at the backend and its log"
}

// peerCertificate judges when the certificate of a backend ends. Whether it is valid,
// the call has shown.
func peerCertificate(ctx context.Context, area string, settings backend.Settings) (Finding, bool) {
	address, err := url.Parse(settings.BaseURL)
	if err != nil || address.Scheme != "https" || settings.Proxy != "" && settings.Proxy != backend.ProxyNone {
		return Finding{}, false
	}
	dialer := tls.Dialer{NetDialer: outgoing.Dialer(), Config: &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: cmp.Or(settings.TLS.ServerName, address.Hostname()),
		InsecureSkipVerify: true, //nolint:gosec // only its end is read
	}}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address.Hostname(), cmp.Or(address.Port(), "443")))
	if err != nil {
		return Finding{}, false // such as behind a proxy of the environment
	}
	defer func() { _ = conn.Close() }()
	chain := conn.(*tls.Conn).ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return Finding{}, false
	}
	return expiry(area, "its certificate", chain[0].NotAfter), true
}
