package v1_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// upload begins an upload that has not named its model, and sends so many bytes of its
// file. It returns what it is told before its end, if anything is.
func upload(t *testing.T, r *gatewaytest.Gateway, header string, bytes int) (conn net.Conn, told <-chan gatewaytest.Reply) {
	t.Helper()
	conn = r.DialRaw()
	start := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n"
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Type: multipart/form-data; boundary=x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s%s\r\n",
		gatewaytest.Transcriptions, header, len(start)+bytes, start, strings.Repeat("z", bytes))
	replies := make(chan gatewaytest.Reply, 1)
	if err != nil {
		close(replies) // it was refused while it sent
		return conn, replies
	}
	go func() {
		defer close(replies)
		if response, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			replies <- gatewaytest.ReadReply(response)
		}
	}()
	return conn, replies
}

// uploadUntilFull has a caller upload until it is refused, and returns the connections of
// those that are not.
func uploadUntilFull(t *testing.T, r *gatewaytest.Gateway, header string, bytes int) (held []net.Conn) {
	t.Helper()
	for range 40 {
		before := r.Uploads.Taken()
		conn, told := upload(t, r, header, bytes)
		refused := false
		gatewaytest.Eventually(t, "the upload is refused or on disk", func() bool {
			select {
			case reply, any := <-told:
				if any {
					reply.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "uploads_full", "")
					if reply.RetryOf(t) != time.Second || !reply.Closes {
						t.Errorf("closes: %v, headers %v", reply.Closes, reply.Header)
					}
				}
				refused = true
				return true
			default:
				return r.Uploads.Taken() >= before+int64(bytes)
			}
		})
		if refused {
			return held
		}
		held = append(held, conn)
	}
	t.Fatal("nothing is refused")
	return nil
}

// The files of all uploads take no more of the disk than there is for them, from the
// moment at which they arrive until their requests end.
func TestUploadsShareTheirSpace(t *testing.T) {
	ownTemp(t)
	r, _ := gatewaytest.StartService(t)
	const limit = 12 << 20
	r.Uploads.SetLimit(limit)
	var held []net.Conn
	for n := range 4 {
		held = append(held, uploadUntilFull(t, r, fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", n), 1<<20)...)
	}
	if taken := r.Uploads.Taken(); taken > limit || taken < limit/2 {
		t.Errorf("%d bytes are taken of %d", taken, limit)
	}
	for _, conn := range held {
		_ = conn.Close()
	}
	gatewaytest.Eventually(t, "all is free", func() bool { return r.Uploads.Taken() == 0 })
	r.PostForm(gatewaytest.Transcriptions, big(), gatewaytest.Field("model", "m")).Succeeds(t)
	gatewaytest.Eventually(t, "all is free after a whole upload", func() bool { return r.Uploads.Taken() == 0 })
}

func TestOneCallerLeavesSpaceToOthers(t *testing.T) {
	ownTemp(t)
	for way, callers := range twoCallers {
		t.Run(way, func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			r := startForTwo(t, way, gatewaytest.ServiceYAML("stt", gatewaytest.Instance("m", b.URL())))
			r.Uploads.SetLimit(12 << 20)
			uploadUntilFull(t, r, callers[0], 2<<20)
			if taken, most := r.Uploads.Taken(), r.Uploads.Most(); taken > most {
				t.Errorf("%d bytes are taken, %d may be", taken, most)
			}
			name, value, _ := strings.Cut(callers[1], ": ")
			var form strings.Builder
			contentType := gatewaytest.WriteForm(t, &form, big(), gatewaytest.Field("model", "m"))
			r.Do(http.MethodPost, gatewaytest.Transcriptions, form.String(), "Content-Type", contentType, name, value).Succeeds(t)
		})
	}
}

// A form that says how long it is, and has no room, is refused before it is sent.
func TestAnUploadWithoutRoomIsRefusedAtOnce(t *testing.T) {
	ownTemp(t)
	r, _ := gatewaytest.StartService(t)
	r.Uploads.SetLimit(1 << 20)
	reply := r.SendRaw("POST " + gatewaytest.Transcriptions + " HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000000\r\n\r\n")
	fault := reply.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "uploads_full", "")
	if !strings.Contains(fault.Message, "two thirds of limits.uploads") || reply.Header.Get("X-Should-Retry") != "false" || !reply.Closes {
		t.Errorf("%s, headers %v", fault.Message, reply.Header)
	}
}

// A disk that cannot be written is told to the caller and in the log, and the connection
// ends, on which more of the form may come.
func TestUploadsThatTheDiskRefuses(t *testing.T) {
	r, b := gatewaytest.StartService(t)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	_, told := upload(t, r, "X-Request-Id: it", 200<<10)
	reply, any := <-told
	if !any {
		t.Fatal("no answer")
	}
	reply.FailsWith(t, http.StatusInternalServerError, "internal_error", "internal_error", "")
	if !reply.Closes || strings.Contains(reply.Body, "missing") {
		t.Errorf("closes: %v, told %s", reply.Closes, reply.Body)
	}
	gatewaytest.Eventually(t, "the log says why", func() bool {
		return strings.Contains(r.Logs.String(), "an upload could not be stored") && strings.Contains(r.Logs.String(), "no such file or directory")
	})
	if b.Stats().Arrived != 0 || r.Uploads.Taken() != 0 {
		t.Errorf("%d calls, %d bytes are taken", b.Stats().Arrived, r.Uploads.Taken())
	}
}
