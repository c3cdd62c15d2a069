package main

import (
	"io"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"pushd/cmd/pushd/settings"
)

// settingFlags are the flags of every command that reads the service's settings.
type settingFlags struct {
	file    string
	set     []string
	listen  string
	dataDir string
}

func (f *settingFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "config", "", "a settings file, YAML (PUSHD_CONFIG)")
	flags.StringArrayVar(&f.set, "set", nil, "a setting, key=value; as often as needed")
	flags.StringVar(&f.listen, "listen", "", "the same as --set listen=")
	flags.StringVar(&f.dataDir, "data-dir", "", "the same as --set data_dir=")
}

// sources are where the settings come from.
func (f *settingFlags) sources(sh *shell) settings.Sources {
	set := f.set
	if f.listen != "" {
		set = append(set, "listen="+f.listen)
	}
	if f.dataDir != "" {
		set = append(set, "data_dir="+f.dataDir)
	}
	return settings.Sources{File: firstOf(f.file, sh.getenv("PUSHD_CONFIG")), Environ: sh.environ, Set: set}
}

// load reads the settings and warns of variables that look like one and are none.
func (f *settingFlags) load(sh *shell) (*settings.Loaded, error) {
	loaded, err := settings.Load(f.sources(sh))
	if err != nil {
		return nil, err
	}
	for _, name := range loaded.Unknown {
		sh.say("%s: %s is set and is no setting; `pushctl config show` lists them", sh.name, name)
	}
	return loaded, nil
}

func configCommand(sh *shell) *cobra.Command {
	f := &settingFlags{}
	show := &cobra.Command{
		Use:   "show",
		Short: "Print each setting with where it came from",
		Args:  args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			loaded, err := f.load(sh)
			if err != nil {
				return err
			}
			return sh.showSettings(loaded)
		},
	}
	f.register(show)
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Read a settings file as a start would",
		Args:  args(1, 1),
		RunE: func(_ *cobra.Command, given []string) error {
			loaded, err := settings.Load(settings.Sources{File: given[0]})
			if err != nil {
				return err
			}
			if _, _, err := readOutside(loaded.Document); err != nil {
				return err
			}
			if _, err := certificateOf(loaded, zerolog.Nop()); err != nil {
				return err
			}
			return sh.confirmDone(map[string]any{"file": given[0], "fine": true}, "%s is fine", given[0])
		},
	}
	return group(&cobra.Command{Use: "config", Short: "Show and check the settings of the service"}, show, check)
}

func (sh *shell) showSettings(loaded *settings.Loaded) error {
	type shown struct {
		Key    string `json:"key"`
		Value  string `json:"value"`
		Origin string `json:"origin"`
		Env    string `json:"env"`
	}
	items := make([]shown, len(loaded.Values))
	for i, v := range loaded.Values {
		items[i] = shown{v.Name, v.Text, v.Origin, v.Env}
	}
	return sh.emit(map[string]any{"items": items}, func(w io.Writer) {
		t := sh.table(w, "KEY", "VALUE", "ORIGIN")
		for _, v := range items {
			t.row(v.Key, v.Value, v.Origin)
		}
		t.Flush()
	})
}
