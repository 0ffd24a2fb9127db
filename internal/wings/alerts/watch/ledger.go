package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/alerts"
)

// documentKind is the kind of the documents about alerts, and folder their folder in a data directory.
const documentKind, folder = "alert", "alerts/"

const (
	// forgetAfter is how long it is remembered that an alert was sent and is over, or that it
	// was sent by a gateway that never said that it is over.
	forgetAfter = 7 * 24 * time.Hour
	// storeTimeout bounds an access to the store.
	storeTimeout = 5 * time.Second
)

// ledger remembers which alerts were sent, through restarts, and for all gateways that share
// the store: of those that see the same condition one sends the alert.
type ledger struct {
	docs  documents.Store
	owner string // this gateway
}

// told is an alert that was sent, as its document has it.
type told struct {
	Kind    alerts.Kind  `json:"kind"`
	Subject string       `json:"subject"`
	Level   level        `json:"level"`
	Since   time.Time    `json:"since"`
	Sent    time.Time    `json:"sent"`
	Over    say.Sentence `json:"over"`
}

func documentID(kind alerts.Kind, subject string) string {
	sum := sha256.Sum256([]byte(kind.String() + "/" + subject))
	return hex.EncodeToString(sum[:16])
}

// claim reports whether this gateway is to send an alert, and whether the alert counts as sent: by
// this gateway, or by another. An alert that was sent within the quiet time and is over since does
// not; it may be due later. While the store is away every gateway sends.
func (l *ledger) claim(ctx context.Context, t told, quiet time.Duration) (isOwn, isSent bool) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	id := documentID(t.Kind, t.Subject)
	before, err := l.docs.Get(ctx, documentKind, id)
	if err != nil && !errors.Is(err, documents.ErrNotFound) {
		return true, true
	}
	var last told
	isKnown := err == nil && json.Unmarshal(before.Data, &last) == nil && last.Level >= t.Level
	switch {
	case isKnown && before.IsOpen && before.Age < forgetAfter:
		return false, true
	case isKnown && t.Sent.Sub(last.Sent) < quiet:
		return false, false
	}
	data, err := json.Marshal(t)
	if err != nil {
		return true, true
	}
	_, err = l.docs.Put(ctx, documents.Document{Kind: documentKind, ID: id, Scope: l.owner, Created: time.Now().UTC(),
		IsOpen: true, Version: before.Version, Data: data})
	return !errors.Is(err, documents.ErrChanged), true
}

// release reports whether this gateway is to say that an alert is over.
func (l *ledger) release(ctx context.Context, kind alerts.Kind, subject string) bool {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	doc, err := l.docs.Get(ctx, documentKind, documentID(kind, subject))
	if err != nil {
		return true
	}
	if !doc.IsOpen {
		return false
	}
	doc.IsOpen = false
	_, err = l.docs.Put(ctx, doc)
	return !errors.Is(err, documents.ErrChanged)
}

// open returns the alerts that were sent and are not over, with whether this gateway sent each.
// It removes what is forgotten.
func (l *ledger) open(ctx context.Context, visit func(t told, isOwn bool)) {
	_ = documents.Each(ctx, l.docs, documents.Query{Kind: documentKind}, func(doc documents.Document) (bool, error) {
		var t told
		switch {
		case doc.Age > forgetAfter || json.Unmarshal(doc.Data, &t) != nil:
			return true, l.docs.Delete(ctx, documentKind, doc.ID)
		case doc.IsOpen:
			visit(t, doc.Scope == l.owner)
		}
		return true, nil
	})
}
