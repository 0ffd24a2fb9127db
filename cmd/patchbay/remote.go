package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
)

// remote is a gateway that this program asks over its API.
type remote struct {
	base, shown string // its URL, and its name in messages
	token       string
	hint        string // how a token is given
	client      interface {
		Do(*http.Request) (*http.Response, error)
	}
	patience time.Duration // how long a reply may take; 30 s if 0
}

// remoteOver returns a gateway that is asked with a token.
func remoteOver(at reachable, token string) remote {
	return remote{base: at.base, shown: at.shown, token: token, client: outgoing.New(at.options)}
}

// remoteFlags name a running gateway: by its URL, or by the configuration that it was
// started with.
type remoteFlags struct {
	settingFlags
	trust      trustFlags
	url, token string
	// isClient says that the unified API is used with a key; without it, the gateway is
	// managed with a token.
	isClient bool
	// mayBeOffline is true if the data directory of a gateway that does not run is used unless a URL
	// is given, and makes if one that is not there is made.
	mayBeOffline, makes bool
}

// flagsIn returns the flags for an environment.
func flagsIn(env []string) remoteFlags { return remoteFlags{settingFlags: settingFlags{env: env}} }

const remotePlaces = `The gateway is the one that serve would run with the same flags on this machine, or
the one of --url or PATCHBAY_URL. Where security is on, --token or PATCHBAY_TOKEN is a
management token.`

const batchPlaces = `The gateway is the one that serve would run with the same flags on this machine, or
the one of --url or PATCHBAY_URL. Where keys are needed, --key or PATCHBAY_KEY is an API
key.`

func (f *remoteFlags) register(cmd *cobra.Command) {
	f.settingFlags.register(cmd)
	f.trust.register(cmd)
	registerURL(cmd, &f.url)
	if !f.mayBeOffline {
		excludeFromURL(cmd)
	}
	if f.isClient {
		cmd.Flags().StringVar(&f.token, "key", "", "API key (default $PATCHBAY_KEY)")
	} else {
		cmd.Flags().StringVar(&f.token, "token", "", "management token (default $PATCHBAY_TOKEN)")
	}
}

// registerURL adds the flag for the address of a gateway.
func registerURL(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "url", "",
		"address of a running gateway, such as http://127.0.0.1:8080 (default $PATCHBAY_URL)")
}

// excludeFromURL refuses the flags of a configuration beside --url, for verbs that find a gateway
// by either.
func excludeFromURL(cmd *cobra.Command) {
	for _, other := range []string{"config", "listen", "data-dir", "set"} {
		cmd.MarkFlagsMutuallyExclusive("url", other)
	}
}

// remote returns the gateway that the flags name. One that was started on this machine
// is asked without verifying its certificate, unless a token is sent.
func (f *remoteFlags) remote() (remote, error) {
	addresses, name := managementAddresses, "TOKEN"
	if f.isClient {
		addresses, name = func(server config.Server) []string { return server.Listen }, "KEY"
	}
	at, err := gatewayAddress(&f.settingFlags, f.url, addresses)
	if err != nil {
		return remote{}, err
	}
	token := cmp.Or(f.token, variable(f.env, "PATCHBAY_"+name))
	if token != "" && at.options.TLS != nil {
		at.options.TLS.InsecureSkipVerify = false
	}
	if err := f.trust.apply(&at.options); err != nil {
		return remote{}, &exitError{exitUsage, err}
	}
	r := remoteOver(at, token)
	r.hint = " (--" + strings.ToLower(name) + " or PATCHBAY_" + name + ")"
	return r, nil
}

// at runs an action on the gateway that the flags name.
func (f *remoteFlags) at(ctx context.Context, do func(context.Context, remote) error) error {
	if f.mayBeOffline && f.gatewayURL(f.url) == "" {
		return f.inDirectory(ctx, do)
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	r, err := f.remote()
	if err != nil {
		return err
	}
	return failed(do(ctx, r))
}

// open sends a request and returns its reply, a success, when the head has come.
func (r *remote) open(ctx context.Context, method, path string, body io.Reader, contentType string) (*http.Response,
	error) {
	request, err := http.NewRequestWithContext(ctx, method, r.base+path, body)
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("no gateway answers at %s: %w", r.shown, inShort(err))
	}
	if response.StatusCode < http.StatusBadRequest {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	content, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // a part is enough for a message
	return nil, r.refused(response.StatusCode, content)
}

// call sends a request, with a value as JSON unless it is nil, and reads a reply in JSON.
func (r *remote) call(ctx context.Context, method, path string, wanted, data any) error {
	var body io.Reader
	if wanted != nil {
		content, err := json.Marshal(wanted)
		if err != nil {
			return err
		}
		body = bytes.NewReader(content)
	}
	response, err := r.open(ctx, method, path, body, "application/json")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	return r.read(response, data)
}

// read reads a reply in JSON.
func (r *remote) read(response *http.Response, data any) error {
	content, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("the answer of %s did not come whole: %w", r.shown, inShort(err))
	}
	if err := json.Unmarshal(content, data); err != nil {
		return r.strange(response.StatusCode)
	}
	return nil
}

// ask calls an operation of the management API and reads the data of the reply.
func (r *remote) ask(ctx context.Context, method, path string, wanted, data any) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.patience, 30*time.Second))
	defer cancel()
	answer := struct {
		Success bool `json:"success"`
		Data    any  `json:"data"`
	}{Data: data}
	err := r.call(ctx, method, path, wanted, &answer)
	if err == nil && !answer.Success {
		return r.strange(http.StatusOK)
	}
	return err
}

// refused says why a request was refused, in the gateway's own words where it has some.
func (r *remote) refused(status int, content []byte) error {
	var answer struct {
		Message string `json:"message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	// The other surfaces have no such object as their error, which then stays empty.
	_ = json.Unmarshal(content, &answer)
	message := cmp.Or(answer.Message, answer.Error.Message)
	if message == "" {
		return r.strange(status)
	}
	if r.base == "" {
		return errors.New(message) // no gateway was asked
	}
	if status == http.StatusUnauthorized {
		message += r.hint
	}
	return fmt.Errorf("the gateway refused (status %d): %s", status, message)
}

func (r *remote) strange(status int) error {
	if status == http.StatusNotFound {
		return errors.New(r.shown + " does not have this operation: is it a gateway of this version, and its " +
			"management address?")
	}
	return fmt.Errorf("%s did not answer as a gateway does (status %d)", r.shown, status)
}

// untilSignal returns a context that ends with a signal. Verbs that send requests to a
// gateway use it; verbs that run one handle signals in runGateway.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// inShort returns a short text for the error of a request, without its method and URL.
func inShort(err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("nothing listens there")
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("it takes too long")
	}
	return err
}
