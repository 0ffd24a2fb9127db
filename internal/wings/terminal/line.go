package terminal

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/serve/live"
)

// Style says how text is written.
type Style struct{ Colour bool }

// The colours of terminals that are used.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	faint  = "2"
	bold   = "1"
)

func (s Style) paint(colour, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Call returns a call as one line:
//
//	15:04:05 chat demo-chat -> demo-chat@http://127.0.0.1:1 200 412ms ttft=83ms 12+48tok req_9f3
func (s Style) Call(c *Call) string {
	var b strings.Builder
	b.WriteString(s.paint(faint, c.Time.Local().Format(time.TimeOnly)))
	fmt.Fprintf(&b, " %s %s -> %s ", c.Service, plain(orNone(cmp.Or(c.Model, c.Asked))), plain(orNone(c.Instance)))
	switch status := fmt.Sprint(c.HTTPStatus); {
	case c.ClientGone:
		b.WriteString(s.paint(yellow, "left"))
	case c.Failed():
		b.WriteString(s.paint(red, status+" "+plain(c.ErrorCode)))
	default:
		b.WriteString(s.paint(green, status))
	}
	fmt.Fprintf(&b, " %s", millis(c.DurationMs))
	if c.FirstMs > 0 {
		fmt.Fprintf(&b, " ttft=%s", millis(c.FirstMs))
	}
	if c.Usage != nil {
		fmt.Fprintf(&b, " %d+%dtok", c.Usage.PromptTokens, c.Usage.CompletionTokens)
	}
	if c.Attempts > 1 {
		fmt.Fprintf(&b, " attempts=%d", c.Attempts)
	}
	if c.KeyID != "" {
		fmt.Fprintf(&b, " key=%s", plain(c.KeyID))
	}
	b.WriteString(" " + s.paint(faint, plain(c.RequestID)))
	return b.String()
}

// Change returns a change of state as one line.
func (s Style) Change(c *live.Change) string {
	colour := yellow
	switch c.To {
	case "CLOSED", "HEALTHY", "NORMAL":
		colour = green
	case "OPEN", "UNHEALTHY":
		colour = red
	}
	subject := c.InstanceID
	if subject == "" {
		subject = "gateway"
	}
	line := fmt.Sprintf("%s %s of %s: %s -> %s", s.paint(faint, c.Time.Local().Format(time.TimeOnly)), c.Kind,
		plain(subject), c.From, s.paint(colour, c.To))
	if c.Reason != "" {
		line += " (" + plain(c.Reason) + ")"
	}
	return line
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// plain returns a text without characters that would steer a terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// millis writes milliseconds with about three digits.
func millis(ms float64) string {
	switch {
	case ms >= 60_000:
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Second).String()
	case ms >= 10_000:
		return fmt.Sprintf("%.1fs", ms/1000)
	case ms >= 1000:
		return fmt.Sprintf("%.2fs", ms/1000)
	case ms >= 10:
		return fmt.Sprintf("%.0fms", ms)
	}
	return fmt.Sprintf("%.1fms", ms)
}
