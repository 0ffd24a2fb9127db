// Package audit keeps a record of every change and of every sign-in. Each record holds the
// hash of the one before it, and signed heads tell which records a chain had: a record that
// is changed, removed or moved later is found (docs/audit.md).
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Record says who did what, when, from where, and with which result.
type Record struct {
	Seq     int64  `json:"seq" doc:"The number of the record in its chain, from 1."`
	Time    string `json:"time" doc:"When the operation began, in UTC."`
	Gateway string `json:"gateway" doc:"The id of the gateway that wrote the record; it has a chain of its own."`
	Who     string `json:"who" doc:"The name of the token or person; empty where nobody knows."`
	Role    string `json:"role"`
	Address string `json:"address" doc:"The address of the client."`
	Action  string `json:"action" doc:"The operation, such as POST /api/auth/keys, or one of docs/audit.md."`
	Object  string `json:"object" doc:"What it was done to."`
	Result  string `json:"result" doc:"The status of the reply, and done, refused or failed; or unknown."`
	Tenant  string `json:"tenant,omitzero" doc:"The tenant that it concerns, if it is one."`
	// Previous and Hash chain the records.
	Previous string `json:"previous" doc:"The hash of the record before; empty in a first one."`
	Hash     string `json:"hash,omitzero" doc:"SHA-256, in hex, of the canonical JSON of the record without it."`
}

// Actions of records that no operation makes.
const (
	// SignIn stands for sign-ins that were refused, folded by address and minute.
	SignIn = "sign-in"
	// Begin is the first record of a chain that follows another one.
	Begin = "audit.begin"
	// Expire tells which records were removed because of their age, or for room.
	Expire = "audit.expire"
	// NewKey tells that another key signs the heads because the one before cannot be read.
	NewKey = "audit.key"
)

// Self is the name of the gateway as the one who did something.
const Self = "gateway"

// timeFormat has a fixed width: texts of times compare as the times do.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// Stamp formats a time as records have it.
func Stamp(t time.Time) string { return t.UTC().Format(timeFormat) }

// longest is how many bytes a text of a record may have; clients choose some of them.
const longest = 512

// clean returns a text that every store keeps as it is, of bounded length.
func clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

func (r *Record) clean() {
	for _, text := range []*string{&r.Who, &r.Role, &r.Address, &r.Action, &r.Object, &r.Result, &r.Tenant} {
		*text = clean(*text)
	}
}

// canonical returns a value as the canonical JSON of RFC 8785.
func canonical(value any) []byte {
	text, err := json.Marshal(value)
	if err == nil {
		err = (*jsontext.Value)(&text).Canonicalize()
	}
	if err != nil {
		panic(err) // its texts are clean, and its numbers whole
	}
	return text
}

// link gives a record its place behind another one.
func (r *Record) link(before *Record) {
	r.Seq, r.Previous, r.Hash = before.Seq+1, before.Hash, ""
	r.Hash = digest(canonical(r))
}

// Line returns a record as a line of a file.
func (r *Record) Line() []byte { return append(canonical(r), '\n') }

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

var errHash = errors.New("its hash is not that of its content")

// Read reads a record and checks its hash. The record may have members that this release does
// not know; the hash covers them. After an error about the hash the record is readable.
func Read(line []byte) (r Record, err error) {
	if err := json.Unmarshal(line, &r); err != nil {
		return r, errors.New("it is no record")
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(line, &members); err != nil {
		return r, errors.New("it is no record")
	}
	delete(members, "hash")
	if digest(canonical(members)) != r.Hash {
		return r, errHash
	}
	return r, nil
}

// Head is a signed statement about the last record of a chain at a time.
type Head struct {
	Gateway   string `json:"gateway"`
	Seq       int64  `json:"seq"`
	Hash      string `json:"hash"`
	Time      string `json:"time"`
	Signature string `json:"signature,omitzero" doc:"Ed25519, in base64, over the canonical JSON without it."`
}

// signed returns the bytes that the signature of a head covers.
func (h Head) signed() []byte {
	h.Signature = ""
	return canonical(h)
}
