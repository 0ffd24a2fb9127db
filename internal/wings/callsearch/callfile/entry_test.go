package callfile

import (
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// A line of a call is read and written without a loss, and a later one is read as far as it is known.
func TestLinesAreReadAndWritten(t *testing.T) {
	const line = `{"n":7,"id":"req-7","t":1700000000000007,"http":503,"code":"upstream_error","sentence":{"code":"call.status","values":{"status":"503"}},` +
		`"of":"tenant/acme","until":1800000000000000,"gone":true,"service":"tts","door":"speech","model":"m","asked":"gpt",` +
		`"instance":"m@http://gpu:1","strategy":"random","candidates":[1,2,0,0,0,0,0,0,0,0],"key":"k","tenant":"acme","ip":"10.0.0.1",` +
		`"user":"u","streamed":true,"tokens":{"in":4,"out":5,"total":9,"cached":1},"cost":12345,"routed":true,"result":"error",` +
		`"ready":1,"limited":2,"byte":3,"token":4,"end":5,"pace":6,"queued":7,"upstream":8,"held":9,"cache":"miss",` +
		`"class":"interactive","fallbacks":1,"pieces":2,"resumed":3,"hedge":"lost","attempts":5,` +
		`"trace":"0102030405060708090a0b0c0d0e0f10","tries":[{"instance":"a","adapter":"vllm","began":1,"sent":2,"byte":3,"end":4,` +
		`"expected":5,"matched":0.5,"reused":true,"http":500,"code":"x","cause":"reset","sentence":{"code":"other","text":"it broke"},"resumed":"aligned"},` +
		`{"instance":"m@http://gpu:1"}]}`
	form := newForm()
	c, err := form.readRecord([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	again, err := form.appendRecord(nil, c)
	if err != nil || strings.TrimSuffix(string(again), "\n") != line {
		t.Errorf("%v\n%s\n%s", err, again, line)
	}
	if !c.Unified || c.Told.Of != "tenant/acme" || !c.Usage.Known || c.Ended != 5*time.Microsecond || c.Candidates[1] != 2 || c.Attempts != 5 ||
		c.Described()[0].Cause != "reset" || c.Hedge != metrics.HedgeLost || c.Class != schema.Interactive {
		t.Errorf("%+v", c)
	}
	// A later release may have more names, more obstacles and more members.
	const later = `{"n":7,"id":"x","t":1,"service":"smell","door":"window","class":"royal","result":"odd","hedge":"odd","end":1,"novel":{},"candidates":[1,2,3,4,5,6,7,8,9,10,11]}`
	if c, err := form.readRecord([]byte(later)); err != nil || c.Service != 0 || c.Candidates[8] != 9 || c.Told != nil {
		t.Errorf("%+v, %v", c, err)
	}
}
