package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
)

// credentialStore is where keys and tokens are managed.
type credentialStore interface {
	// issueKey and editKey take the terms of the key as the management API does.
	issueKey(id string, terms map[string]any) (issued, text string, err error)
	editKey(id string, terms map[string]any) (keyLine, error)
	rotateKey(id string, overlap time.Duration) (text string, until time.Time, err error)
	keys() ([]keyLine, error)
	// revokeKey and revokeToken return false if the credential was revoked before.
	revokeKey(id string) (changed bool, err error)

	issueToken(wanted access.IssuedToken) (name, text string, err error)
	tokens() ([]tokenLine, error)
	rotateToken(name string) (text string, err error)
	revokeToken(name string) (changed bool, err error)
}

// tokenLine is what is listed of a token.
type tokenLine struct {
	Name      string      `json:"name"`
	Role      access.Role `json:"role"`
	ExpiresAt string      `json:"expiresAt"`
	Status    string      `json:"status"`
	Source    string      `json:"source"`
}

// at runs an action on the store that the flags name.
func (f *credentialFlags) at(ctx context.Context, do func(credentialStore) error) error {
	if f.url != "" {
		ctx, stop := untilSignal(ctx)
		defer stop()
		at, err := gatewayAddress(&f.settingFlags, f.url)
		if err != nil {
			return err
		}
		if err := f.trust.apply(at.transport); err != nil {
			return &exitError{exitUsage, err}
		}
		return failed(do(&remoteStore{ctx, remoteOver(at, managementToken(f.token, f.env))}))
	}
	loaded, err := f.load()
	if err != nil {
		return err
	}
	return failed(f.inDirectory(ctx, loaded.Document, do))
}

// inDirectory runs an action in a data directory that no gateway uses.
func (f *credentialFlags) inDirectory(ctx context.Context, doc *config.Document, do func(credentialStore) error) error {
	if _, err := os.Stat(doc.Server.DataDir); errors.Is(err, fs.ErrNotExist) && !f.makes {
		return fmt.Errorf("there is no data directory at %s", doc.Server.DataDir)
	}
	store, err := files.Open(doc.Server.DataDir)
	if errors.Is(err, files.ErrInUse) {
		return fmt.Errorf("%w: the gateway runs, so ask it: --url %s", err, managementURL(doc.Server))
	}
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	quiet := slog.New(slog.DiscardHandler) // errors are returned
	credentials, err := access.OpenCredentials(store.Data(), doc.Security, quiet)
	if err != nil {
		return err
	}
	if doc.Store.Config != "" {
		values, err := sharedValues(ctx, doc, quiet)
		if err != nil {
			return err
		}
		if values != nil {
			defer values.Close()
			if err := values.Follow(ctx, credentials.Share(values), credentials.Take); err != nil {
				return fmt.Errorf("the database of the shared configuration: %w", err)
			}
		}
	}
	return do(localStore{ctx, credentials})
}

// sharedValues opens the values of the shared configuration. It returns nil if no gateway
// has initialised it: the first one to do so will share what is in its data directory.
func sharedValues(ctx context.Context, doc *config.Document, log *slog.Logger) (*control.Values, error) {
	shared, err := pglog.New(doc.Store.Config)
	if err != nil {
		return nil, err
	}
	values, err := control.OpenValues(ctx, doc, shared, log)
	if err != nil {
		return nil, fmt.Errorf("the database of the shared configuration: %w", err)
	}
	return values, nil
}

// localStore works in a data directory that no gateway uses.
type localStore struct {
	ctx         context.Context
	credentials *access.Credentials
}

// byCommand returns who makes a change without a gateway, and when.
func byCommand() access.Change { return access.Change{By: "command line", At: time.Now()} }

// checked returns everything that is wrong with a requested credential as one error.
func checked(check func(report func(path, message string))) error {
	var errs []error
	check(func(path, message string) { errs = append(errs, errors.New(path+" "+message)) })
	return errors.Join(errs...)
}

// withTerms returns a key with other terms.
func withTerms(key access.Key, terms map[string]any) (access.Key, error) {
	data, err := json.Marshal(terms)
	if err == nil {
		err = json.Unmarshal(data, &key, json.RejectUnknownMembers(true))
	}
	if err == nil {
		err = checked(key.Check)
	}
	return key, err
}

func (s localStore) editKey(id string, terms map[string]any) (keyLine, error) {
	edited, err := s.credentials.Keys.Edit(s.ctx, id, byCommand(), func(before access.IssuedKey) (access.Key, error) { return withTerms(before.Key, terms) })
	return lineOf(&edited, time.Now()), err
}

func (s localStore) rotateKey(id string, overlap time.Duration) (text string, until time.Time, err error) {
	text, rotated, err := s.credentials.Keys.Rotate(s.ctx, id, overlap, byCommand())
	return text, rotated.PreviousUntil, err
}

func (s localStore) issueKey(id string, terms map[string]any) (issuedID, text string, err error) {
	wanted, err := withTerms(access.Key{ID: id}, terms)
	if err != nil {
		return "", "", err
	}
	text, issued, err := s.credentials.Keys.Issue(s.ctx, access.IssuedKey{Key: wanted}, byCommand())
	return issued.ID, text, err
}

func (s localStore) keys() ([]keyLine, error) {
	var lines []keyLine
	now := time.Now()
	for _, key := range s.credentials.Keys.List() {
		lines = append(lines, lineOf(&key, now))
	}
	return lines, nil
}

func (s localStore) revokeKey(id string) (changed bool, err error) {
	return unlessRevoked(s.credentials.Keys.Revoke(s.ctx, id, byCommand()))
}

func unlessRevoked(err error) (changed bool, _ error) {
	if errors.Is(err, access.ErrRevoked) {
		return false, nil
	}
	return err == nil, err
}

func (s localStore) issueToken(wanted access.IssuedToken) (name, text string, err error) {
	if err := checked(wanted.Check); err != nil {
		return "", "", err
	}
	text, issued, err := s.credentials.Tokens.Issue(s.ctx, wanted, byCommand())
	return issued.Name, text, err
}

func (s localStore) tokens() ([]tokenLine, error) {
	var lines []tokenLine
	now := time.Now()
	for _, token := range s.credentials.Tokens.List() {
		lines = append(lines, tokenLine{token.Name, token.RoleInForce(), token.ExpiresAt, token.Status(now), token.Source})
	}
	return lines, nil
}

func (s localStore) rotateToken(name string) (text string, err error) {
	text, _, err = s.credentials.Tokens.Rotate(s.ctx, name, byCommand())
	return text, err
}

func (s localStore) revokeToken(name string) (changed bool, err error) {
	return unlessRevoked(s.credentials.Tokens.Revoke(s.ctx, name, byCommand()))
}

// remoteStore asks a running gateway.
type remoteStore struct {
	ctx context.Context // one command, one store
	remote
}

func (s *remoteStore) ask(method, path string, wanted map[string]any, data any) error {
	return s.remote.ask(s.ctx, method, path, wanted, data)
}

const (
	keysPath   = "/api/auth/keys"
	tokensPath = "/api/auth/tokens" //nolint:gosec // a path, no secret
)

// newText is what a gateway says of a key or a token whose text it made.
type newText struct {
	ID            string    `json:"id"`
	Key           string    `json:"key"`
	PreviousUntil time.Time `json:"previousUntil"`
	Name          string    `json:"name"`
	Token         string    `json:"token"`
}

func (s *remoteStore) makeText(path string, wanted map[string]any) (made newText, err error) {
	err = s.ask(http.MethodPost, path, wanted, &made)
	return made, err
}

func (s *remoteStore) issueKey(id string, terms map[string]any) (issuedID, text string, err error) {
	wanted := maps.Clone(terms)
	wanted["id"] = id
	made, err := s.makeText(keysPath, wanted)
	return made.ID, made.Key, err
}

func (s *remoteStore) editKey(id string, terms map[string]any) (line keyLine, err error) {
	err = s.ask(http.MethodPut, keysPath+"/"+url.PathEscape(id), terms, &line)
	return line, err
}

func (s *remoteStore) rotateKey(id string, overlap time.Duration) (text string, until time.Time, err error) {
	made, err := s.makeText(keysPath+"/"+url.PathEscape(id)+"/rotate", map[string]any{"overlap": overlap.String()})
	return made.Key, made.PreviousUntil, err
}

func (s *remoteStore) keys() (lines []keyLine, err error) {
	err = s.ask(http.MethodGet, keysPath, nil, &lines)
	return lines, err
}

func (s *remoteStore) revokeKey(id string) (changed bool, err error) { return s.revoke(keysPath, id) }

func (s *remoteStore) revoke(path, name string) (changed bool, err error) {
	var done struct {
		Changed bool `json:"changed"`
	}
	err = s.ask(http.MethodDelete, path+"/"+url.PathEscape(name), nil, &done)
	return done.Changed, err
}

func (s *remoteStore) issueToken(wanted access.IssuedToken) (name, text string, err error) {
	made, err := s.makeText(tokensPath, map[string]any{"name": wanted.Name, "role": wanted.Role, "expiresAt": wanted.ExpiresAt})
	return made.Name, made.Token, err
}

func (s *remoteStore) tokens() (lines []tokenLine, err error) {
	err = s.ask(http.MethodGet, tokensPath, nil, &lines)
	return lines, err
}

func (s *remoteStore) rotateToken(name string) (text string, err error) {
	made, err := s.makeText(tokensPath+"/"+url.PathEscape(name)+"/rotate", nil)
	return made.Token, err
}

func (s *remoteStore) revokeToken(name string) (changed bool, err error) {
	return s.revoke(tokensPath, name)
}
