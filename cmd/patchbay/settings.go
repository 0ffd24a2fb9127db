package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/filewatch"
	"github.com/patchbay-ai/patchbay/internal/config/lint"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/gateway"
)

// defaultFile is the configuration that is read when none is named and it is there.
const defaultFile = "patchbay.yaml"

// settingFlags are the flags that shape a configuration. The verbs that need one share
// them.
type settingFlags struct {
	env     []string
	file    string
	listen  string
	dataDir string
	set     []string

	// more returns settings for a configuration that gives others, by their names; it may be nil.
	more func(given map[string]string) []string
	// extend adds settings that no file has, after every read; it may be nil.
	extend func(*config.Document)
	// seen is the file as it was before it was read first.
	seen filewatch.Fingerprint
}

func (f *settingFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "config", "c", "",
		"configuration file (default $PATCHBAY_CONFIG, then ./"+defaultFile+" if it is there)")
	flags.StringVar(&f.listen, "listen", "", "address to listen on (default 127.0.0.1:8080); port 0 picks a free one")
	flags.StringVar(&f.dataDir, "data-dir", "", "directory for versions and state (default ./data)")
	flags.StringArrayVar(&f.set, "set", nil,
		"override one setting, such as services.chat.load-balancer=random; may be repeated")
}

// placeFlags name where a gateway keeps its data: the place of a configuration, a data directory or a
// database.
type placeFlags struct {
	settingFlags
	database string
}

func (f *placeFlags) register(cmd *cobra.Command) {
	f.settingFlags.register(cmd)
	cmd.Flags().StringVar(&f.database, "database", "",
		"address of the PostgreSQL of a shared configuration, in place of a data directory")
	cmd.MarkFlagsMutuallyExclusive("data-dir", "database")
}

// check returns an error about an address that is not one of PostgreSQL.
func (f *placeFlags) check() error {
	if f.database == "" {
		return nil
	}
	if err := sqlstore.CheckServer(f.database); err != nil {
		return fmt.Errorf("--database: the address %w", err)
	}
	return nil
}

// takeFile uses the argument of a verb, if there is one, as the value of --config.
func (f *settingFlags) takeFile(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case len(args) > 1:
		return fmt.Errorf("want one configuration file, found %d: %s", len(args), strings.Join(args, " "))
	case f.file != "":
		return fmt.Errorf("want one configuration file, found %s and --config %s", args[0], f.file)
	}
	f.file = args[0]
	return nil
}

// path returns the configuration file in use; none is the empty string.
func (f *settingFlags) path() string {
	if f.file != "" {
		return f.file
	}
	if path := variable(f.env, "PATCHBAY_CONFIG"); path != "" {
		return path
	}
	if _, err := os.Stat(defaultFile); err == nil {
		return defaultFile
	}
	return ""
}

// loadFirst is load for a program that watches the file afterwards.
func (f *settingFlags) loadFirst() (*config.Loaded, error) {
	f.seen = filewatch.FingerprintOf(f.path())
	return f.load()
}

// load reads the configuration. The error carries the exit code.
func (f *settingFlags) load() (*config.Loaded, error) {
	for i, argument := range f.set {
		if !strings.Contains(argument, "=") {
			// The message does not repeat the argument, which may contain a secret.
			return nil,
				fmt.Errorf("--set number %d: want key=value, such as --set services.chat.load-balancer=random", i+1)
		}
	}
	source := config.Source{File: f.path(), Env: f.env, Set: f.overrides(), KnownAdapter: kinds.Check}
	if source.File != "" {
		content, err := os.ReadFile(source.File)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("the configuration file %s does not exist", source.File)
			}
			return nil, &exitError{exitConfig, err}
		}
		source.Content = content
	}
	loaded, err := config.Load(source)
	if err == nil && f.more != nil {
		source.Set = append(f.more(loaded.Origins), source.Set...)
		loaded, err = config.Load(source)
	}
	if err != nil {
		if hint := foreignHint(source.File, source.Content); hint != "" {
			return nil, &exitError{exitConfig, errors.New(hint)}
		}
		return nil, &exitError{exitConfig, fmt.Errorf("the configuration has mistakes:\n%w", err)}
	}
	loaded.Warnings = append(loaded.Warnings, lint.Warnings(loaded)...)
	if f.extend != nil {
		f.extend(loaded.Document)
	}
	return loaded, nil
}

// loadAgain is load for a reload, which an empty file must not reset and a pipe must not
// keep waiting.
func (f *settingFlags) loadAgain() (*config.Document, error) {
	if info, err := os.Stat(f.path()); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file and cannot be read again", f.path())
	}
	if content, err := os.ReadFile(f.path()); err == nil && len(bytes.TrimSpace(content)) == 0 {
		return nil, gateway.ErrEmptyFile
	}
	loaded, err := f.load()
	if err != nil {
		return nil, err
	}
	return loaded.Document, nil
}

// overrides returns the --set arguments; the flags that have their own name
// come last and win.
func (f *settingFlags) overrides() []string {
	set := append([]string(nil), f.set...)
	if f.listen != "" {
		set = append(set, "server.listen="+quoteYAML(f.listen))
	}
	if f.dataDir != "" {
		set = append(set, "server.data-dir="+quoteYAML(f.dataDir))
	}
	return set
}

// variable returns the value of an environment variable; one that is not there
// is empty, and of several the last counts.
func variable(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// quoteYAML keeps a text from being read as anything but a text.
func quoteYAML(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
