package quota

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// The rows of one window are the totals of a few sheets, one for each group of keys, which
// spreads them over the parts of a cluster; a reader knows the names of all sheets without
// searching for them.
const (
	groups = 8
	// separator divides the parts of a writer's name; none of them can hold it.
	separator = "\x00"
	// markTime is how long a mark is kept.
	markTime = 7 * 24 * time.Hour
)

// placeName returns the name of a place in the part of a group.
func placeName(prefix string, group int, what string) string {
	return fmt.Sprintf("%s:{q%d}:%s", prefix, group, what)
}

func windowPlace(prefix string, group int, w Window, start time.Time) string {
	return placeName(prefix, group, w.String()+":"+start.UTC().Format("20060102150405"))
}

// sheetsOf returns the sheets with these rows, without rows that count nothing. The store
// keeps them for some time after their windows.
func sheetsOf(prefix string, rows []Row, keep time.Duration) []tally.Sheet {
	var sheets []tally.Sheet
	found := map[string]int{}
	for i := range rows {
		row := &rows[i]
		if row.Totals == (Totals{}) {
			continue
		}
		name := windowPlace(prefix, groupOf(&row.Key), row.Window, row.Start)
		at, known := found[name]
		if !known {
			at = len(sheets)
			found[name] = at
			sheets = append(sheets, tally.Sheet{Name: name, Expire: row.Window.End(row.Start).Add(keep)})
		}
		sheets[at].Totals = append(sheets[at].Totals, totalOf(row))
	}
	return sheets
}

// totalOf returns the total of a row.
func totalOf(row *Row) tally.Total {
	k := &row.Key
	return tally.Total{
		Writer:  strings.Join([]string{row.Writer, k.Tenant, k.APIKey, k.User, k.Service.String(), k.Model}, separator),
		Numbers: fmt.Sprint(row.Requests, row.Tokens, row.Prompt, row.Completion, row.Cost),
	}
}

// places returns the sheets with the rows of windows, to read them.
func places(prefix string, windows []CalendarWindow) (sheets []tally.Sheet) {
	for _, w := range windows {
		for g := range groups {
			sheets = append(sheets, tally.Sheet{Name: windowPlace(prefix, g, w.Window, w.Start), IsRead: true})
		}
	}
	return sheets
}

// readPlaces returns the rows in the answers of places.
func readPlaces(windows []CalendarWindow, told []map[string]string) (rows []Row) {
	for i, totals := range told {
		w := windows[i/groups]
		for writer, numbers := range totals {
			if row, ok := readTotal(writer, numbers); ok {
				row.Window, row.Start = w.Window, w.Start.UTC()
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// readTotal reads the total of a row.
func readTotal(writer, text string) (Row, bool) {
	parts, numbers := strings.Split(writer, separator), strings.Split(text, " ")
	if len(parts) != 6 || len(numbers) != 5 {
		return Row{}, false
	}
	service, err := schema.ParseServiceType(parts[4])
	row := Row{Writer: parts[0], Key: Key{parts[1], parts[2], parts[3], service, parts[5]}}
	to := []*int64{&row.Requests, &row.Tokens, &row.Prompt, &row.Completion, &row.Cost}
	for i, number := range numbers {
		var wrong error
		*to[i], wrong = strconv.ParseInt(number, 10, 64)
		if err = errors.Join(err, wrong); *to[i] < 0 {
			return Row{}, false // no gateway tells that
		}
	}
	return row, err == nil
}

// groupOf returns the group of a key, which is the same in every gateway.
func groupOf(key *Key) int {
	h := fnv.New32a()
	for _, part := range [...]string{key.Tenant, key.APIKey, key.User, key.Service.String(), key.Model} {
		_, _ = h.Write([]byte(part)) // it never fails
		_, _ = h.Write([]byte(separator))
	}
	return int(h.Sum32() % groups)
}
