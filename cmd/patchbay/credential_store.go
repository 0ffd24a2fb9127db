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
	"os"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// inDirectory runs an action on keys and tokens, with the same operations, in the data directory of a
// gateway that does not run.
func (f *remoteFlags) inDirectory(ctx context.Context, do func(context.Context, remote) error) error {
	loaded, err := f.load()
	if err != nil {
		return err
	}
	return failed(f.inDocument(ctx, loaded.Document, do))
}

func (f *remoteFlags) inDocument(ctx context.Context, doc *config.Document,
	do func(context.Context, remote) error) error {
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
	credentials, err := access.OpenCredentials(store.Data(), doc.Security.Settings, quiet, nil)
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
	return do(ctx, remote{shown: doc.Server.DataDir, client: inProcess{operations}})
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
