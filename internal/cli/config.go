package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/decide/settings"
	"github.com/byssus-hpc/byssus/internal/store/settingsfile"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// configured is a setting as config shows it.
type configured struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	From     string `json:"from"`
	NoEffect string `json:"no_effect,omitempty"`
}

// noted is a note as config shows it.
type noted struct {
	Level string `json:"level"`
	Name  string `json:"about,omitempty"`
	Text  string `json:"text"`
}

// configuration is what config prints.
type configuration struct {
	Settings    []configured `json:"settings"`
	Descriptors []configured `json:"descriptors,omitempty"`
	Notes       []noted      `json:"notes,omitempty"`
	UserFile    string       `json:"user_file"`
	SystemFile  string       `json:"system_file"`
}

// config is the verb. Its functions are no methods of env, which has too many.
func config(e *env) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "config [flags] [NAME...]",
		Short: "Show the settings of SCR as a program started here would get them",
		Long: withJSON(`Show the settings of programs that use SCR's calls, as one that is started in this directory would get them: the
value of each, and where it comes from. These are, the first that gives a value wins:

    environment      variables whose names begin with SCR_
    the user's file  what SCR_CONF_FILE names, else .scrconf in the prefix (SCR_PREFIX, else this directory)
    SCR_Config       what the program sets itself: not known here
    the system's     what SCR_CONFIG_FILE names, else /etc/scr.conf
    byssus run       what its options imply, as SCR_CACHE_BYPASS=0 by --cache: not known here
    built-in         SCR's own, but SCR_FLUSH_ASYNC=1

Shown are those that are set, or those that are named (with or without SCR_), with --all all that SCR documents, then
lines of STORE, CKPT and GROUPS, then what there is to say: names that are not known, values that are not understood,
what has no effect under Byssus and what does it instead. The exit code is 122 when a value is not understood, cannot
be had, or a name is not known that was given here.`, "an object with all settings, or with those that are named", jsonConfig),
		Example: "  byssus config\n  byssus config --all\n  byssus config FLUSH SCR_CACHE_BASE\n  SCR_COPY_TYPE=RS byssus config --json",
		RunE:    func(_ *cobra.Command, names []string) error { return showConfig(e, names, all) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, row := range settings.Table() {
				names = append(names, row.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "show also what is not set")
	e.addJSON(cmd)
	return cmd
}

func showConfig(e *env, names []string, all bool) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("cli: config: %w", err)
	}
	src, err := settingsfile.Read(dir, os.Environ(), nil)
	if err != nil {
		return err
	}
	s, notes := settings.Resolve(src)
	c := configuration{Settings: []configured{}, UserFile: src.UserName, SystemFile: src.SystemName}
	list, unknown := s.List(), ""
	if len(names) > 0 {
		list, unknown = named(s, names)
	}
	for _, set := range list {
		if all || e.json || len(names) > 0 || set.Origin.Source != settings.BuiltIn {
			c.Settings = append(c.Settings, configuredAs(set))
		}
	}
	if len(names) == 0 {
		for _, d := range s.Descriptors() {
			c.Descriptors = append(c.Descriptors, configuredAs(d))
		}
	}
	wrong := 0
	for _, n := range notes {
		if len(names) > 0 && n.Name != "" && !slices.ContainsFunc(list, func(s settings.Setting) bool { return s.Name == n.Name }) {
			continue
		}
		c.Notes = append(c.Notes, noted{n.Level.String(), n.Name, n.Text})
		if n.Level != settings.Hint {
			wrong++
		}
	}
	if err := printConfig(e, c); err != nil {
		return err
	}
	switch {
	case unknown != "":
		return exitError{ExitNot, fmt.Errorf("cli: config: %s", unknown)}
	case wrong > 0:
		return exitError{ExitNot, fmt.Errorf("cli: config: %d settings are not understood, or cannot be had", wrong)}
	}
	return nil
}

// named are the settings of these names, and what is not known.
func named(s *settings.Settings, names []string) (list []settings.Setting, unknown string) {
	var bad []string
	for _, name := range names {
		if set, ok := s.Get(name); ok {
			list = append(list, set)
			continue
		}
		text := fmt.Sprintf("no parameter %q", name)
		if near := settings.Nearest(name); near != "" {
			text += ", did you mean " + near + "?"
		}
		bad = append(bad, text)
	}
	return list, strings.Join(bad, "; ")
}

func configuredAs(s settings.Setting) configured {
	return configured{s.Name, s.Value, s.Origin.String(), s.NoEffect}
}

// printConfig prints settings; notes go to standard error, as everything that is said.
func printConfig(e *env, c configuration) error {
	if e.json {
		return e.printJSON(c)
	}
	rows := [][]string{{"NAME", "VALUE", "FROM"}}
	for _, set := range slices.Concat(c.Settings, c.Descriptors) {
		value := set.Value
		if value == "" {
			value = "-"
		}
		if set.NoEffect != "" {
			value += " (no effect)"
		}
		rows = append(rows, []string{set.Name, value, set.From})
	}
	if len(rows) > 1 {
		ui.Table(e.out, rows)
	} else {
		fmt.Fprintln(e.out, "nothing is set: all is as built in (--all shows it)")
	}
	for _, n := range c.Notes {
		e.say(n.Text)
	}
	return nil
}
