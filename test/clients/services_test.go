package clients_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func embed(t *testing.T, client openai.Client, params openai.EmbeddingNewParams) *openai.CreateEmbeddingResponse {
	t.Helper()
	params.Model = "demo-embedding"
	reply, err := client.Embeddings.New(limited(t), params)
	if err != nil {
		t.Fatal(err)
	}
	if reply.Model != "demo-embedding" || reply.Usage.TotalTokens <= 0 {
		t.Errorf("model %q, usage %+v", reply.Model, reply.Usage)
	}
	return reply
}

func TestEmbeddings(t *testing.T) {
	client := newClient()
	texts := openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a cat", "a dog"}}
	plain := embed(t, client, openai.EmbeddingNewParams{Input: texts})
	packed := embed(t, client, openai.EmbeddingNewParams{Input: texts, EncodingFormat: openai.EmbeddingNewParamsEncodingFormatBase64})
	if len(plain.Data) != 2 || len(packed.Data) != 2 {
		t.Fatalf("%d and %d vectors", len(plain.Data), len(packed.Data))
	}
	for i := range plain.Data {
		if plain.Data[i].Index != int64(i) || len(plain.Data[i].Embedding) < 16 {
			t.Errorf("item %d: %s", i, plain.Data[i].RawJSON())
		}
		if !slices.EqualFunc(plain.Data[i].Embedding, packed.Data[i].Embedding, func(a, b float64) bool { return float32(a) == float32(b) }) {
			t.Errorf("item %d is not the same in base64", i)
		}
	}
	tokens := embed(t, client, openai.EmbeddingNewParams{
		Input:      openai.EmbeddingNewParamsInputUnion{OfArrayOfTokenArrays: [][]int64{{1, 2}, {3}}},
		Dimensions: openai.Int(24),
	})
	if len(tokens.Data) != 2 || len(tokens.Data[0].Embedding) != 24 {
		t.Errorf("%d vectors of token ids", len(tokens.Data))
	}
}

// speak returns a WAV.
func speak(t *testing.T, client openai.Client) []byte {
	t.Helper()
	response, err := client.Audio.Speech.New(limited(t), openai.AudioSpeechNewParams{
		Model: "demo-tts", Input: "one two three",
		Voice:          openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("alloy")},
		ResponseFormat: openai.AudioSpeechNewParamsResponseFormatWAV,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "audio/wav" {
		t.Errorf("Content-Type %q", got)
	}
	wav, err := io.ReadAll(response.Body)
	if err != nil || !bytes.HasPrefix(wav, []byte("RIFF")) {
		t.Fatalf("%v, begins with %.4q", err, wav)
	}
	return wav
}

// The client sends the file before the name of the model.
func TestSpeechAndItsTranscription(t *testing.T) {
	client := newClient()
	wav := speak(t, client)
	file := func() io.Reader { return openai.File(bytes.NewReader(wav), "speech.wav", "audio/wav") }
	plain, err := client.Audio.Transcriptions.New(limited(t), openai.AudioTranscriptionNewParams{Model: "demo-stt", File: file()})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plain.Text, fmt.Sprintf("%d bytes of format WAV", len(wav))) {
		t.Errorf("text %q", plain.Text)
	}
	verbose, err := client.Audio.Transcriptions.New(limited(t), openai.AudioTranscriptionNewParams{
		Model: "demo-stt", File: file(), Language: openai.String("de"),
		ResponseFormat:         openai.AudioResponseFormatVerboseJSON,
		TimestampGranularities: []string{"word", "segment"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := verbose.AsTranscriptionVerbose(); got.Language != "de" || len(got.Segments) == 0 || len(got.Words) == 0 || got.Text != plain.Text {
		t.Errorf("transcription %s", verbose.RawJSON())
	}
	// A file that has no name but that of its field.
	if _, err := client.Audio.Transcriptions.New(limited(t), openai.AudioTranscriptionNewParams{Model: "demo-stt", File: bytes.NewReader(wav)}); err != nil {
		t.Error(err)
	}
}

func picture(t *testing.T, client openai.Client, prompt string) []byte {
	t.Helper()
	reply, err := client.Images.Generate(limited(t), openai.ImageGenerateParams{
		Model: "demo-image", Prompt: prompt, Size: "64x64", ResponseFormat: openai.ImageGenerateParamsResponseFormatB64JSON,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.Data) != 1 || reply.Created == 0 || reply.Data[0].URL != "" {
		t.Fatalf("images %s", reply.RawJSON())
	}
	return decodePNG(t, reply.Data[0].B64JSON)
}

func decodePNG(t *testing.T, text string) []byte {
	t.Helper()
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := png.Decode(bytes.NewReader(content))
	if err != nil || decoded.Bounds().Dx() != 64 {
		t.Fatalf("no picture 64 wide: %v", err)
	}
	return content
}

func TestImages(t *testing.T) {
	client := newClient()
	one, two := picture(t, client, "one"), picture(t, client, "two")
	reply, err := client.Images.Generate(limited(t), openai.ImageGenerateParams{
		Model: "demo-image", Prompt: "a cat", Size: "64x64", N: openai.Int(2), ResponseFormat: openai.ImageGenerateParamsResponseFormatURL,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.Data) != 2 || reply.Data[0].URL == "" || reply.Data[0].B64JSON != "" {
		t.Errorf("images %s", reply.RawJSON())
	}
	file := func(content []byte, name string) io.Reader {
		return openai.File(bytes.NewReader(content), name, "image/png")
	}
	edited, err := client.Images.Edit(limited(t), openai.ImageEditParams{
		Model: "demo-image-edit", Prompt: "blue", N: openai.Int(2), ResponseFormat: openai.ImageEditParamsResponseFormatB64JSON,
		Image: openai.ImageEditParamsImageUnion{OfFileArray: []io.Reader{file(one, "one.png"), file(two, "two.png")}},
		Mask:  file(one, "mask.png"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(edited.Data) != 2 {
		t.Fatalf("%d images", len(edited.Data))
	}
	for _, image := range edited.Data {
		if bytes.Equal(decodePNG(t, image.B64JSON), one) {
			t.Error("the image was not edited")
		}
	}
}

func TestErrorsOfServices(t *testing.T) {
	for name, test := range map[string]struct {
		call  func(openai.Client) error
		param string
	}{
		"embeddings": {func(c openai.Client) error {
			_, err := c.Embeddings.New(limited(t), openai.EmbeddingNewParams{
				Model: "demo-embedding", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{}},
			})
			return err
		}, "input"},
		"speech": {func(c openai.Client) error {
			_, err := c.Audio.Speech.New(limited(t), openai.AudioSpeechNewParams{
				Model: "demo-tts", Input: "x", Speed: openai.Float(0.24),
				Voice: openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("v")},
			})
			return err
		}, "speed"},
		"transcription": {func(c openai.Client) error {
			_, err := c.Audio.Transcriptions.New(limited(t), openai.AudioTranscriptionNewParams{
				Model: "demo-stt", File: strings.NewReader("x"), ResponseFormat: "docx",
			})
			return err
		}, "response_format"},
		"image": {func(c openai.Client) error {
			_, err := c.Images.Generate(limited(t), openai.ImageGenerateParams{Model: "demo-image", Prompt: "x", N: openai.Int(0)})
			return err
		}, "n"},
	} {
		t.Run(name, func(t *testing.T) {
			var wire counter
			err := test.call(newClient(option.WithHTTPClient(&http.Client{Transport: &wire})))
			var failure *openai.Error
			if !errors.As(err, &failure) {
				t.Fatalf("want an API error, got %v", err)
			}
			if failure.StatusCode != http.StatusBadRequest || failure.Type != "invalid_request_error" || failure.Param != test.param {
				t.Errorf("status %d: %s", failure.StatusCode, failure.RawJSON())
			}
			if n := wire.attempts.Load(); n != 1 {
				t.Errorf("%d attempts at what a retry cannot mend", n)
			}
		})
	}
}

func TestChatInEveryDialect(t *testing.T) {
	client := newClient()
	for _, model := range dialectModels {
		plain, err := client.Chat.Completions.New(limited(t), ask(model, prompt))
		if err != nil {
			t.Fatal(err)
		}
		stream := client.Chat.Completions.NewStreaming(limited(t), ask(model, prompt))
		var whole openai.ChatCompletionAccumulator
		for stream.Next() {
			whole.AddChunk(stream.Current())
		}
		if err := errors.Join(stream.Err(), stream.Close()); err != nil {
			t.Errorf("%s: %v", model, err)
		}
		if len(whole.Choices) != 1 || sameBackend(whole.Choices[0].Message.Content) != sameBackend(plain.Choices[0].Message.Content) || whole.Choices[0].FinishReason != "stop" {
			t.Errorf("%s: streamed %+v, plain %+v", model, whole.Choices, plain.Choices)
		}
	}
}
