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
	Gateway string `json:"gateway" doc:"The chain: the id of the gateway that wrote it, or that and /low."`
	Who     string `json:"who" doc:"The token, or a person with subject and issuer; empty if unknown."`
	Role    string `json:"role"`
	Address string `json:"address" doc:"The address of the client."`
	Action  string `json:"action" doc:"The operation, such as POST /api/auth/keys, or one of docs/audit.md."`
	Object  string `json:"object" doc:"What it was done to."`
	Result  string `json:"result" doc:"The status of the reply, and done, refused or failed; or unknown."`
	Tenant  string `json:"tenant,omitzero" doc:"The tenant that it concerns, if it is one."`
	// Count and Last describe equal operations within a minute that are one record.
	Count int64  `json:"count,omitzero" doc:"How many equal operations it stands for; one if absent."`
	Last  string `json:"last,omitzero" doc:"When the last of these began."`
	// Cause, Keep, Until and Signature are members of audit.begin and audit.expire.
	Cause     string `json:"cause,omitzero" enum:"age,bytes" doc:"The bound by which earlier records are missing."`
	Keep      int64  `json:"keep,omitzero" doc:"The audit.keep in force, in seconds."`
	Until     string `json:"until,omitzero" doc:"No record from after this time was removed."`
	Signature string `json:"signature,omitzero" doc:"Ed25519, in base64, over the JSON without it and hash."`
	// Previous and Hash chain the records.
	Previous string `json:"previous" doc:"The hash of the record before; empty in a first one."`
	Hash     string `json:"hash,omitzero" doc:"SHA-256, in hex, of the canonical JSON of the record without it."`
}

// Actions of records that no operation makes.
const (
	// SignIn stands for refused requests of callers without a valid credential.
	SignIn = "sign-in"
	// Begin is the first record of a chain that follows another one.
	Begin = "audit.begin"
	// Expire names the records that were removed because of their age, or for room.
	Expire = "audit.expire"
	// Folded stands for what a caller did beyond the records that it may have within a minute.
	Folded = "audit.folded"
	// NewKey tells that another key signs the heads because the one before cannot be read.
	NewKey = "audit.key"
)

// Self is the name of the gateway as the one who did something.
const Self = "gateway"

// Causes of the removal of records.
const (
	byAge   = "age"
	byBytes = "bytes"
)

// low ends the name of a gateway's second chain, which has sign-ins, refused operations and what
// callers below OPERATOR do: these cannot push the other records out.
const low = "/low"

// IsLow reports whether a chain, by the member gateway of its records, is the second one of its
// gateway.
func IsLow(name string) bool { return strings.HasSuffix(name, low) }

// ownerOf returns the id of the gateway that has a chain.
func ownerOf(name string) string { return strings.TrimSuffix(name, low) }

// isSealed reports whether a record must have a signature of its own, because it explains why
// others are missing.
func (r *Record) isSealed() bool { return r.Who == Self && (r.Action == Begin || r.Action == Expire) }

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

// link gives a record its place behind another one, and the signature if it must have one.
func (r *Record) link(before *Record, by *signer) {
	r.Seq, r.Previous, r.Hash, r.Signature = before.Seq+1, before.Hash, "", ""
	if r.isSealed() {
		r.Signature = by.signature(canonical(r))
	}
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

// isSignedBy reports whether a record has a signature of its own by one of some keys.
func isSignedBy(keys []PublicKey, r *Record, line []byte) bool {
	var members map[string]jsontext.Value
	if json.Unmarshal(line, &members) != nil {
		return false
	}
	delete(members, "hash")
	delete(members, "signature")
	return verifies(keys, r.Gateway, canonical(members), r.Signature)
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
