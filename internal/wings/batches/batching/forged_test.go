package batching_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

const masterKey = "0123456789abcdef0123456789abcdef"

// seesNothing checks that nobody of the other tenant reaches a file and a batch whose
// descriptions were given to it, and that a file beside them is as it was.
func seesNothing(t *testing.T, r *gatewaytest.Gateway, file, job, other string) {
	t.Helper()
	for _, path := range []string{"/v1/files/" + file, "/v1/files/" + file + "/content", "/v1/batches/" + job} {
		if got := r.Do(http.MethodGet, path, "", as("bob-key")...); got.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	for _, path := range []string{"/v1/files", "/v1/batches"} {
		if body := r.Do(http.MethodGet, path, "", as("bob-key")...).Succeeds(t).Body; strings.Contains(body, file) || strings.Contains(body, job) {
			t.Errorf("%s: %s", path, body)
		}
	}
	if got := content(t, r, other, as("alice-key")...); got != "beside" {
		t.Errorf("a file that nobody touched is %q", got)
	}
	if !strings.Contains(r.Logs.String(), "is refused: no gateway with this master key stored it so") {
		t.Error("nothing is logged")
	}
}

// One edit on disk, or one UPDATE, that gives a tenant the file and the batch of another one
// is worth nothing where there is a master key.
func TestForgedDescriptionsGiveNobodyAFile(t *testing.T) {
	t.Parallel()
	settings := on + twoTenants() + gatewaytest.PoolYAML(gatewaytest.StartBackend(t))
	settings = strings.Replace(settings, "security: {", "security: {master-key: "+masterKey+", ", 1)
	made := func(r *gatewaytest.Gateway) (file, job, other string) {
		file = upload(t, r, line("a", "m"), as("alice-key")...)
		job = submit(t, r, file, "/v1/chat/completions", as("alice-key")...)
		ended(t, r, "/v1/batches/"+job, as("alice-key")...)
		return file, job, upload(t, r, "beside", as("alice-key")...)
	}
	t.Run("on disk", func(t *testing.T) {
		t.Parallel()
		data := t.TempDir()
		first := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: settings, DataDir: data})
		file, job, other := made(first)
		first.Halt()
		for _, name := range []string{"file." + file, "batch." + job} {
			path := filepath.Join(data, "batches", "documents", name+".json")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			forged := strings.NewReplacer(`"tenant blue"`, `"tenant red"`, `"tenant":"blue"`, `"tenant":"red"`).Replace(string(text))
			if err := os.WriteFile(path, []byte(forged), 0o600); err != nil || forged == string(text) {
				t.Fatalf("%s, %v", text, err)
			}
		}
		seesNothing(t, gatewaytest.StartWith(t, gatewaytest.Setup{YAML: settings, DataDir: data}), file, job, other)
	})
	t.Run("in PostgreSQL", func(t *testing.T) {
		t.Parallel()
		database := storetest.Postgres(t)
		shared := settings + "store: {config: '" + database.URL + "'}\nfiles: {folder: '" + t.TempDir() + "'}\n"
		r := gatewaytest.Start(t, shared)
		file, job, other := made(r)
		conn, err := pgx.Connect(t.Context(), database.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		for _, id := range []string{file, job} {
			if _, err := conn.Exec(t.Context(), `UPDATE patchbay_documents SET scope = 'tenant red', data = replace(data, '"tenant":"blue"', '"tenant":"red"') WHERE id = $1`, id); err != nil {
				t.Fatal(err)
			}
		}
		seesNothing(t, r, file, job, other)
	})
}

// A content that cannot be decrypted is an error, and not the beginning of an answer.
func TestADamagedContentIsAnError(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	settings := strings.Replace(on+twoTenants()+gatewaytest.PoolYAML(gatewaytest.StartBackend(t)), "security: {", "security: {master-key: "+masterKey+", ", 1)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: settings, DataDir: data})
	file := upload(t, r, "a text", as("alice-key")...)
	path := filepath.Join(data, "batches", "contents", file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	got := r.Do(http.MethodGet, "/v1/files/"+file+"/content", "", as("alice-key")...)
	if got.Status != http.StatusInternalServerError || !strings.Contains(got.Body, `"code":"internal_error"`) || got.Header.Get("Content-Disposition") != "" {
		t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
	}
	// A batch of lines that cannot be read does not begin: it would have none.
	id := submit(t, r, file, "/v1/chat/completions", as("alice-key")...)
	gatewaytest.Eventually(t, "the log says what is wrong", func() bool {
		return gatewaytest.CountLines(r.Logs.String(), `"level":"ERROR"`, id) > 0
	})
	if body := r.Do(http.MethodGet, "/v1/batches/"+id, "", as("alice-key")...).Body; !strings.Contains(body, `"status":"validating"`) {
		t.Errorf("%s", body)
	}
}
