// This file belongs to the wing batches.

package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func newFiles(env []string) *cobra.Command {
	return newFamily(flagsIn(env), "file", false, remoteVerb{
		use:   "files",
		short: "List and delete the files of all owners, or of one",
		long: `Lists and deletes files that clients uploaded, and results of batches, for those who
run a gateway. Clients list and delete their own with /v1/files.

` + remotePlaces,
		example: `  patchbay files list --tenant acme
  patchbay files delete file-04f2c --token "$TOKEN"
  patchbay files delete --owner-key team-a --dry-run`,
	}, remoteVerb{
		use: "list", asks: "GET /api/files", flags: ownerFlags(), setup: oneOwner,
		short:   "List files, the newest first",
		long:    "Lists the newest thousand files of all owners, or of one.\n\n" + remotePlaces,
		example: "  patchbay files list\n  patchbay files list --owner-key team-a --json",
		prints: table("ID\tTENANT\tKEY\tBYTES\tCREATED\tPURPOSE\tNAME", func(l *fileLine) []string {
			return []string{l.ID, l.Tenant, l.KeyID, strconv.FormatInt(l.Bytes, 10),
				l.CreatedAt.Local().Format(time.DateTime), l.Purpose, l.Filename}
		}),
	}, deleteOwned("files", remoteVerb{
		short: "Delete files, or all of an owner",
		long: `Deletes files by their ids, or all of an owner. Files that a batch needs that has not
ended are left.

` + remotePlaces,
		example: `  patchbay files delete file-04f2c
  patchbay files delete --owner-key team-a --dry-run
  patchbay files delete --tenant acme`,
	}))
}

// ownerFlags name an owner of files and batches.
func ownerFlags() []flag {
	return []flag{
		{"tenant", "?tenant", "", "of all keys of a tenant", nil},
		{"owner-key", "?key", "", "of the API key with this id", nil},
		{"keyless", "?keyless", false, "of those that were made while no key was needed", nil},
	}
}

// oneOwner refuses more than one owner.
func oneOwner(cmd *cobra.Command) { cmd.MarkFlagsMutuallyExclusive("tenant", "owner-key", "keyless") }

// fileLine is a file as the gateway shows it.
type fileLine struct {
	ID        string    `json:"id"`
	Filename  string    `json:"filename"`
	Purpose   string    `json:"purpose"`
	Bytes     int64     `json:"bytes"`
	KeyID     string    `json:"keyId,omitzero"`
	Tenant    string    `json:"tenant,omitzero"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// deleteOwned completes a verb that deletes files or batches.
func deleteOwned(things string, v remoteVerb) remoteVerb {
	v.use, v.asks, v.isPlain, v.setup = "delete [ID ...]", "DELETE /api/"+things, true, oneOwner
	v.flags = append(ownerFlags(),
		flag{"dry-run", "?dryRun", false, "tell what would be deleted, and delete nothing", nil})
	v.args = func(cmd *cobra.Command, args []string) error {
		isNamed := false
		for _, owner := range ownerFlags() {
			given := cmd.Flag(owner.name)
			isNamed = isNamed || given.Value.String() != given.DefValue
		}
		if isNamed == (len(args) > 0) {
			return errors.New("name " + things + " by their ids, or one owner with --tenant, --owner-key or --keyless")
		}
		return nil
	}
	v.does = func(a *asking) error {
		a.patience = 5 * time.Minute // deleting thousands of files takes a while
		done := "deleted"
		if a.query.Get("dryRun") == "true" {
			done = "would delete"
		}
		if len(a.args) == 0 {
			return deleteAll(a, v.asks, things, done)
		}
		for ; len(a.args) > 0; a.args = a.args[1:] {
			if err := a.do(v.asks+"/{id}", nil); err != nil {
				return err
			}
			fmt.Fprintf(a.out(), "%s %s\n", done, a.args[0])
		}
		return nil
	}
	return v
}

// deleteAll deletes all files or batches of an owner.
func deleteAll(a *asking, operation, things, done string) error {
	var removed struct {
		Batches int `json:"batches"`
		Files   int `json:"files"`
		InUse   int `json:"inUse"`
	}
	if err := a.do(operation, &removed); err != nil {
		return err
	}
	fmt.Fprintf(a.out(), "%s %d %s\n", done, removed.Batches+removed.Files, things)
	if removed.InUse > 0 {
		fmt.Fprintf(a.out(), "%d are left, because batches need them that have not ended\n", removed.InUse)
	}
	return nil
}

// newBatchesDelete returns the verb that deletes batches.
func newBatchesDelete(env []string) *cobra.Command {
	v := deleteOwned("batches", remoteVerb{
		short: "Delete batches of any owner, with their results",
		long: `Deletes batches by their ids, or all of an owner, with their results, for those who run
the gateway. Those that have not ended end, and what was done is lost.

` + remotePlaces,
		example: `  patchbay batches delete batch_04f2c
  patchbay batches delete --tenant acme --dry-run
  patchbay batches delete --owner-key team-a --token "$TOKEN"`,
	})
	return v.command(flagsIn(env))
}
