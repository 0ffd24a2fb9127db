package access_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/access"
)

func TestMasksCountCharacters(t *testing.T) {
	for secret, want := range map[string]string{
		"schlüssel-äöüß": "****äöüß", "密钥密钥密钥密钥": "****", "密钥密钥密钥密钥九": "****钥密钥九",
		"key-\U0001F600\U0001F601\U0001F602\U0001F603\U0001F604": "****\U0001F601\U0001F602\U0001F603\U0001F604",
	} {
		if got := access.Mask(secret); got != want || !access.IsMask(got) {
			t.Errorf("the mask of %q is %q, want %q", secret, got, want)
		}
	}
}

// A mask is text, is known for a mask, and tells at most four characters, and
// these only of a secret that has more than twice as many.
func TestPropertyMasksAreKnownForWhatTheyAre(t *testing.T) {
	letters := rapid.RuneFrom([]rune{'a', '*', 'é', '密', '\u0301', '\U0001F600', utf8.RuneError})
	secrets := rapid.OneOf(rapid.StringOfN(letters, 1, 40, -1), rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		secret := secrets.Draw(t, "secret")
		mask := access.Mask(secret)
		if (secret == "") != (mask == "") || secret != "" && !access.IsMask(mask) || !utf8.ValidString(mask) {
			t.Fatalf("the mask of %q is %q", secret, mask)
		}
		told := strings.TrimPrefix(mask, "****")
		if n := utf8.RuneCountInString(told); n > 4 || n > 0 && utf8.RuneCountInString(secret) <= 2*n || utf8.ValidString(secret) && !strings.HasSuffix(secret, told) {
			t.Fatalf("the mask of %q is %q", secret, mask)
		}
	})
}

// Credentials in a path are masked, whatever they are; ids are not.
func TestCredentialsInPathsAreMasked(t *testing.T) {
	key, _ := access.NewKeyText()
	token, _ := access.NewTokenText()
	signed := "eyJhbGciOiJSUzI1NiJ9." + strings.Repeat("x", 40) + ".c2lnbmF0dXJl"
	for _, secret := range []string{key, token, "s1." + strings.Repeat("x", 70), "s2." + strings.Repeat("x", 64), signed} {
		got := access.MaskPath("/api/auth/keys/" + secret + "/rotate")
		if want := "/api/auth/keys/****" + secret[len(secret)-4:] + "/rotate"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, path := range []string{"/", "", "/api/auth/keys/pb-gateway", "/v1/responses/resp_" + strings.Repeat("x", 60), "/api/auth/keys/me-e0c8c479ae70cd7a-1/" + strings.Repeat("a.", 40)} {
		if got := access.MaskPath(path); got != path {
			t.Errorf("%s became %s", path, got)
		}
	}
}
