package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
)

const firstFile = "0001-000000000001.jsonl"

// forged returns a line behind another one, with the right hash.
func forged(t *testing.T, before []byte, members map[string]any) []byte {
	t.Helper()
	last, err := audit.Read(bytes.TrimSpace(before))
	if err != nil {
		t.Fatal(err)
	}
	r := map[string]any{"seq": last.Seq + 1, "time": audit.Stamp(time.Now()), "gateway": last.Gateway, "who": "adm", "role": "ADMIN", "address": "10.0.0.7",
		"action": "DELETE /api/auth/keys/{id}", "object": "key prod revoked", "result": "200 done", "previous": last.Hash}
	for name, value := range members {
		r[name] = value
	}
	r["hash"] = audit.HashOf(r)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// Whatever somebody without the keys does to the files of a stopped gateway, the next start reports it and begins a new
// chain, and verify names the first record that does not hold.
func TestChangesOfTheFilesAreReported(t *testing.T) {
	t.Parallel()
	type folder struct {
		lines [][]byte // of the first chain, 6 records; the last 3 are behind the last head
		files map[string][]byte
	}
	joined := func(lines ...[]byte) []byte { return bytes.Join(lines, nil) }
	for name, test := range map[string]struct {
		change func(f *folder)
		want   string // of verify
	}{
		"a record in another's name at the end": {func(f *folder) {
			f.lines = append(f.lines, forged(t, f.lines[5], nil))
		}, "seq 7 "},
		"history removed with a forged audit.expire": {func(f *folder) {
			var last audit.Record
			_ = json.Unmarshal(f.lines[4], &last)
			f.lines = append(f.lines[4:], forged(t, f.lines[5], map[string]any{"who": "gateway", "role": "", "action": audit.Expire, "cause": "age", "keep": 86400, "until": last.Time,
				"object": fmt.Sprintf("gateway g1, chain 1, seq 1 to 4, hash %s", last.Hash), "signature": "AAAA"}))
			delete(f.files, "heads.log")
		}, "seq 1 "},
		"the last records cut, with the head": {func(f *folder) {
			f.lines = f.lines[:2]
			delete(f.files, "heads.log")
		}, "seq 3 "},
		"a record changed, and all behind it": {func(f *folder) {
			f.lines = [][]byte{f.lines[0], f.lines[1], forged(t, f.lines[1], nil)}
			for range 3 {
				f.lines = append(f.lines, forged(t, f.lines[len(f.lines)-1], nil))
			}
			delete(f.files, "heads.log")
		}, "seq 1 "},
		"an old mark with the records of its time": {func(f *folder) {
			f.lines = f.lines[:3]
			f.files["last"] = f.files["last of 3"]
		}, ""},
		"an old mark": {func(f *folder) { f.files["last"] = f.files["last of 3"] }, "seq 4 "},
		"no mark": {func(f *folder) {
			f.lines = append(f.lines[:3:3], forged(t, f.lines[2], nil))
			delete(f.files, "last")
		}, "seq 4 "},
		"no mark and no record": {func(f *folder) {
			f.lines = nil
			delete(f.files, "last")
			delete(f.files, "heads.log")
		}, "seq 1 "},
		"another signing key": {func(f *folder) {
			f.lines = append(f.lines, forged(t, f.lines[5], nil))
			delete(f.files, "signing.key")
		}, "seq 4 "},
		"a later chain": {func(f *folder) {
			f.files["0007-000000000001.jsonl"] = forged(t, f.lines[0], map[string]any{"seq": 1, "previous": ""})
		}, "seq 1 "},
		"a later chain with audit.begin": {func(f *folder) {
			f.files["0002-000000000001.jsonl"] = forged(t, f.lines[0], map[string]any{"seq": 1, "previous": "", "who": "gateway", "role": "", "action": audit.Begin, "object": "a backup of x was restored at y; chain 1 before it ended at seq 1, hash x"})
			f.lines = f.lines[:1]
		}, "seq 1 "},
		"both chains cut": {func(f *folder) {
			f.lines = f.lines[:1]
			delete(f.files, "low-"+firstFile)
			delete(f.files, "heads.log")
		}, "seq 2 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			read := func(name string) []byte {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			c := open(t, dir)
			for range 3 {
				do(t, c, "a")
			}
			c.End(context.Background(), "", act("v", "VIEWER", "POST /x", "/x", "403 refused"))
			c.Close()
			f := folder{files: map[string][]byte{"last of 3": read("last")}}
			c = open(t, dir) // and killed
			for range 3 {
				do(t, c, "a")
			}
			for _, name := range []string{"last", "heads.log", "signing.key", "keys.json", "low-" + firstFile} {
				f.files[name] = read(name)
			}
			for line := range bytes.Lines(read(firstFile)) {
				f.lines = append(f.lines, bytes.Clone(line))
			}
			test.change(&f)
			f.files[firstFile] = joined(f.lines...)
			tampered := t.TempDir()
			for name, content := range f.files {
				if len(content) > 0 && name != "last of 3" {
					if err := os.WriteFile(filepath.Join(tampered, name), content, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 2 { // the second start has nothing more to report
				next := open(t, tampered)
				do(t, next, "after")
				next.Close()
			}
			begins := 0
			_ = audit.NewFiles(durable.At(tampered)).Each(t.Context(), func(_ int, line []byte) error {
				if r, _ := audit.Read(line); r.Action == audit.Begin && r.Signature != "" {
					begins++
				}
				return nil
			})
			if begins == 0 && name != "an old mark with the records of its time" || begins > 2 {
				t.Errorf("got %d new chains, want a report", begins)
			}
			_, err := verify(t, tampered)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// A record about removed records counts only with the signature of its gateway, for a reason that it states.
func TestVerifyWantsSignedExplanations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	do(t, c, "a")
	c.Close()
	text := fmt.Sprintf(`{"time":%q,"made":"2026-01-02T03:04:05Z"}`, audit.Stamp(time.Now()))
	if err := os.WriteFile(filepath.Join(dir, audit.RestoredFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c = open(t, dir)
	do(t, c, "b")
	c.Close()
	store := audit.NewFiles(durable.At(dir))
	keys, err := store.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for member, value := range map[string]any{"": nil, "signature": "", "cause": "age ", "keep": 1, "until": "2999-01-01T00:00:00.000000Z", "object": "another reason; chain 1 before it ended at seq 1, hash x"} {
		v := audit.NewVerifier(nil, keys)
		if err := store.Each(t.Context(), func(chain int, line []byte) error {
			if r, _ := audit.Read(line); member != "" && r.Action == audit.Begin {
				line = changed(t, line, member, value, true)
			}
			v.Add(chain, line)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Finish(); (err == nil) != (member == "") {
			t.Errorf("with another %s: got %v", member, err)
		}
	}
}
