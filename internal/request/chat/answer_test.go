package chat

import "testing"

// A delta is used again: nothing of the one before is in the next, nor kept alive by it,
// also where a reader has taken a choice back.
func TestADeltaThatIsUsedAgainIsEmpty(t *testing.T) {
	delta, piece := Delta{ID: []byte("c"), Created: 7}, []byte("piece")
	fill := func() {
		for i := range int64(3) {
			c := delta.Add(i)
			if c.Text != nil || c.Finish != "" || len(c.Calls)+len(c.Images)+len(c.Blocks)+len(c.Details) > 0 {
				t.Fatalf("choice %d is not empty: %+v", i, c)
			}
			c.Text, c.Finish = piece, Stop
			c.Calls = append(c.Calls, ToolCall{ID: piece})
			c.Images = append(c.Images, piece)
			c.Blocks = append(c.Blocks, piece)
			c.Details = append(c.Details, piece)
		}
		delta.Choices = delta.Choices[:2]
		delta.Reset()
	}
	fill()
	for _, c := range delta.Choices[:3] {
		if c.Calls[:1][0].ID != nil || c.Images[:1][0] != nil || c.Blocks[:1][0] != nil || c.Details[:1][0] != nil {
			t.Errorf("memory is kept alive: %+v", c)
		}
	}
	if string(delta.ID) != "c" || delta.Created != 7 {
		t.Errorf("%+v", delta)
	}
	if allocations := testing.AllocsPerRun(100, fill); allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestJoinedTextsLeaveTheirSourcesAlone(t *testing.T) {
	source := []byte("one two three")
	text := Join(nil, source[:3])
	if &text[0] != &source[0] {
		t.Error("the first piece was copied")
	}
	if text = Join(text, source[3:7]); string(text) != "one two" || string(source) != "one two three" {
		t.Errorf("%q of %q", text, source)
	}
	for plain, escaped := range map[string]string{"a": "a", "a\nb\"": `a\nb\"`, "": "", "é😀": `é\ud83d\ude00`} {
		if got := string(Unescape([]byte(escaped))); got != plain {
			t.Errorf("%q, want %q", got, plain)
		}
	}
}

func TestOnlyTheFirstChoiceAnswersADoor(t *testing.T) {
	var answer Answer
	if answer.First() != nil {
		t.Error("an answer without choices has one")
	}
	answer.Add(1)
	if answer.First() != nil {
		t.Error("another choice is taken for the first")
	}
	answer.Reset()
	if first := answer.Add(0); answer.First() != first {
		t.Error("the first choice is not found")
	}
}
