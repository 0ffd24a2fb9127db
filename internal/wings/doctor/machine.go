package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/shirou/gopsutil/v4/disk"

	"github.com/patchbay-ai/patchbay/internal/access/listen"
)

// addresses reports whether the gateway can listen, or does.
func (e *examination) addresses(ctx context.Context) []Finding {
	const area = "listen"
	ctx, cancel := context.WithTimeout(ctx, e.CheckTime)
	defer cancel()
	version, err := e.Running(ctx)
	if err == nil {
		if version != e.Version {
			return []Finding{warn(area, "restart the gateway to run this version",
				"a gateway runs there, of version %s; this is %s", version, e.Version)}
		}
		return []Finding{ok(area, "the gateway runs there")}
	}
	var findings []Finding
	server := e.Document.Server
	for _, address := range slices.Concat(server.Listen, server.ManagementListen, server.OllamaListen) {
		listener, err := listen.Open(ctx, address)
		var inUse *listen.InUseError
		switch {
		case errors.As(err, &inUse):
			findings = append(findings, fail(area,
				"stop the other program, or choose another address with --listen or server.listen",
				"%s is in use by another program", address))
		case err != nil:
			findings = append(findings, fail(area, "choose an address of this machine that may be used", "%v", err))
		default:
			_ = listener.Close()
			findings = append(findings, ok(area, "%s is free", address))
		}
		if !e.Document.Security.Enabled && !e.Document.Security.AllowOpen && !listen.IsLoopback(address) {
			findings = append(findings, fail(area,
				"set security.enabled: true and issue keys (patchbay keys create), or listen on loopback",
				"others reach %s and security is off: the gateway refuses to start", address))
		}
	}
	return findings
}

// metrics reports whether everybody can read the spending of keys.
func (e *examination) metrics(context.Context) []Finding {
	const area = "security.metrics"
	switch settings := e.Document.Security; {
	case !settings.Enabled:
		return []Finding{skip(area, "security is off")}
	case settings.ShowsSpending():
		return []Finding{warn(area, "set security.metrics: token, and give Prometheus a management token of the role "+
			"VIEWER (patchbay tokens create)",
			"anyone who reaches the gateway can read in its metrics which keys there are and what they spend")}
	}
	return []Finding{ok(area, "a management token is needed")}
}

// certificate looks at the certificate that the gateway shows.
func (e *examination) certificate(context.Context) []Finding {
	const area = "server.tls"
	settings := e.Document.Server.TLS
	if !settings.Enabled() {
		return []Finding{skip(area, "not in use")}
	}
	certificates, err := listen.LoadCertificates(settings, slog.New(slog.DiscardHandler))
	if err != nil {
		return []Finding{fail(area, "make the files readable for the gateway, and matching each other", "%v", err)}
	}
	return []Finding{expiry(area, "the certificate", certificates.Leaf().NotAfter)}
}

// expiry judges when a certificate ends.
func expiry(area, what string, end time.Time) Finding {
	const soon = 14 * 24 * time.Hour
	switch left := time.Until(end); {
	case left < 0:
		return fail(area, "renew it", "%s has expired on %s", what, end.Format(time.DateOnly))
	case left < soon:
		return warn(area, "renew it", "%s expires on %s", what, end.Format(time.DateOnly))
	}
	return ok(area, "%s is valid until %s", what, end.Format(time.DateOnly))
}

// dataDirectory reports whether files can be written, and whether there is room.
func (e *examination) dataDirectory(context.Context) []Finding {
	const area = "data"
	dir, err := filepath.Abs(e.Document.Server.DataDir)
	if err != nil {
		return []Finding{fail(area, "set server.data-dir to a directory", "%v", err)}
	}
	existing := dir
	for { // the directory is made at the start
		if _, err := os.Stat(existing); !errors.Is(err, fs.ErrNotExist) || existing == filepath.Dir(existing) {
			break
		}
		existing = filepath.Dir(existing)
	}
	if finding := writable(area, existing); finding.Level != OK {
		return []Finding{finding}
	}
	findings := []Finding{ok(area, "%s can be written", dir)}
	if existing != dir {
		findings = []Finding{ok(area, "%s will be made at the start", dir)}
	}
	usage, err := disk.Usage(existing)
	if err != nil {
		return append(findings, warn("disk", "look at it with df", "the room in %s is not known: %v", existing, err))
	}
	const mib = 1 << 20
	free := fmt.Sprintf("%d MiB are free in %s", usage.Free/mib, existing)
	const fix = "make room, or move server.data-dir"
	switch {
	case usage.Free < 100*mib:
		return append(findings, fail("disk", fix, "only %s", free))
	case usage.Free < 1024*mib:
		return append(findings, warn("disk", fix, "only %s", free))
	}
	return append(findings, ok("disk", "%s", free))
}

// writable tries whether a file can be made in a directory.
func writable(area, dir string) Finding {
	probe, err := os.CreateTemp(dir, ".patchbay-doctor-")
	if err != nil {
		return fail(area, "give the directory to the user that runs the gateway, or set server.data-dir to another one",
			"%s cannot be written: %v", dir, err)
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return fail(area, "allow files to be removed there", "%v", err)
	}
	return ok(area, "%s can be written", dir)
}

// descriptors reports whether there are enough for the connections.
func (e *examination) descriptors(context.Context) []Finding {
	const area = "descriptors"
	limit, known := descriptorLimit()
	if !known {
		return []Finding{skip(area, "this system has no such limit")}
	}
	// A request takes a connection with its client and one with a backend.
	wanted := uint64(2 * e.Document.Limits.MaxInFlight)
	fix := fmt.Sprintf("allow %d (ulimit -n, or LimitNOFILE= of the systemd unit), or lower limits.max-in-flight",
		wanted)
	switch {
	case limit < 1024:
		return []Finding{fail(area, fix, "only %d files and connections may be open at a time", limit)}
	case limit < wanted:
		return []Finding{warn(area, fix, "%d files and connections may be open at a time; limits.max-in-flight: %d "+
			"may need %d", limit, e.Document.Limits.MaxInFlight, wanted)}
	}
	return []Finding{ok(area, "%d files and connections may be open at a time", limit)}
}
