package doctor

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/config/references"
	"github.com/patchbay-ai/patchbay/internal/store/postgres"
)

// storedReferences finds references of stored versions that this gateway does not
// resolve, because nothing in its own configuration names them.
func (e *examination) storedReferences(ctx context.Context) []Finding {
	const area = "references"
	stored, current, err := e.storedVersions(ctx)
	if err != nil || len(stored) == 0 {
		// The finding about the store names the fault.
		return []Finding{skip(area, "there are no stored versions to look at")}
	}
	inForce, older, masterKey := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, v := range stored {
		for _, service := range v.Services {
			for _, instance := range service.Instances {
				for _, reference := range instance.References() {
					var refused *references.RefusedError
					switch _, err := e.Document.Resolve(reference); {
					case !errors.As(err, &refused):
					case refused.IsMasterKey:
						masterKey[refused.Name] = true
					case v.Number == current:
						inForce[refused.Name] = true
					default:
						older[refused.Name] = true
					}
				}
			}
		}
	}
	var findings []Finding
	const fix = "list them in security.references if you know that the gateway needs them"
	if len(masterKey) > 0 {
		findings = append(findings, fail(area, "find out who wrote that, and delete these versions: no gateway needs "+
			"it", "stored versions refer to the master key: %s", namesOf(masterKey)))
	}
	if len(inForce) > 0 {
		findings = append(findings, fail(area, fix,
			"instances of the current version (%d) are out, because the services of the configuration file do not "+
				"refer to what theirs do: %s", current, namesOf(inForce)))
	}
	for name := range inForce {
		delete(older, name)
	}
	if len(older) > 0 {
		findings = append(findings, warn(area, fix,
			"older versions refer to what the services of the configuration file do not; after a rollback these "+
				"instances would be out: %s", namesOf(older)))
	}
	if len(findings) == 0 {
		findings = append(findings, ok(area, "all that %d stored versions refer to is known", len(stored)))
	}
	return findings
}

func namesOf(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// storedVersions returns the versions of this gateway that can be read, and the number of the current one. It
// changes nothing, and takes no lock.
func (e *examination) storedVersions(ctx context.Context) (found []*versions.Version, current int, err error) {
	if address := e.Document.Store.Config; address != "" {
		ctx, cancel := context.WithTimeout(ctx, e.CheckTime)
		defer cancel()
		err := postgres.InTransaction(ctx, address, &sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error {
			log, err := pglog.Read(ctx, tx, func(stored pglog.Stored) error {
				if v, err := versions.ReadVersion(stored.Number, stored.Text); err == nil {
					found = append(found, v)
				}
				return nil
			})
			current = log.Head.Version
			return err
		})
		return found, current, err
	}
	store := files.Peek(e.Document.Server.DataDir)
	numbers, err := store.Versions()
	if err != nil {
		return nil, 0, err
	}
	for _, number := range numbers {
		if v, err := store.Load(number); err == nil {
			found = append(found, v)
		}
	}
	head, err := store.Head()
	return found, head.Version, err
}
