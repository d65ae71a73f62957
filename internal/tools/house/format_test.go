package house

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// TestDrawingsOfStoredBytes compares the tables of docs/format with the structures of package abi: a section whose
// heading is a structure's name lists all its fields, in order, with offset and size.
func TestDrawingsOfStoredBytes(t *testing.T) {
	records := map[string]any{
		"ImageHeader": abi.ImageHeader{}, "VMA": abi.VMA{}, "Chunk": abi.Chunk{}, "Section": abi.Section{},
		"Header": abi.Header{}, "Hello": abi.Hello{}, "Welcome": abi.Welcome{}, "Clock": abi.Clock{}, "Met": abi.Met{}, "Waiting": abi.Waiting{},
		"Stopped": abi.Stopped{}, "Drain": abi.Drain{}, "Image": abi.Image{}, "Resumed": abi.Resumed{},
		"Restored": abi.Restored{}, "Page": abi.Page{},
		"ParityHeader": abi.ParityHeader{}, "ParityMember": abi.ParityMember{}, "ParityFile": abi.ParityFile{}, "IndexHeader": abi.IndexHeader{}, "IndexFile": abi.IndexFile{},
	}
	row := regexp.MustCompile(`^\| (\d+) \| (\d+) \| (\w+) \|`)
	for _, file := range []string{"docs/format/image.md", "docs/format/protocol.md", "docs/format/parity.md", "docs/format/index.md"} {
		name, drawn := "", map[string][]string{}
		for line := range strings.Lines(string(read(t, file))) {
			if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
				name = heading
			} else if m := row.FindStringSubmatch(line); m != nil && records[name] != nil {
				drawn[name] = append(drawn[name], fmt.Sprintf("%s %s %s", m[1], m[2], strings.ReplaceAll(m[3], "_", "")))
			}
		}
		for name, found := range drawn {
			want := layout(records[name])
			if strings.Join(found, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s: %s: found\n  %s\nwant\n  %s", file, name, strings.Join(found, "\n  "), strings.Join(want, "\n  "))
			}
			delete(records, name)
		}
	}
	for name := range records {
		t.Errorf("docs/format: %s is not drawn", name)
	}
}

// layout lists a packed structure's fields as "offset size name".
func layout(record any) []string {
	var list []string
	offset := 0
	for _, f := range reflect.VisibleFields(reflect.TypeOf(record)) {
		size := binary.Size(reflect.Zero(f.Type).Interface())
		list = append(list, fmt.Sprintf("%d %d %s", offset, size, strings.ToLower(f.Name)))
		offset += size
	}
	return list
}

// TestDrawingsOfStoredJSON compares the tables of docs/format with the structures of packages dataset and timeline: a section
// lists all keys of its object, in order.
func TestDrawingsOfStoredJSON(t *testing.T) {
	for file, objects := range map[string]map[string]any{
		"docs/format/manifest.md": {"manifest.json": dataset.Manifest{}, "files": dataset.File{}, "job.json": dataset.Meta{}},
		"docs/format/timeline.md": {"fields": timeline.Event{}},
	} {
		drawn := drawnKeys(t, file)
		for name, object := range objects {
			var want []string
			for _, f := range reflect.VisibleFields(reflect.TypeOf(object)) {
				if f.Anonymous { // its fields follow
					continue
				}
				tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				want = append(want, tag)
			}
			if !slices.Equal(drawn[name], want) {
				t.Errorf("%s: %s: found %v, want %v", file, name, drawn[name], want)
			}
		}
	}
}

// TestDrawingsOfEvents: docs/format/timeline.md lists all kinds of events, in the order of package timeline.
func TestDrawingsOfEvents(t *testing.T) {
	var want []string
	kind := regexp.MustCompile(`(?m)^\t\w+ +Kind += "(\w+)"$`)
	for _, m := range kind.FindAllStringSubmatch(string(read(t, "internal/store/timeline/timeline.go")), -1) {
		want = append(want, m[1])
	}
	if found := drawnKeys(t, "docs/format/timeline.md")["events"]; !slices.Equal(found, want) {
		t.Errorf("docs/format/timeline.md: events: found %v, want %v", found, want)
	}
}

// drawnKeys lists, by section, what stands in the first columns of the tables of a file.
func drawnKeys(t *testing.T, file string) map[string][]string {
	key := regexp.MustCompile("^\\| `(\\w+)` \\|")
	name, drawn := "", map[string][]string{}
	for line := range strings.Lines(string(read(t, file))) {
		if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			name = heading
		} else if m := key.FindStringSubmatch(line); m != nil {
			drawn[name] = append(drawn[name], m[1])
		}
	}
	return drawn
}
