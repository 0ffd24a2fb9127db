package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func newHealthcheck(env []string, stdout io.Writer) *cobra.Command {
	flags := &settingFlags{env: env}
	var timeout time.Duration
	var address string
	var trust trustFlags
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running gateway whether it is ready (for containers)",
		Long: `Asks the address that serve would listen on with the same flags, or the one
that --url names, and exits with 0 when the gateway there is ready, else with 1.`,
		Example: `  patchbay healthcheck
  patchbay healthcheck --listen 127.0.0.1:9000
  patchbay healthcheck --url https://gateway.example --ca /etc/ssl/our-ca.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			gateway, err := gatewayAddress(flags, address)
			if err != nil {
				return err
			}
			if err := trust.apply(gateway.transport); err != nil {
				return &exitError{exitUsage, err}
			}
			if err := askReadiness(cmd.Context(), gateway, timeout); err != nil {
				return failed(err)
			}
			fmt.Fprintln(stdout, "ready")
			return nil
		},
	}
	flags.register(cmd)
	trust.register(cmd)
	cmd.Flags().StringVar(&address, "url", "", "address of the gateway, such as http://127.0.0.1:8080, in place of the one that serve would listen on")
	for _, other := range []string{"config", "listen", "data-dir", "set"} {
		cmd.MarkFlagsMutuallyExclusive("url", other)
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

// reachable is a gateway that can be asked.
type reachable struct {
	base, shown string // its URL, and what it is called in messages
	transport   *http.Transport
}

// gatewayAddress returns the gateway to ask.
func gatewayAddress(flags *settingFlags, given string) (reachable, error) {
	if given == "" {
		loaded, err := flags.load()
		if err != nil {
			return reachable{}, err
		}
		return ownGateway(loaded.Document.Server), nil
	}
	parsed, err := url.Parse(given)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
		return reachable{}, errors.New("--url: want an address such as http://127.0.0.1:8080")
	}
	base := strings.TrimSuffix(given, "/")
	return reachable{base, base, &http.Transport{DisableKeepAlives: true}}, nil
}

func askReadiness(ctx context.Context, gateway reachable, timeout time.Duration) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, gateway.base+"/actuator/health/readiness", nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: gateway.transport}).Do(request)
	if err != nil {
		return fmt.Errorf("no gateway answers at %s: %w", gateway.shown, inShort(err))
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the gateway at %s is not ready (status %d)", gateway.shown, response.StatusCode)
	}
	return nil
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
