// Command picture draws docs/architecture.svg from the text of ARCHITECTURE.md: the processes of a job, one below the other, and the steps of a
// checkpoint, in their order. A picture that is drawn by hand would soon tell something else than the text.
//
// It guarantees that the same text gives the same bytes, and that what it does not find in the text is an error.
package main

import (
	"errors"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
)

//go:generate go run . ../../../ARCHITECTURE.md ../../../docs/architecture.svg

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: picture ARCHITECTURE.md PICTURE.svg")
		os.Exit(2)
	}
	text, err := os.ReadFile(os.Args[1])
	if err == nil {
		var svg string
		if svg, err = draw(string(text)); err == nil {
			err = os.WriteFile(os.Args[2], []byte(svg), 0o666)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// box is what is drawn with a frame around it.
type box struct{ title, text string }

// draw returns the picture of a text.
func draw(text string) (string, error) {
	processes, err := processesOf(section(text, "Processes"))
	if err != nil {
		return "", err
	}
	steps, err := stepsOf(section(text, "A checkpoint"))
	if err != nil {
		return "", err
	}
	p := &page{}
	p.heading(20, "Processes")
	for i, b := range processes {
		p.box(30, 40+i*rowHeight, processWidth, b, i < len(processes)-1)
	}
	p.heading(processWidth+90, "The life of a checkpoint")
	for i, b := range steps {
		p.box(processWidth+100, 40+i*rowHeight, stepWidth, b, i < len(steps)-1)
	}
	return p.svg(max(len(processes), len(steps))), nil
}

// section is what stands below a heading of the second level.
func section(text, heading string) string {
	_, rest, _ := strings.Cut(text, "\n## "+heading+"\n")
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}

// processesOf reads the drawing in letters: lines with a name and, behind two spaces or more, what it does; bars lie between them.
func processesOf(body string) ([]box, error) {
	line := regexp.MustCompile(`^ {4,}([^\s|]\S*(?: \S+)*?)(?: {2,}(\S.*))?$`)
	var list []box
	for text := range strings.Lines(body) {
		if m := line.FindStringSubmatch(strings.TrimRight(text, "\n")); m != nil {
			list = append(list, box{strings.TrimSuffix(m[1], ":"), m[2]})
		}
	}
	if len(list) < 3 {
		return nil, fmt.Errorf("section Processes: %d lines with a name and what it does, wanted those of the drawing", len(list))
	}
	return list, nil
}

// stepsOf reads the numbered list: a step in bold letters, and its first sentence.
func stepsOf(body string) ([]box, error) {
	item := regexp.MustCompile(`(?ms)^\d+\. (.*?)(?:\n\d+\. |\n\n|\z)`)
	bold := regexp.MustCompile(`\*\*(.+?)[.:]?\*\*:?`)
	var list []box
	for rest := body; ; {
		at := item.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		text := strings.Join(strings.Fields(rest[at[2]:at[3]]), " ")
		title := bold.FindStringSubmatch(text)
		if title == nil {
			return nil, fmt.Errorf("section A checkpoint: %.40q has no name in bold letters", text)
		}
		sentence := bold.ReplaceAllString(text, "$1")
		sentence = strings.TrimSpace(strings.TrimPrefix(sentence, title[1]))
		if i := strings.IndexAny(sentence, ".:;"); i > 0 {
			sentence = sentence[:i]
		}
		list = append(list, box{title[1], strings.ReplaceAll(sentence, "`", "")})
		rest = rest[at[3]:]
	}
	if len(list) < 3 {
		return nil, errors.New("section A checkpoint: no numbered list of its steps")
	}
	return list, nil
}

const (
	processWidth = 400
	stepWidth    = 460
	boxHeight    = 66
	rowHeight    = boxHeight + 24
	letters      = 7 // pixels of a letter, about
)

// page collects what is drawn.
type page struct{ b strings.Builder }

func (p *page) heading(x int, text string) {
	fmt.Fprintf(&p.b, "<text x=\"%d\" y=\"24\" class=\"h\">%s</text>\n", x, html.EscapeString(text))
}

// box draws a box, and an arrow to the next one.
func (p *page) box(x, y, width int, b box, next bool) {
	fmt.Fprintf(&p.b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/>\n", x, y, width, boxHeight)
	fmt.Fprintf(&p.b, "<text x=\"%d\" y=\"%d\" class=\"t\">%s</text>\n", x+12, y+20, html.EscapeString(b.title))
	for i, line := range wrap(b.text, (width-24)/letters) {
		if i == 2 {
			break
		}
		fmt.Fprintf(&p.b, "<text x=\"%d\" y=\"%d\">%s</text>\n", x+12, y+39+i*17, html.EscapeString(line))
	}
	if next {
		fmt.Fprintf(&p.b, "<path d=\"M%d %d v%d\" marker-end=\"url(#a)\"/>\n", x+width/2, y+boxHeight, rowHeight-boxHeight-5)
	}
}

// wrap breaks a text into lines of so many letters.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

func (p *page) svg(rows int) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">
<!-- Drawn by internal/tools/picture from ARCHITECTURE.md; DO NOT EDIT. -->
<style>rect{fill:#f4f7fa;stroke:#345}path{stroke:#345;fill:none}text{fill:#123}.t{font-weight:bold}.h{font-size:16px}</style>
<defs><marker id="a" markerWidth="8" markerHeight="8" refX="5" refY="4" orient="auto"><path d="M0 0 L6 4 L0 8"/></marker></defs>
<rect x="0" y="0" width="100%%" height="100%%" style="fill:white;stroke:none"/>
%s</svg>
`, processWidth+stepWidth+150, 50+rows*rowHeight, p.b.String())
}
