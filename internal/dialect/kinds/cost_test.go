package kinds

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	costSmall, costLarge = 32 << 10, 1 << 20
	// mostGrowth is how many times the cost of a small request the large one, which
	// is 32 times its size, may cost. Quadratic work costs 1,024 times as much, so one
	// that is a thirtieth of a small request's cost shows; what large pieces of memory
	// cost more than small ones does not.
	mostGrowth = 64
	costRounds = 40
)

// costShape makes a request of about a size whose cost grows with one thing.
type costShape func(size int) string

// repeat joins as many items as a text of a size has room for.
func repeat(size int, item func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(item(i))
	}
	return b.String()
}

const oneMessage = `"messages":[{"role":"user","content":"hi"}]`

// commonShapes can be asked of every service type that takes JSON; required are
// the fields that it must have.
func commonShapes(required string) map[string]costShape {
	member := func(prefix, value string) func(int) string {
		return func(i int) string { return fmt.Sprintf(`"%s%d":%s`, prefix, i, value) }
	}
	return map[string]costShape{
		"members": func(size int) string { return `{"model":"m",` + required + `,` + repeat(size, member("a", "1")) + `}` },
		"extra members": func(size int) string {
			return `{"model":"m",` + required + `,"extra_body":{` + repeat(size, member("a", "1")) + `}}`
		},
		"extra members that are given": func(size int) string {
			return `{"model":"m",` + required + `,` + repeat(size/2, member("a", "1")) + `,"extra_body":{` + repeat(size/2, member("a", "2")) + `}}`
		},
		"extra members beside as many others": func(size int) string {
			return `{"model":"m",` + required + `,` + repeat(size/2, member("a", "1")) + `,"extra_body":{` + repeat(size/2, member("b", "2")) + `}}`
		},
		"extra members for null, in another order": func(size int) string {
			var reversed []string
			repeat(size/2, func(i int) string {
				reversed = append(reversed, member("a", "2")(i))
				return member("a", "null")(i)
			})
			slices.Reverse(reversed)
			return `{"model":"m",` + required + `,` + repeat(size/2, member("a", "null")) + `,"extra_body":{` + strings.Join(reversed, ",") + `}}`
		},
		"escaped keys": func(size int) string {
			return `{"model":"m",` + required + `,` + repeat(size/2, member(`\u0061`, "1")) + `,"extra_body":{` + repeat(size/2, member("a", "2")) + `}}`
		},
		"nested objects": func(size int) string {
			return `{"model":"m",` + required + `,"extra_body":{"x":[` + repeat(size, func(int) string {
				return strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
			}) + `]}}`
		},
		"numbers": func(size int) string {
			return `{"model":"m",` + required + `,"x":[` + repeat(size, func(i int) string { return fmt.Sprint(i) }) + `]}`
		},
		"a key of many words": func(size int) string {
			return `{"model":"m",` + required + `,"extra_body":{"` + strings.Repeat("a_", size/2) + `":1}}`
		},
		"extra settings": func(size int) string {
			return `{"model":"m",` + required + `,"options":{` + repeat(size/3, member("a", "1")) + `},"generationConfig":{` + repeat(size/3, member("a", "1")) +
				`},"output_config":{` + repeat(size/3, member("a", "1")) + `}}`
		},
	}
}

// chatShapes are those that only chat has.
func chatShapes() map[string]costShape {
	tools := func(parameters string) costShape {
		return func(size int) string {
			return `{"model":"m",` + oneMessage + `,"tools":[` + repeat(size, func(i int) string {
				return fmt.Sprintf(`{"type":"function","function":{"name":"f%d","parameters":%s}}`, i, parameters)
			}) + `]}`
		}
	}
	return map[string]costShape{
		"messages": func(size int) string {
			return `{"model":"m","messages":[` + repeat(size, func(i int) string { return fmt.Sprintf(`{"role":"user","content":"%d"}`, i) }) + `]}`
		},
		"system messages": func(size int) string {
			return `{"model":"m","messages":[` + repeat(size, func(i int) string { return fmt.Sprintf(`{"role":"system","content":"%d"}`, i) }) + `]}`
		},
		"parts": func(size int) string {
			return `{"model":"m","messages":[{"role":"user","content":[` + repeat(size, func(i int) string { return fmt.Sprintf(`{"type":"text","text":"%d"}`, i) }) + `]}]}`
		},
		"images": func(size int) string {
			return `{"model":"m","messages":[{"role":"user","content":[` + repeat(size, func(i int) string {
				return fmt.Sprintf(`{"type":"image_url","image_url":{"url":"data:image/png;base64,%08d"}}`, i)
			}) + `]}]}`
		},
		"calls and results": func(size int) string {
			return `{"model":"m","messages":[{"role":"user","content":"hi"},` + repeat(size, func(i int) string {
				return fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":"c%d","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c%d","content":"1"}`, i, i)
			}) + `]}`
		},
		"calls of one message": func(size int) string {
			return `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[` + repeat(size, func(i int) string {
				return fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}`, i)
			}) + `]}]}`
		},
		"stop texts": func(size int) string {
			return `{"model":"m",` + oneMessage + `,"stop":[` + repeat(size, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `]}`
		},
		"tools":           tools(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`),
		"tools with refs": tools(`{"$defs":{"d":{"type":"string"}},"type":"object","properties":{"a":{"$ref":"#/$defs/d"},"b":{"$ref":"#/$defs/d"}}}`),
		"tools of defs":   tools(`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"x":{"$ref":"#/$defs/b"},"y":{"$ref":"#/$defs/b"}}},"b":{"properties":{"x":{"$ref":"#/$defs/c"},"y":{"$ref":"#/$defs/c"}}},"c":{"type":"string"}}}`),
		"one large schema": answerSchema(func(size int) string {
			return `{"type":"object","properties":{` + repeat(size, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string"}`, i) }) + `}}`
		}),
		"references in one schema": answerSchema(func(size int) string {
			return `{"type":"object","properties":{` + repeat(size/2, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/d%d"}`, i, i%200) }) +
				`},"$defs":{` + repeat(size/2, func(i int) string { return fmt.Sprintf(`"d%d":{"type":"string"}`, i) }) + `}}`
		}),
		"few references to far places": answerSchema(func(size int) string {
			return `{"type":"object","properties":{` + repeat(6<<10, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/anyOf/%d"}`, i, 1000-i) }) +
				`},"anyOf":[` + repeat(size, func(int) string { return `{"type":"null"}` }) + `]}`
		}),
		"a reference to all of it": answerSchema(func(size int) string {
			return `{"type":"object","properties":{"again":{"$ref":"#"},` + repeat(size, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string"}`, i) }) + `}}`
		}),
		"nested schema": answerSchema(func(size int) string {
			return `{"type":"object","properties":{` + repeat(size, func(i int) string {
				return fmt.Sprintf(`"p%d":`, i) + strings.Repeat(`{"type":"array","items":`, 20) + `{"type":"string"}` + strings.Repeat("}", 20)
			}) + `}}`
		}),
		"choices in a schema": answerSchema(func(size int) string {
			return `{"enum":[` + repeat(size, func(i int) string { return fmt.Sprint(i) }) + `]}`
		}),
	}
}

func answerSchema(of costShape) costShape {
	return func(size int) string {
		return `{"model":"m",` + oneMessage + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":` + of(size) + `}}}`
	}
}

// listShapes are requests whose input is a list.
func listShapes(field, rest string) map[string]costShape {
	list := func(item string) costShape {
		return func(size int) string {
			return `{"model":"m",` + rest + `"` + field + `":[` + repeat(size, func(i int) string { return fmt.Sprintf(item, i) }) + `]}`
		}
	}
	shapes := map[string]costShape{"texts": list(`"%d"`)}
	if field == "input" {
		shapes["token ids"], shapes["lists of token ids"] = list(`%d`), list(`[%d]`)
	} else {
		shapes["objects"], shapes["objects without a text"] = list(`{"text":"%d"}`), list(`{"title":"%d"}`)
	}
	return shapes
}

// madeOnce lets shapes keep what they have made, because each is put to many adapters.
func madeOnce(groups []map[string]costShape) {
	for _, group := range groups {
		for name, shape := range group {
			made := map[int]string{}
			group[name] = func(size int) string {
				if made[size] == "" {
					made[size] = shape(size)
				}
				return made[size]
			}
		}
	}
}

// some keeps the shapes that are named.
func some(shapes map[string]costShape, names ...string) map[string]costShape {
	maps.DeleteFunc(shapes, func(name string, _ costShape) bool { return !slices.Contains(names, name) })
	return shapes
}

// One request must not cost more than its size: reading it and putting it to a
// backend of any kind is linear work.
func TestCostOfARequestGrowsWithItsSizeOnly(t *testing.T) {
	shapes := map[schema.ServiceType][]map[string]costShape{
		schema.Chat:      {commonShapes(oneMessage), chatShapes()},
		schema.Embedding: {commonShapes(`"input":"x"`), listShapes("input", "")},
		schema.Rerank:    {commonShapes(`"query":"q","documents":["x"]`), listShapes("documents", `"query":"q",`)},
		schema.TTS:       {some(commonShapes(`"input":"x","voice":"v"`), "extra members beside as many others")},
		schema.ImgGen:    {some(commonShapes(`"prompt":"x"`), "extra members beside as many others")},
	}
	read := map[schema.ServiceType]func(*schema.Request, []byte) error{
		schema.Chat: (*schema.Request).ParseChat, schema.Embedding: (*schema.Request).ParseEmbedding, schema.Rerank: (*schema.Request).ParseRerank,
		schema.TTS: (*schema.Request).ParseSpeech, schema.ImgGen: (*schema.Request).ParseImage,
	}
	for _, groups := range shapes {
		madeOnce(groups)
	}
	speakers := map[string]bool{}
	for _, kind := range table {
		for service, route := range kind.Routes {
			// Kinds of one dialect differ in nothing else that costs anything.
			name := fmt.Sprintf("%T %s %v", route.Adapter, service, service == schema.Rerank && kind.Quirks != (dialect.Quirks{}))
			if read[service] == nil || speakers[name] {
				continue
			}
			speakers[name] = true
			target, err := kind.Target(service, dialect.Endpoint{BaseURL: "http://backend.test", Model: "other"})
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range shapes[service] {
				for shape, make := range group {
					if (testing.Short() || raceDetector) && !strings.HasSuffix(shape, "in another order") {
						continue // the shape that shows most
					}
					t.Run(kind.Name+"/"+service.String()+"/"+shape, func(t *testing.T) {
						growsLinearly(t, make, func(body []byte) {
							if req := new(schema.Request); read[service](req, body) == nil {
								_ = target.Unified().Call(req, target, new(wire.Call)) // a refusal has its cost, too
							}
						})
					})
				}
			}
		}
	}
}

// growsLinearly compares the processor time of a large text, a request or an answer, with
// that of as many bytes in small ones, each in memory of its own: what a cache or a page
// fault adds for many bytes, it adds to both. Other programs on the machine make
// both longer, so the best of several rounds counts, and another round is made
// while it is not good enough.
func growsLinearly(t *testing.T, shape costShape, do func(body []byte)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // collecting comes at any time
	body, large := []byte(shape(costSmall)), []byte(shape(costLarge))
	small := make([][]byte, costLarge/costSmall)
	for i := range small {
		small[i] = bytes.Clone(body)
	}
	cost := func(bodies ...[]byte) time.Duration {
		runtime.GC()
		before := threadTime(t)
		for _, body := range bodies {
			do(body)
		}
		return threadTime(t) - before
	}
	cheap, dear := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range costRounds {
		cheap, dear = min(cheap, cost(small...)), min(dear, cost(large))
		if dear*costLarge/costSmall <= mostGrowth*cheap {
			return
		}
	}
	t.Errorf("%d texts of %d bytes took %v and one of %d bytes %v, which is %.0f times one of them",
		len(small), len(small[0]), cheap, len(large), dear, float64(len(small))*float64(dear)/float64(cheap))
}

// threadTime is the processor time that this thread has used.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var spent unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &spent); err != nil {
		t.Skip("the system does not tell the processor time of a thread")
	}
	return time.Duration(spent.Nano())
}
