package shown

import "testing"

func TestLastBlock(t *testing.T) {
	text := "Command x.\n\n\tgo run .\n\nIt prints\n\n\tone\n\t  two\n\nand ends.\n"
	if got, want := lastBlock(text), "one\n  two\n"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}
