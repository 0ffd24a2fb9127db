package backup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Parts returns the parts that not every backup has.
func Parts() []store.Part { return []store.Part{store.Ledger, store.Files, store.Batches} }

// ParseParts returns the parts of these names.
func ParseParts(names []string) (parts []store.Part, err error) {
	for _, name := range names {
		part := store.Part(name)
		if !slices.Contains(Parts(), part) {
			return nil, fmt.Errorf("want some of ledger, files, batches, found %q", name)
		}
		parts = append(parts, part)
	}
	if slices.Contains(parts, store.Batches) {
		parts = append(parts, store.Files)
	}
	slices.Sort(parts)
	return slices.Compact(parts), nil
}

// Kept declares what a restore leaves in a data directory.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "which unsigned backup was restored and is not confirmed", Part: store.Configuration,
		Files: []string{unconfirmedFile}, Values: []string{unconfirmedName}, Ends: "with the confirmation",
	}, {
		Name: "what was there before a restore", Files: []string{asidePrefix + "*/", store.Shared + asidePrefix + "*/"},
		Without: "the restore replaced it", IsSecret: true, Ends: "an operator deletes it",
	}}
}

// asidePrefix begins the name of a folder for what was there before a restore.
const asidePrefix = "replaced-"

// Place is where a gateway keeps its data.
type Place struct {
	DataDir string
	// Database is the PostgreSQL of a shared configuration, empty where the configuration is
	// in the data directory.
	Database string
	// Ledger is the address of the ledger's database, and Folder the folder of files and
	// batches, empty where gateways share a database and no folder.
	Ledger, Folder string
	// Keys are the master key and the previous one, and Old is the previous one.
	Keys, Old *seal.Keys
	// Redis is the address of Redis, if gateways use it.
	Redis     string
	usesRedis bool
	prefixes  *strings.Replacer // of the names of settings in declarations
	// Kept declares what is stored.
	Kept []store.Kept
}

// PlaceOf returns where a gateway with this configuration keeps its data, which is declared.
func PlaceOf(doc *config.Document, kept []store.Kept) (*Place, error) {
	keys, err := seal.New(doc.Security.MasterKey, doc.Security.PreviousMasterKey)
	if err != nil {
		return nil, fmt.Errorf("security.master-key: %w", err)
	}
	old, _ := seal.New(doc.Security.PreviousMasterKey, "") // it was made above
	p := &Place{DataDir: doc.Server.DataDir, Database: doc.Store.Config, Ledger: doc.Store.URL, Keys: keys, Old: old,
		Folder: doc.FilesFolder(), Kept: slices.Concat(kept, Kept()), Redis: doc.Redis.URL,
		usesRedis: doc.NamesRedis || doc.Quota.Distributed.Enabled || doc.Responses.Shared,
		prefixes: strings.NewReplacer(
			"quota.distributed.key-prefix", doc.Quota.Distributed.KeyPrefix, "redis.key-prefix", doc.Redis.KeyPrefix)}
	if p.Folder == "" && p.Database == "" {
		p.Folder = p.path(store.Shared)
	}
	return p, nil
}

// path returns the path of a file or folder.
func (p *Place) path(name string) string { return store.Path(name, p.DataDir, p.Folder) }

// kept returns the declarations of what belongs to a backup with these parts.
func (p *Place) kept(parts []store.Part) []store.Kept {
	return slices.DeleteFunc(slices.Clone(p.Kept), func(k store.Kept) bool {
		return k.Part != store.Configuration && !slices.Contains(parts, k.Part)
	})
}

// folders returns the folders of a part apart from those of documents: journals of the ledger, and answers of
// batches.
func (p *Place) folders(part store.Part) (found []string) {
	for i := range p.Kept {
		for _, name := range p.Kept[i].Files {
			if p.Kept[i].Part == part && strings.HasSuffix(name, "/") {
				found = append(found, p.path(name))
			}
		}
	}
	return found
}

// travels reports whether a value belongs to a backup.
func (p *Place) travels(value string) bool {
	return slices.ContainsFunc(p.Kept, func(k store.Kept) bool {
		return k.Part != "" && slices.ContainsFunc(k.Values, func(begin string) bool {
			return strings.HasPrefix(value, begin)
		})
	})
}

// checkFolder returns an error if there are files to back up or restore, and no folder.
func (p *Place) checkFolder(parts []store.Part) error {
	if p.Folder == "" && slices.Contains(parts, store.Files) {
		return errors.New("files.folder is not set: name the folder that the gateways share, such as with " +
			"--set files.folder=/srv/patchbay")
	}
	return nil
}

// String names the place for people, without a password.
func (p *Place) String() string {
	if p.Database != "" {
		return "PostgreSQL"
	}
	return p.DataDir
}
