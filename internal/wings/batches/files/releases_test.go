package files_test

import (
	"archive/zip"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// The results of a batch that earlier releases left are read to the byte, with a master key and
// without, also when their time is over. TestAMonthOfUpgrades reads the rest of these archives.
func TestContentsOfEarlierReleases(t *testing.T) {
	t.Parallel()
	for _, release := range []string{"71ceb32f", "9b73041f", "a8ab1908"} {
		for suffix, master := range map[string]string{"": "0123456789abcdef0123456789abcdef", "-plain": ""} {
			t.Run(release+suffix, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				archive, err := zip.OpenReader("../../../gateway/testdata/releases/" + release + suffix + ".zip")
				if err != nil {
					t.Fatal(err)
				}
				defer archive.Close()
				if err := os.CopyFS(dir, archive); err != nil {
					t.Fatal(err)
				}
				read := func(name string) []byte {
					content, err := fs.ReadFile(archive, name)
					if err != nil {
						t.Fatal(err)
					}
					return content
				}
				var batch struct {
					Output string `json:"output_file_id"`
				}
				if err := json.Unmarshal(read("batch.json"), &batch); err != nil {
					t.Fatal(err)
				}
				keys, err := seal.New(master, "")
				if err != nil {
					t.Fatal(err)
				}
				log := slog.New(slog.DiscardHandler)
				docs, err := documents.OpenDir(filepath.Join(dir, "data/batches/documents"), log)
				if err != nil {
					t.Fatal(err)
				}
				store, err := files.Open(files.Options{
					Documents: docs, Folder: filepath.Join(dir, "data/batches/contents"), Keys: keys,
					Settings: files.DefaultSettings, Log: log,
				})
				if err != nil {
					t.Fatal(err)
				}
				file, err := store.Input(t.Context(), "tenant acme", batch.Output)
				if err != nil {
					t.Fatal(err)
				}
				content, err := store.Open(file)
				if err != nil {
					t.Fatal(err)
				}
				defer content.Close()
				got, err := io.ReadAll(content.From(0))
				if want := read("results.jsonl"); err != nil || string(got) != string(want) {
					t.Errorf("%s, %v; want %s", got, err, want)
				}
			})
		}
	}
}
