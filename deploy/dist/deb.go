package main

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const control = `Package: patchbay
Version: %s
Section: net
Priority: optional
Architecture: %s
Installed-Size: %d
Maintainer: The Patchbay authors <patchbay@example.invalid>
Homepage: %s
Suggests: redis-server, postgresql
Description: OpenAI-compatible gateway in front of AI model servers
 Patchbay routes chat, embedding, rerank, speech and image requests from one
 OpenAI-compatible API to the backends that you run or rent. It balances, fails
 over, limits, counts, and is changed while it runs.
`

// The scripts leave it to Debian's helpers whether the service is enabled and started.
// The decisions of an administrator stay (systemctl disable, policy-rc.d), and the
// package can be installed where no systemd runs, such as in an image.

// postinst does not fail where the service does not start: another program may have its
// port, or its configuration a mistake, which is for the administrator to change. A package
// that fails would leave apt in the middle of its work.
const postinst = `#!/bin/sh
set -e
unit=patchbay.service
if [ "$1" = configure ]; then
	if command -v deb-systemd-helper >/dev/null; then
		deb-systemd-helper unmask "$unit" >/dev/null || true
		if deb-systemd-helper --quiet was-enabled "$unit"; then
			deb-systemd-helper enable "$unit" >/dev/null || true
		else
			deb-systemd-helper update-state "$unit" >/dev/null || true
		fi
	fi
	if [ -d "${DPKG_ROOT:-}/run/systemd/system" ]; then
		systemctl --system daemon-reload >/dev/null || true
		action=start
		if [ -n "$2" ]; then
			action=try-restart
		fi
		if ! deb-systemd-invoke "$action" "$unit" >/dev/null 2>&1; then
			echo "patchbay is installed, but its service does not run. Why:" >&2
			echo "  journalctl --unit patchbay --lines 20" >&2
			echo "The usual reasons are a port that another program has (server.listen) and a mistake in the" >&2
			echo "configuration (patchbay check /etc/patchbay/patchbay.yaml). When it is mended:" >&2
			echo "  systemctl restart patchbay" >&2
		fi
	fi
fi
`

const prerm = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d "${DPKG_ROOT:-}/run/systemd/system" ]; then
	deb-systemd-invoke stop patchbay.service >/dev/null || true
fi
`

const postrm = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d "${DPKG_ROOT:-}/run/systemd/system" ]; then
	systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ]; then
	if command -v deb-systemd-helper >/dev/null; then
		deb-systemd-helper purge patchbay.service >/dev/null || true
		deb-systemd-helper unmask patchbay.service >/dev/null || true
	fi
	rm -rf "${DPKG_ROOT:-}/var/lib/private/patchbay" "${DPKG_ROOT:-}/var/lib/patchbay"
	rm -f "${DPKG_ROOT:-}/etc/patchbay/environment"
	rmdir "${DPKG_ROOT:-}/etc/patchbay" 2>/dev/null || true
fi
`

// debVersion is the version in Debian's way: it begins with a digit, a commit without a
// tag comes before every release, and so does 1.2.3-rc.1 before 1.2.3.
func (r *release) debVersion() string {
	version := regexp.MustCompile(`^(\d+\.\d+\.\d+)-([A-Za-z])`).ReplaceAllString(r.plainVersion(), "$1~$2")
	version = regexp.MustCompile(`[^A-Za-z0-9.+~]+`).ReplaceAllString(version, "+")
	if version == "" || version[0] < '0' || version[0] > '9' || !strings.Contains(version, ".") {
		return "0~" + version
	}
	return version
}

// writeDeb writes the Debian package of an architecture.
func (r *release) writeDeb(arch string, binary []byte, extras []file) error {
	files := []file{{"usr/bin/patchbay", binary, 0o755}}
	for _, extra := range extras {
		name, content := extra.name, extra.content
		switch {
		case name == "deploy/systemd/patchbay.service":
			name = "usr/lib/systemd/system/patchbay.service"
		case name == "deploy/systemd/patchbay.yaml":
			name = "etc/patchbay/patchbay.yaml"
		case strings.HasPrefix(name, "man/"):
			name = "usr/share/man/man1/" + filepath.Base(name) + ".gz"
			content = gzipped(content)
		case name == "completions/patchbay.bash":
			name = "usr/share/bash-completion/completions/patchbay"
		case name == "completions/patchbay.zsh":
			name = "usr/share/zsh/vendor-completions/_patchbay"
		case name == "completions/patchbay.fish":
			name = "usr/share/fish/vendor_completions.d/patchbay.fish"
		case name == "LICENSE":
			name = "usr/share/doc/patchbay/copyright"
		case name == thirdParty:
			name, content = "usr/share/doc/patchbay/THIRD_PARTY_LICENSES.txt.gz", gzipped(content)
		default:
			continue
		}
		files = append(files, file{name, content, 0o644})
	}
	sortFiles(files)
	size := 0
	var sums strings.Builder
	for _, f := range files {
		size += len(f.content)
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.content), f.name)
	}
	data, err := r.tarGz("./", files)
	if err != nil {
		return err
	}
	meta, err := r.tarGz("./", []file{
		{"conffiles", []byte("/etc/patchbay/patchbay.yaml\n"), 0o644},
		{"control", fmt.Appendf(nil, control, r.debVersion(), arch, (size+1023)/1024, r.home()), 0o644},
		{"md5sums", []byte(sums.String()), 0o644},
		{"postinst", []byte(postinst), 0o755},
		{"postrm", []byte(postrm), 0o755},
		{"prerm", []byte(prerm), 0o755},
	})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, member := range []file{{"debian-binary", []byte("2.0\n"), 0}, {"control.tar.gz", meta, 0}, {"data.tar.gz", data, 0}} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, r.date.Unix(), 0, 0, "100644", len(member.content))
		b.Write(member.content)
		if len(member.content)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return os.WriteFile(filepath.Join(r.out, fmt.Sprintf("patchbay_%s_%s.deb", r.debVersion(), arch)), b.Bytes(), 0o644)
}

func gzipped(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is a valid one
	_, _ = w.Write(content)                               // to memory
	_ = w.Close()
	return b.Bytes()
}
