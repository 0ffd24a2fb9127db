package actuator

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

func TestInfoSaysOnlyWhatTheBuildKnows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		build              Build
		branch, id, commit string
	}{
		{Build{Commit: "abc", Branch: "main", Date: "2025-01-02T03:04:05+02:00"}, "main", "abc", "2025-01-02T01:04:05Z"},
		{Build{}, "unknown", "unknown", "unknown"}, // and not when the program was built
		{Build{Commit: "unknown", Date: "unknown"}, "unknown", "unknown", "unknown"},
	} {
		info, err := (&API{options: Options{Build: test.build}}).info(nil)
		if err != nil {
			t.Fatal(err)
		}
		git := info.Git
		if git.Branch != test.branch || git.Commit.ID != test.id || git.Commit.Time != test.commit || !strings.HasSuffix(info.Build.Time, "Z") {
			t.Errorf("%+v: %+v", test.build, info)
		}
	}
}

func TestLevelThatDoesNotArriveChangesNothing(t *testing.T) {
	t.Parallel()
	levels := logs.LevelsOf(logs.New(io.Discard, logs.JSON, slog.LevelInfo))
	api := &API{options: Options{Levels: levels}}
	if err := levels.Set("some", slog.LevelWarn); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		body io.Reader
		want int
	}{
		{io.MultiReader(strings.NewReader(`{"configuredLevel":`), iotest.ErrReader(os.ErrDeadlineExceeded)), http.StatusRequestTimeout},
		{iotest.ErrReader(io.ErrUnexpectedEOF), http.StatusBadRequest},
		{strings.NewReader(strings.Repeat(" ", 1<<20)), http.StatusRequestEntityTooLarge},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/actuator/loggers/some", test.body)
		request.SetPathValue("name", "some")
		answer := httptest.NewRecorder()
		api.SetLogger(answer, request)
		if answer.Code != test.want || !strings.Contains(answer.Body.String(), `"path":"/actuator/loggers/some"`) {
			t.Errorf("%d %s, want %d", answer.Code, answer.Body, test.want)
		}
	}
	if level, own := levels.Level("some"); level != slog.LevelWarn || !own {
		t.Errorf("level %v, its own: %v", level, own)
	}
}

func TestDiskIsDownWithoutItsDirectory(t *testing.T) {
	t.Parallel()
	there, gone := diskWatch{path: t.TempDir()}, diskWatch{path: t.TempDir() + "/none"}
	if h := there.health(); h.Status != up || !h.Details.(diskDetails).Exists {
		t.Errorf("%+v", h)
	}
	if h := gone.health(); h.Status != down || h.Details.(diskDetails).Exists {
		t.Errorf("%+v", h)
	}
}
