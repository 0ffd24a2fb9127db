package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/config/references"
	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/control/files"
)

// storedReferences finds references of stored versions that this gateway does not
// resolve, because nothing in its own configuration names them.
func (e *examination) storedReferences(ctx context.Context) []Finding {
	const area = "references"
	versions, current, err := e.storedVersions(ctx)
	if err != nil || len(versions) == 0 {
		return []Finding{skip(area, "there are no stored versions to look at")} // what is wrong with the store is said there
	}
	inForce, older, masterKey := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, v := range versions {
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
		findings = append(findings, fail(area, "find out who wrote that, and delete these versions: no gateway needs it", "stored versions refer to the master key: %s", namesOf(masterKey)))
	}
	if len(inForce) > 0 {
		findings = append(findings, fail(area, fix, "instances of the current version (%d) are out, because the services of the configuration file do not refer to what theirs do: %s", current, namesOf(inForce)))
	}
	for name := range inForce {
		delete(older, name)
	}
	if len(older) > 0 {
		findings = append(findings, warn(area, fix, "older versions refer to what the services of the configuration file do not; after a rollback these instances would be out: %s", namesOf(older)))
	}
	if len(findings) == 0 {
		findings = append(findings, ok(area, "all that %d stored versions refer to is known", len(versions)))
	}
	return findings
}

func namesOf(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// storedVersions returns the versions of this gateway that can be read, and the number of
// the current one. It changes nothing, and takes no lock.
func (e *examination) storedVersions(ctx context.Context) (versions []*control.Version, current int, err error) {
	if e.Document.Store.Config != "" {
		return sharedVersions(ctx, e.Document.Store.Config)
	}
	store := files.Peek(e.Document.Server.DataDir)
	numbers, err := store.Versions()
	if err != nil {
		return nil, 0, err
	}
	for _, number := range numbers {
		if v, err := store.Load(number); err == nil {
			versions = append(versions, v)
		}
	}
	head, err := store.Head()
	return versions, head.Version, err
}

func sharedVersions(ctx context.Context, address string) (versions []*control.Version, current int, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := conn.QueryRow(ctx, "SELECT version FROM patchbay_config_current").Scan(&current); err != nil {
		return nil, 0, err
	}
	rows, err := conn.Query(ctx, "SELECT version, record FROM patchbay_config_versions ORDER BY version")
	if err != nil {
		return nil, 0, err
	}
	var number int
	var record string
	_, err = pgx.ForEachRow(rows, []any{&number, &record}, func() error {
		if v, err := control.ReadVersion(number, []byte(record)); err == nil {
			versions = append(versions, v)
		}
		return nil
	})
	return versions, current, err
}
