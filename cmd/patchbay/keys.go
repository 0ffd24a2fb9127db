package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// keyFlags say where keys are managed: in the data directory of a gateway that
// does not run, or at one that does.
type keyFlags struct {
	settingFlags
	url, token string
	// makes says that a data directory that is not there is made.
	makes bool
}

func newKeys(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Issue, list and revoke API keys of the unified API",
		Long: `Issues, lists and revokes the API keys with which callers use /v1. Keys are
asked for where security.enabled is true; a key is shown once, and only its hash
is stored.

While no gateway runs, the keys are changed in its data directory: use the flags
that you start it with. A running gateway is asked over its API with --url, and
with --token or PATCHBAY_TOKEN for a management token of the role ADMIN where
security is on. Changes take effect at once.`,
		Example: `  patchbay keys create --tenant acme --service chat --expires 2160h
  patchbay keys list --url http://127.0.0.1:8080
  patchbay keys revoke team-a --url https://gateway.example --token "$TOKEN"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeysCreate(env, stdout), newKeysList(env, stdout), newKeysRevoke(env, stdout))
	return cmd
}

func (f *keyFlags) register(cmd *cobra.Command) {
	f.settingFlags.register(cmd)
	cmd.Flags().StringVar(&f.url, "url", "", "address of the running gateway, such as http://127.0.0.1:8080")
	cmd.Flags().StringVar(&f.token, "token", "", "management token (default $PATCHBAY_TOKEN)")
}

// keyDesk is where keys are managed.
type keyDesk interface {
	issue(wanted access.Key) (id, text string, err error)
	list() ([]keyLine, error)
	// revoke tells whether the key was good until now.
	revoke(id string) (changed bool, err error)
}

// keyLine is what is listed of a key.
type keyLine struct {
	ID        string               `json:"id"`
	Tenant    string               `json:"tenant"`
	Services  []schema.ServiceType `json:"services"`
	Models    []string             `json:"models"`
	ExpiresAt string               `json:"expiresAt"`
	Status    string               `json:"status"`
	Source    string               `json:"source"`
}

// at runs an action where the flags say.
func (f *keyFlags) at(ctx context.Context, do func(keyDesk) error) error {
	if f.url != "" {
		ctx, stop := untilSignal(ctx)
		defer stop()
		return failed(do(&remoteDesk{ctx: ctx, base: strings.TrimSuffix(f.url, "/"), token: f.bearer()}))
	}
	loaded, err := f.load()
	if err != nil {
		return err
	}
	if _, err := os.Stat(loaded.Document.Server.DataDir); errors.Is(err, fs.ErrNotExist) && !f.makes {
		return failed(fmt.Errorf("there is no data directory at %s", loaded.Document.Server.DataDir))
	}
	store, err := control.OpenStore(loaded.Document.Server.DataDir)
	if errors.Is(err, control.ErrInUse) {
		return failed(fmt.Errorf("%w: the gateway runs, so ask it: --url http://%s", err, dialable(loaded.Document.Server.Listen)))
	}
	if err != nil {
		return failed(err)
	}
	defer func() { _ = store.Close() }()
	keys, err := access.OpenKeyring(store.Data(), loaded.Document.Security)
	if err != nil {
		return failed(err)
	}
	return failed(do(localDesk{keys}))
}

func (f *keyFlags) bearer() string {
	if f.token != "" {
		return f.token
	}
	return variable(f.env, "PATCHBAY_TOKEN")
}

func failed(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitFailed, err}
}

func newKeysCreate(env []string, stdout io.Writer) *cobra.Command {
	flags := &keyFlags{settingFlags: settingFlags{env: env}, makes: true}
	var wanted access.Key
	var services []string
	var expires string
	cmd := &cobra.Command{
		Use:     "create",
		Short:   "Issue a key and print it, this once",
		Example: "  patchbay keys create --id team-a --tenant acme --service chat --model llama3 --expires 2030-01-31T00:00:00Z",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if wanted.ExpiresAt, err = expiry(expires, time.Now()); err != nil {
				return err
			}
			for _, name := range services {
				serviceType, err := schema.ParseServiceType(name)
				if err != nil {
					return err
				}
				wanted.Services = append(wanted.Services, serviceType)
			}
			return flags.at(cmd.Context(), func(desk keyDesk) error {
				id, text, err := desk.issue(wanted)
				if err == nil {
					fmt.Fprintf(stdout, "id   %s\nkey  %s\n", id, text)
				}
				return err
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&wanted.ID, "id", "", "name of the key (default: one is made up)")
	cmd.Flags().StringVar(&wanted.Tenant, "tenant", "", "who uses it, for the quota ledger")
	cmd.Flags().StringArrayVar(&services, "service", nil, "service type that it is good for; may be repeated (default: all)")
	cmd.Flags().StringArrayVar(&wanted.Models, "model", nil, "model that it is good for; may be repeated (default: all)")
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: a time such as 2030-01-31T00:00:00Z, or how long from now, such as 720h")
	return cmd
}

// expiry reads a time, or how long it is until then.
func expiry(text string, now time.Time) (string, error) {
	if after, err := time.ParseDuration(text); err == nil && after > 0 {
		return now.Add(after).UTC().Format(time.RFC3339), nil
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil && text != "" {
		return "", fmt.Errorf("--expires: want a time such as 2030-01-31T00:00:00Z or a duration such as 720h, found %q", text)
	}
	return text, nil
}

func newKeysList(env []string, stdout io.Writer) *cobra.Command {
	flags := &keyFlags{settingFlags: settingFlags{env: env}}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the keys, without the keys themselves",
		Example: "  patchbay keys list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.at(cmd.Context(), func(desk keyDesk) error {
				lines, err := desk.list()
				if err != nil {
					return err
				}
				table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "ID\tTENANT\tSTATUS\tSOURCE\tEXPIRES\tSERVICES\tMODELS")
				for _, l := range lines {
					fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%v\t%v\n", l.ID, l.Tenant, l.Status, l.Source, l.ExpiresAt, l.Services, l.Models)
				}
				return table.Flush()
			})
		},
	}
	flags.register(cmd)
	return cmd
}

func newKeysRevoke(env []string, stdout io.Writer) *cobra.Command {
	flags := &keyFlags{settingFlags: settingFlags{env: env}}
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "Make a key useless",
		Example: "  patchbay keys revoke team-a",
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return errors.New("the id of the key is missing; patchbay keys list shows the ids")
			case 1:
				return nil
			}
			return fmt.Errorf("want the id of one key, found %d", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.at(cmd.Context(), func(desk keyDesk) error {
				changed, err := desk.revoke(args[0])
				switch {
				case err != nil:
					return err
				case changed:
					fmt.Fprintf(stdout, "revoked %s\n", args[0])
				default:
					fmt.Fprintf(stdout, "%s was revoked already\n", args[0])
				}
				return nil
			})
		},
	}
	flags.register(cmd)
	return cmd
}

// localDesk works in a data directory that no gateway uses.
type localDesk struct{ keys *access.Keyring }

func (d localDesk) issue(wanted access.Key) (id, text string, err error) {
	var errs []error
	wanted.Check(func(path, message string) { errs = append(errs, errors.New(path+" "+message)) })
	if len(errs) > 0 {
		return "", "", errors.Join(errs...)
	}
	text, issued, err := d.keys.Issue(wanted, "command line", time.Now(), false)
	return issued.ID, text, err
}

func (d localDesk) list() ([]keyLine, error) {
	var lines []keyLine
	now := time.Now()
	for _, key := range d.keys.Static() {
		lines = append(lines, lineOf(access.Issued{Key: key}, "config", now))
	}
	for _, key := range d.keys.Issued() {
		lines = append(lines, lineOf(key, "issued", now))
	}
	return lines, nil
}

func lineOf(key access.Issued, source string, now time.Time) keyLine {
	return keyLine{key.ID, key.Tenant, key.Services, key.Models, key.ExpiresAt, key.Status(now), source}
}

func (d localDesk) revoke(id string) (changed bool, err error) {
	err = d.keys.Revoke(id, time.Now(), false)
	if errors.Is(err, access.ErrKeyRevoked) {
		return false, nil
	}
	return err == nil, err
}

// remoteDesk asks a running gateway.
type remoteDesk struct {
	ctx         context.Context //nolint:containedctx // one command, one desk
	base, token string
}

func (d *remoteDesk) issue(wanted access.Key) (id, text string, err error) {
	body, err := json.Marshal(map[string]any{
		"id": wanted.ID, "tenant": wanted.Tenant, "services": wanted.Services, "models": wanted.Models, "expiresAt": wanted.ExpiresAt,
	})
	if err != nil {
		return "", "", err
	}
	var issued struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	err = d.ask(http.MethodPost, "/api/auth/keys", body, &issued)
	return issued.ID, issued.Key, err
}

func (d *remoteDesk) list() ([]keyLine, error) {
	var lines []keyLine
	return lines, d.ask(http.MethodGet, "/api/auth/keys", nil, &lines)
}

func (d *remoteDesk) revoke(id string) (changed bool, err error) {
	var done struct {
		Changed bool `json:"changed"`
	}
	err = d.ask(http.MethodDelete, "/api/auth/keys/"+url.PathEscape(id), nil, &done)
	return done.Changed, err
}

// ask sends a request and reads the data of the answer.
func (d *remoteDesk) ask(method, path string, body []byte, data any) error {
	ctx, cancel := context.WithTimeout(d.ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, d.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if d.token != "" {
		request.Header.Set("Authorization", "Bearer "+d.token)
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("no gateway answers at %s: %w", d.base, inShort(err))
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("the answer of %s did not come whole: %w", d.base, inShort(err))
	}
	answer := struct {
		Success bool   `json:"success"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}{Data: data}
	if err := json.Unmarshal(content, &answer); err != nil {
		return fmt.Errorf("%s did not answer as a gateway does (status %d)", d.base, response.StatusCode)
	}
	if !answer.Success {
		return fmt.Errorf("the gateway refused (status %d): %s", response.StatusCode, answer.Message)
	}
	return nil
}
