package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// images is the folder of the pictures of the README and of the scripts that they show.
const images = "docs/images"

// A session is a file of commands that a picture of a terminal shows. Its first line is the
// title. Empty lines separate steps, and a step that begins with "#:" is run and not shown.
type session struct {
	title string
	steps []step
}

type step struct {
	commands string
	hidden   bool
}

func readSession(file string) (session, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return session{}, err
	}
	title, rest, _ := strings.Cut(string(content), "\n")
	s := session{title: strings.TrimPrefix(title, "# ")}
	for commands := range strings.SplitSeq(strings.TrimSpace(rest), "\n\n") {
		s.steps = append(s.steps, step{commands, strings.HasPrefix(commands, "#:")})
	}
	return s, nil
}

// shown returns the lines of the script as somebody types them.
func (s step) shown() []string {
	lines := strings.Split(s.commands, "\n")
	continued := false
	for i, line := range lines {
		if !continued && !strings.HasPrefix(line, "#") {
			lines[i] = "$ " + line
		}
		continued = strings.HasSuffix(line, `\`)
	}
	return lines
}

const (
	// demoAddress is the address in scripts; they are run at a free one.
	demoAddress = "127.0.0.1:8080"
	scriptTime  = 2 * time.Minute
	// separator begins the output of a step.
	separator = "\x1e\n"
)

// run runs the script with a program called patchbay and returns the output of each step.
func (s session) run(program string) ([]string, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "picture")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := free.Addr().String()
	if err = free.Close(); err != nil {
		return nil, err
	}
	var commands strings.Builder
	for _, one := range s.steps {
		fmt.Fprintf(&commands, "printf '\\036\\n'\n%s\n", strings.ReplaceAll(one.commands, demoAddress, address))
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptTime)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", commands.String())
	c.Dir, c.Env = dir, append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	output, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", s.title, err, output)
	}
	said := strings.Split(strings.ReplaceAll(string(output), address, demoAddress), separator)
	if said = said[1:]; len(said) != len(s.steps) {
		return nil, fmt.Errorf("%s: %d outputs of %d steps", s.title, len(said), len(s.steps))
	}
	return said, nil
}

// The measures of pictures, in pixels.
const (
	terminalColumns = 104
	lineHeight      = 19
	charTenths      = 79 // of a pixel, for a character
	margin          = 16
	barStart        = 170
	barWidth        = 480
)

const look = `<style>
.box{fill:#f6f8fa;stroke:#d0d7de}.t{fill:#57606a}.c{fill:#0b3d91;font-weight:600}.o{fill:#24292f}.b{fill:#9aa4af}.w{fill:#1a7f37}
@media (prefers-color-scheme:dark){.box{fill:#161b22;stroke:#30363d}.t{fill:#8b949e}.c{fill:#79c0ff}.o{fill:#e6edf3}.b{fill:#6e7681}.w{fill:#3fb950}}
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}
</style>
`

// frame begins a picture of a height, with a title.
func frame(width, height int, title string) *bytes.Buffer {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		width, height, width, height, html.EscapeString(title))
	b.WriteString(look)
	fmt.Fprintf(&b, `<rect class="box" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`+"\n", width-1, height-1)
	return &b
}

func line(b *bytes.Buffer, class string, x, y int, text string) {
	fmt.Fprintf(b, `<text class="%s" x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", class, x, y, html.EscapeString(text))
}

// terminal draws the commands of a script with their output.
func (s session) terminal(said []string) []byte {
	type row struct{ class, text string }
	rows := []row{{"t", s.title}, {"t", ""}}
	for i, one := range s.steps {
		if one.hidden {
			continue
		}
		for _, text := range one.shown() {
			class := "c"
			if strings.HasPrefix(text, "#") {
				class = "t"
			}
			rows = append(rows, row{class, text})
		}
		for text := range strings.SplitSeq(strings.TrimRight(said[i], "\n"), "\n") {
			for ; utf8.RuneCountInString(text) > terminalColumns; text = string([]rune(text)[terminalColumns:]) {
				rows = append(rows, row{"o", string([]rune(text)[:terminalColumns])})
			}
			if text = strings.ReplaceAll(text, "\t", "    "); text != "" {
				rows = append(rows, row{"o", text})
			}
		}
	}
	b := frame(terminalColumns*charTenths/10+2*margin, len(rows)*lineHeight+2*margin, s.title)
	for i, r := range rows {
		line(b, r.class, margin, margin+(i+1)*lineHeight-5, r.text)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// performancePage has the figures of the chart, in two tables that begin with these cells.
const performancePage = "docs/performance.md"

var chartTables = []struct{ title, header string }{
	{"Mooncake's trace of conversations, eight engines: mean seconds to the first token", "| strategy | from caches"},
	{"One H200, four vLLM, a 7B model: mean seconds to the first token", "| strategy | computed tokens"},
}

var number = regexp.MustCompile(`[0-9]+\.[0-9]+`)

// chart draws the means of the tables of first tokens as bars.
func chart(page string) ([]byte, error) {
	const title = "Time to the first token, by strategy"
	type bar struct {
		name, text string
		value      float64
	}
	b := frame(barStart+barWidth+8*margin, 9*lineHeight+2*margin, title)
	y := margin
	for _, table := range chartTables {
		_, after, ok := strings.Cut(page, "\n"+table.header)
		if !ok {
			return nil, fmt.Errorf("%s has no table that begins with %q", performancePage, table.header)
		}
		lines := strings.Split(after, "\n")
		column := -1
		for i, name := range strings.Split(table.header+lines[0], "|") {
			if strings.TrimSpace(name) == "mean" {
				column = i
			}
		}
		var bars []bar
		longest := 0.0
		for _, row := range lines[2:] {
			cells := strings.Split(row, "|")
			if column < 0 || len(cells) <= column {
				break
			}
			one := bar{name: strings.NewReplacer("`", "", "*", "", ", two runs", "").Replace(strings.TrimSpace(cells[1]))}
			one.text = strings.ReplaceAll(strings.TrimSpace(cells[column]), "*", "")
			figures := number.FindAllString(one.text, -1)
			for _, figure := range figures {
				value, err := strconv.ParseFloat(figure, 64)
				if err != nil {
					return nil, err
				}
				one.value += value / float64(len(figures))
			}
			bars, longest = append(bars, one), max(longest, one.value)
		}
		if longest == 0 {
			return nil, fmt.Errorf("%s: the table %q has no means", performancePage, table.header)
		}
		line(b, "t", margin, y+lineHeight-5, table.title)
		for _, one := range bars {
			y += lineHeight
			class, width := "b", int(barWidth*one.value/longest)
			if strings.Contains(one.name, "least_time") {
				class = "w"
			}
			line(b, "o", margin, y+lineHeight-5, one.name)
			fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/>`+"\n", class, barStart, y+4, width, lineHeight-6)
			line(b, "o", barStart+width+6, y+lineHeight-5, one.text)
		}
		y += 2 * lineHeight
	}
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

// draw makes the pictures of the README: the chart, and the terminals of all scripts.
func draw(root, program string) (int, error) {
	page, err := os.ReadFile(filepath.Join(root, performancePage))
	if err != nil {
		return 0, err
	}
	made, err := chart(string(page))
	if err != nil {
		return 0, err
	}
	if err = os.WriteFile(filepath.Join(root, images, "first-token.svg"), made, 0o644); err != nil {
		return 0, err
	}
	files, err := filepath.Glob(filepath.Join(root, images, "*.sh"))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		if err = drawSession(file, program); err != nil {
			return 0, err
		}
	}
	return 1 + len(files), nil
}

// drawSession runs a script and draws the picture beside it.
func drawSession(file, program string) error {
	s, err := readSession(file)
	if err != nil {
		return err
	}
	said, err := s.run(program)
	if err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(file, ".sh")+".svg", s.terminal(said), 0o644)
}
