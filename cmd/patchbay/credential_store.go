package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// credentialStore is where keys and tokens are managed: a gateway that runs, or the same
// operations on the data directory of one that does not.
type credentialStore struct {
	ctx context.Context // one command, one store
	remote
}

// tokenLine is one token in a list.
type tokenLine struct {
	Name      string      `json:"name"`
	Role      access.Role `json:"role"`
	ExpiresAt string      `json:"expiresAt"`
	Status    string      `json:"status"`
	Source    string      `json:"source"`
}

// at runs an action on the store that the flags name.
func (f *credentialFlags) at(ctx context.Context, do func(*credentialStore) error) error {
	if f.gatewayURL(f.url) != "" {
		ctx, stop := untilSignal(ctx)
		defer stop()
		r, err := f.remote()
		if err != nil {
			return err
		}
		return failed(do(&credentialStore{ctx, r}))
	}
	loaded, err := f.load()
	if err != nil {
		return err
	}
	return failed(f.inDirectory(ctx, loaded.Document, do))
}

// inDirectory runs an action in a data directory that no gateway uses.
func (f *credentialFlags) inDirectory(ctx context.Context, doc *config.Document,
	do func(*credentialStore) error) error {
	if _, err := os.Stat(doc.Server.DataDir); errors.Is(err, fs.ErrNotExist) && !f.makes {
		return fmt.Errorf("there is no data directory at %s", doc.Server.DataDir)
	}
	keys, err := doc.Security.MasterKeys()
	if err != nil {
		return err
	}
	store, err := files.Open(doc.Server.DataDir, keys)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	quiet := slog.New(slog.DiscardHandler) // errors are returned
	credentials, err := access.OpenCredentials(store.Data(), doc.Security.Settings, quiet)
	if err != nil {
		return err
	}
	if doc.Store.Config != "" {
		values, err := sharedValues(ctx, doc, keys, quiet)
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
	trail, end, err := offlineTrail(doc, store.Data())
	if err != nil {
		return err
	}
	defer end()
	operations := manage.Offline(credentials, access.Identity{Name: "command line", Role: access.Admin}, trail)
	return do(&credentialStore{ctx,
		remote{shown: doc.Server.DataDir, client: inProcess{operations}}})
}

// sharedValues opens the values of the shared configuration. It returns nil if no gateway
// has initialised it: the first one to do so will share its data directory.
func sharedValues(ctx context.Context, doc *config.Document, keys *seal.Keys, log *slog.Logger) (*control.Values,
	error) {
	shared, err := pglog.New(doc.Store.Config, keys)
	if err != nil {
		return nil, err
	}
	values, err := control.OpenValues(ctx, doc, shared, log)
	if err != nil {
		return nil, fmt.Errorf("the database of the shared configuration: %w", err)
	}
	return values, nil
}

// inProcess lets a handler of this program answer requests.
type inProcess struct{ handler http.Handler }

// Do answers a request.
func (t inProcess) Do(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	var w written
	t.handler.ServeHTTP(&w, r)
	return &http.Response{StatusCode: w.status, Header: w.Header(), Body: io.NopCloser(&w.Buffer), Request: r}, nil
}

// written is a reply in memory.
type written struct {
	bytes.Buffer
	header http.Header
	status int
}

// Header returns the head.
func (w *written) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// WriteHeader notes the status.
func (w *written) WriteHeader(status int) { w.status = status }

// newText is the reply of a gateway that made the text of a key or a token.
type newText struct {
	ID            string    `json:"id"`
	Key           string    `json:"key"`
	PreviousUntil time.Time `json:"previousUntil"`
	Name          string    `json:"name"`
	Token         string    `json:"token"`
}

func (s *credentialStore) makeText(path string, wanted any) (made newText, err error) {
	err = s.ask(s.ctx, http.MethodPost, path, wanted, &made)
	return made, err
}

// revoke returns false if the credential was revoked before.
func (s *credentialStore) revoke(path, name string) (changed bool, err error) {
	var done struct {
		Changed bool `json:"changed"`
	}
	err = s.ask(s.ctx, http.MethodDelete, path+"/"+url.PathEscape(name), nil, &done)
	return done.Changed, err
}
