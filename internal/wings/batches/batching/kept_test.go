package batching_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// page is what tests read of a list of files or batches.
type page struct {
	Data []struct {
		ID string `json:"id"`
	} `json:"data"`
	HasMore bool   `json:"has_more"`
	FirstID string `json:"first_id"`
	LastID  string `json:"last_id"`
}

func pageOf(t *testing.T, r *gatewaytest.Gateway, path string) (p page) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Do("GET", path, "").Succeeds(t).Body), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestListsGoOnAfterWhatWasDeleted(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, on+gatewaytest.PoolYAML(gatewaytest.StartBackend(t)))
	const messageBatches = "/v1/messages/batches"
	makeFile := func() string { return upload(t, r, "x") }
	makeBatch := func() string {
		id := idOf(t, r.Post(messageBatches, `{"requests":[{"custom_id":"a","params":{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}}]}`).Succeeds(t).Body)
		ended(t, r, messageBatches+"/"+id)
		return id
	}
	for _, c := range []struct {
		path, cursor, last string
		make               func() string
	}{
		{"/v1/files", "limit=2&after=", "last", makeFile},
		{"/v1/files", "limit=2&order=asc&after=", "last", makeFile},
		{messageBatches, "limit=2&after_id=", "last", makeBatch},
		{messageBatches, "limit=2&before_id=", "first", makeBatch},
	} {
		var made, seen []string
		for range 5 {
			made = append(made, c.make())
		}
		cursor := c.cursor
		if c.last == "first" { // from the oldest on
			r.Do("DELETE", c.path+"/"+made[0], "").Succeeds(t)
			cursor, seen = c.cursor+made[0], made[:1:1]
		}
		for {
			p := pageOf(t, r, c.path+"?"+cursor)
			for _, one := range p.Data {
				seen = append(seen, one.ID)
				r.Do("DELETE", c.path+"/"+one.ID, "").Succeeds(t)
			}
			cursor = c.cursor + p.LastID
			if c.last == "first" {
				cursor = c.cursor + p.FirstID
			}
			if !p.HasMore {
				break
			}
		}
		slices.Sort(made)
		slices.Sort(seen)
		if !slices.Equal(seen, made) {
			t.Errorf("%s?%s lists %v of %v", c.path, c.cursor, seen, made)
		}
	}
}

// A database that hangs is told within a few seconds, in a way that clients try again.
func TestADatabaseThatHangsIsToldToClients(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	backend := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "batches: {enabled: true}\nfiles: {folder: "+gatewaytest.Quote(t.TempDir())+"}\nstore: {config: '"+database.URL+"'}\n"+gatewaytest.PoolYAML(backend))
	file := upload(t, r, line("a", "m"))
	id := submit(t, r, file, "/v1/chat/completions")
	ended(t, r, "/v1/batches/"+id)
	database.Freeze()
	defer database.Thaw()
	for _, ask := range []func() gatewaytest.Reply{
		func() gatewaytest.Reply { return r.Do("GET", "/v1/batches/"+id, "") },
		func() gatewaytest.Reply { return r.Do("GET", "/v1/files", "") },
		func() gatewaytest.Reply { return r.Do("GET", "/v1/messages/batches", "") },
		func() gatewaytest.Reply { return tryUpload(t, r, line("b", "m")) },
		func() gatewaytest.Reply {
			return r.Post("/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, file))
		},
	} {
		began := time.Now()
		reply := ask()
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("the reply took %s", took)
		}
		if reply.Status != 503 || reply.Header.Get("Retry-After") == "" || !strings.Contains(reply.Body, "does not answer") {
			t.Errorf("the reply is %d %v %s", reply.Status, reply.Header, reply.Body)
		}
	}
}
