package wire_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

func TestTokensAndTextsByEveryByte(t *testing.T) {
	const token = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for c := range 256 {
		one := string([]byte{byte(c)})
		if got, want := wire.IsToken("a"+one+"b"), strings.Contains(token, one); got != want {
			t.Errorf("%q in a token: %v", one, got)
		}
		allowed := c >= ' ' && c != 0x7f || c == '\t'
		for _, text := range []string{one, "12345678" + one, "1234" + one + "678", one + "é345678\t90"} {
			if got := wire.IsText(text); got != allowed {
				t.Errorf("%q as a text: %v", text, got)
			}
		}
	}
	if wire.IsToken("") || !wire.IsText("") {
		t.Error("what is empty is a text and no token")
	}
}
