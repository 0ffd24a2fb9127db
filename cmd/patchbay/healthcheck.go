package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
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
that --url or PATCHBAY_URL names, and exits with 0 when the gateway there is ready, else with 1.`,
		Example: `  patchbay healthcheck
  patchbay healthcheck --listen 127.0.0.1:9000
  patchbay healthcheck --url https://gateway.example --ca /etc/ssl/our-ca.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			gateway, err := gatewayAddress(flags, address, managementAddresses)
			if err != nil {
				return err
			}
			if err := trust.apply(&gateway.options); err != nil {
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
	registerURL(cmd, &address)
	excludeFromURL(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

func askReadiness(ctx context.Context, gateway reachable, timeout time.Duration) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := outgoing.New(gateway.options).Check(ctx, gateway.base+"/actuator/health/readiness")
	if refusal, is := errors.AsType[*outgoing.StatusError](err); is {
		return fmt.Errorf("the gateway at %s is not ready (%w)", gateway.shown, refusal)
	}
	if err != nil {
		return fmt.Errorf("no gateway answers at %s: %w", gateway.shown, inShort(err))
	}
	return nil
}
