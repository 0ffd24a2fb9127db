package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
)

// verifyLines verifies lines that nobody signed.
func verifyLines(lines [][]byte, hashes ...string) error {
	v := audit.NewVerifier(nil, nil, hashes...)
	for _, line := range lines {
		v.Add(0, line)
	}
	_, err := v.Finish()
	return err
}

// changed returns a line with another value, and with the hash of that if it is wanted.
func changed(t interface{ Fatal(...any) }, line []byte, member string, value any, rehash bool) []byte {
	var members map[string]any
	if err := json.Unmarshal(line, &members); err != nil {
		t.Fatal(err)
	}
	members[member] = value
	if rehash {
		delete(members, "hash")
		members["hash"] = audit.HashOf(members)
	}
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Whatever is done to one record, verify names it.
func TestVerifyNamesTheRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	const count = 12
	for i := range count {
		do(t, c, fmt.Sprint("a", i))
	}
	c.Close()
	var lines [][]byte
	err := audit.NewFiles(durable.At(dir)).Each(context.Background(), func(_ int, line []byte) error {
		lines = append(lines, bytes.Clone(line))
		return nil
	})
	if err != nil || verifyLines(lines) != nil {
		t.Fatal(err, verifyLines(lines))
	}
	last, err := audit.Read(lines[count-1])
	if err != nil || verifyLines(lines, last.Hash) != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, count-2).Draw(t, "at") // the last one has no one behind it
		tampered := slices.Clone(lines)
		switch what := rapid.SampledFrom([]string{"change", "rehash", "remove", "swap", "repeat", "garble", "cut", "add"}).Draw(t, "what"); what {
		case "change", "rehash":
			member := rapid.SampledFrom([]string{"who", "role", "address", "action", "object", "result", "time", "extra"}).Draw(t, "member")
			tampered[at] = changed(t, lines[at], member, "other", what == "rehash")
		case "remove":
			tampered = slices.Delete(tampered, at, at+1)
		case "swap":
			other := rapid.IntRange(at+1, count-1).Draw(t, "other")
			tampered[at], tampered[other] = tampered[other], tampered[at]
		case "repeat":
			tampered = slices.Insert(tampered, at+1, lines[at])
			at++
		case "garble":
			tampered[at] = bytes.Clone(lines[at])
			tampered[at][rapid.IntRange(0, len(lines[at])-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 6).Draw(t, "bit")
		case "cut":
			tampered = tampered[:at+1]
			at++
		case "add":
			tampered = slices.Insert(tampered, at, changed(t, lines[at], "who", "eve", true))
			at++ // the record behind it is in the wrong place
		}
		err := verifyLines(tampered, last.Hash)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("seq %d ", at+1)) {
			t.Fatalf("record %d: %v", at+1, err)
		}
	})
}

// Records that are written anew, all hashes included, are not those of the signed heads.
func TestRecordsWrittenAnewAreNotTheSignedOnes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	for i := range 6 {
		do(t, c, fmt.Sprint("a", i))
		if i%2 == 1 {
			c.Close() // signs
			c = open(t, dir)
		}
	}
	store := audit.NewFiles(durable.At(dir))
	heads, err := store.Heads(context.Background(), 0)
	if err != nil || len(heads) != 3 {
		t.Fatalf("%+v, %v", heads, err)
	}
	keys, err := store.Keys(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	v := audit.NewVerifier(heads, keys)
	previous := ""
	for i, r := range records(t, dir) {
		line := r.Line()
		if i >= 3 {
			text := changed(t, changed(t, line, "who", "eve", false), "previous", previous, true)
			line = text
		}
		got, err := audit.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		previous = got.Hash
		v.Add(1, line)
	}
	if _, err := v.Finish(); err == nil || !strings.Contains(err.Error(), "seq 3 ") || !strings.Contains(err.Error(), "to seq 4") {
		t.Errorf("%v", err)
	}
	heads[0].Signature = heads[1].Signature
	if _, err := audit.NewVerifier(heads, keys).Finish(); err == nil || !strings.Contains(err.Error(), "seq 6 ") {
		t.Errorf("a head that nobody signed: %v", err)
	}
}

// A chain that is written anew from its first record on, with later times, does not pass for one whose signed records
// left because of their age.
func TestAChainOfLaterTimesDoesNotHideSignedRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	for i := range 4 {
		do(t, c, fmt.Sprint("a", i))
	}
	c.Close() // signs
	store := audit.NewFiles(durable.At(dir))
	heads, err := store.Heads(context.Background(), 0)
	if err != nil || len(heads) != 1 {
		t.Fatalf("%+v, %v", heads, err)
	}
	keys, err := store.Keys(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	v := audit.NewVerifier(heads, keys)
	previous := ""
	for i, r := range records(t, dir) {
		line := changed(t, r.Line(), "time", fmt.Sprintf("2999-01-01T00:00:0%d.000000Z", i), false)
		line = changed(t, line, "previous", previous, true)
		got, err := audit.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		previous = got.Hash
		v.Add(1, line)
	}
	if _, err := v.Finish(); err == nil || !strings.Contains(err.Error(), "seq 1 ") {
		t.Errorf("%v", err)
	}
}

// The hash is the one of the canonical JSON of RFC 8785.
func TestHashIsThatOfTheCanonicalJSON(t *testing.T) {
	t.Parallel()
	line := []byte(`{"who":"\u00e4\u2028<&>","seq":1,"zz":{"b":1.50,"a":[true,null]},"previous":"","time":"t","hash":"56e3c8fa0d0c39a0a4ba5ad3ed6b3a0f3bb1e0ad4f1b3c76d8f8f5a20c8d5fae"}`)
	members := map[string]any{"who": "ä\u2028<&>", "seq": 1, "zz": map[string]any{"b": 1.5, "a": []any{true, nil}}, "previous": "", "time": "t"}
	want := audit.Digest([]byte("{\"previous\":\"\",\"seq\":1,\"time\":\"t\",\"who\":\"ä\u2028<&>\",\"zz\":{\"a\":[true,null],\"b\":1.5}}"))
	if got := audit.HashOf(members); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	line = bytes.Replace(line, []byte("56e3c8fa0d0c39a0a4ba5ad3ed6b3a0f3bb1e0ad4f1b3c76d8f8f5a20c8d5fae"), []byte(want), 1)
	if _, err := audit.Read(line); err != nil {
		t.Error(err)
	}
}
