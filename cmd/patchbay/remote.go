package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

// remote is a running gateway whose API is asked.
type remote struct {
	base, shown string // its URL, and what it is called in messages
	token       string
	client      *http.Client
	patience    time.Duration // how long a reply may take; 30 s if 0
}

// remoteOver returns a gateway that is asked with a token.
func remoteOver(at reachable, token string) remote {
	return remote{base: at.base, shown: at.shown, token: token, client: &http.Client{
		Transport:     at.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// remoteFlags name a running gateway: by its URL, or by the configuration that it was
// started with.
type remoteFlags struct {
	settingFlags
	trust      trustFlags
	url, token string
}

const remotePlaces = `The gateway is the one that serve would run with the same flags on this machine, or
the one of --url. Where security is on, --token or PATCHBAY_TOKEN is a management
token.`

func (f *remoteFlags) register(cmd *cobra.Command) {
	f.settingFlags.register(cmd)
	f.trust.register(cmd)
	cmd.Flags().StringVar(&f.url, "url", "", "address of the gateway, such as http://127.0.0.1:8080, in place of the one that serve would listen on")
	cmd.Flags().StringVar(&f.token, "token", "", "management token (default $PATCHBAY_TOKEN)")
	for _, other := range []string{"config", "listen", "data-dir", "set"} {
		cmd.MarkFlagsMutuallyExclusive("url", other)
	}
}

// remote returns the gateway that the flags name. One that was started on this machine
// is asked without verifying its certificate, unless a token is sent.
func (f *remoteFlags) remote() (remote, error) {
	at, err := gatewayAddress(&f.settingFlags, f.url)
	if err != nil {
		return remote{}, err
	}
	token := managementToken(f.token, f.env)
	if token != "" && at.transport.TLSClientConfig != nil {
		at.transport.TLSClientConfig.InsecureSkipVerify = false
	}
	if err := f.trust.apply(at.transport); err != nil {
		return remote{}, &exitError{exitUsage, err}
	}
	return remoteOver(at, token), nil
}

// managementToken returns the value of --token, or that of PATCHBAY_TOKEN without one.
func managementToken(given string, env []string) string {
	if given != "" {
		return given
	}
	return variable(env, "PATCHBAY_TOKEN")
}

// send sends a request and returns its reply when the head has come.
func (r *remote) send(ctx context.Context, method, path string, wanted any) (*http.Response, error) {
	var body []byte
	if wanted != nil {
		var err error
		if body, err = json.Marshal(wanted); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("no gateway answers at %s: %w", r.shown, inShort(err))
	}
	return response, nil
}

// get reads a reply that has no envelope.
func (r *remote) get(ctx context.Context, path string, data any) error {
	content, status, err := r.exchange(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return r.refused(status, content)
	}
	if err := json.Unmarshal(content, data); err != nil {
		return r.strange(status)
	}
	return nil
}

// ask sends a request and reads the data of the reply.
func (r *remote) ask(ctx context.Context, method, path string, wanted, data any) error {
	content, status, err := r.exchange(ctx, method, path, wanted)
	if err != nil {
		return err
	}
	answer := struct {
		Success bool   `json:"success"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}{Data: data}
	if err := json.Unmarshal(content, &answer); err != nil {
		return r.strange(status)
	}
	if !answer.Success {
		return fmt.Errorf("the gateway refused (status %d): %s", status, answer.Message)
	}
	return nil
}

func (r *remote) exchange(ctx context.Context, method, path string, wanted any) (content []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.patience, 30*time.Second))
	defer cancel()
	response, err := r.send(ctx, method, path, wanted)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err = io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return nil, 0, fmt.Errorf("the answer of %s did not come whole: %w", r.shown, inShort(err))
	}
	return content, response.StatusCode, nil
}

// refused says why a request was refused, in the gateway's own words where it has some.
func (r *remote) refused(status int, content []byte) error {
	var answer struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(content, &answer); err != nil || answer.Message == "" {
		return r.strange(status)
	}
	if status == http.StatusUnauthorized {
		answer.Message += " (--token or PATCHBAY_TOKEN)"
	}
	return fmt.Errorf("the gateway refused (status %d): %s", status, answer.Message)
}

func (r *remote) strange(status int) error {
	if status == http.StatusNotFound {
		return errors.New(r.shown + " does not have this operation: is it a gateway of this version, and its management address?")
	}
	return fmt.Errorf("%s did not answer as a gateway does (status %d)", r.shown, status)
}

// untilSignal returns a context that ends with a signal. It is for the verbs that send
// requests to a gateway; those that run one handle signals in runGateway.
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
	var asked *url.Error
	if errors.As(err, &asked) {
		return asked.Err
	}
	return err
}
