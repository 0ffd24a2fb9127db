package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// remoteVerb declares a verb that asks a gateway: its words, its flags, the operation, and how the reply
// is printed.
type remoteVerb struct {
	use, short, long, example string
	aliases                   []string
	// asks is the operation, such as "PUT /api/auth/keys/{id}". Arguments replace the names in braces.
	asks  string
	flags []flag
	// args checks the arguments; nil wants one if the use of the verb names one.
	args cobra.PositionalArgs
	// setup completes the command; it may be nil.
	setup func(*cobra.Command)
	// isPlain is true for a verb without --json, and makes for one that makes the data directory of a
	// gateway that does not run.
	isPlain, makes bool
	// needsInput refuses a use without a flag that gives a member of the input.
	needsInput bool
	// does replaces asks and prints in a verb that calls several operations.
	does func(*asking) error
	// prints prints the data of the reply.
	prints func(*asking) error
}

// flag declares a flag, and the member of the operation's input that it gives: "limits.tokens" is
// a member of a member, "?sort" a parameter of the query, and an empty one is not sent. The default
// decides the type.
type flag struct {
	name, member string
	byDefault    any
	usage        string
	// read turns the given values into the member; nil takes them as they are.
	read func(values []string) (any, error)
}

func (f *flag) register(set *pflag.FlagSet) {
	switch value := f.byDefault.(type) {
	case string:
		set.String(f.name, value, f.usage)
	case []string:
		set.StringArray(f.name, value, f.usage)
	case bool:
		set.Bool(f.name, value, f.usage)
	case int:
		set.Int(f.name, value, f.usage)
	case int64:
		set.Int64(f.name, value, f.usage)
	case time.Duration:
		set.Duration(f.name, value, f.usage)
	}
}

// value returns the member that a flag gives. Empty texts are no elements of a list.
func (f *flag) value(given pflag.Value) (any, error) {
	values := []string{given.String()}
	list, isList := given.(pflag.SliceValue)
	if isList {
		values = slices.DeleteFunc(list.GetSlice(), func(text string) bool { return text == "" })
	}
	switch f.byDefault.(type) {
	case bool, int, int64:
		return jsontext.Value(values[0]), nil
	}
	if f.read != nil {
		return f.read(values)
	}
	if isList {
		return values, nil
	}
	return values[0], nil
}

// asking is one use of a verb.
type asking struct {
	remote
	ctx   context.Context // one use, one context
	cmd   *cobra.Command
	args  []string
	query url.Values
	body  map[string]any // nil for a verb whose flags give no member of a body
	json  bool
	data  jsontext.Value // of the reply
}

// read reads the flags of a verb.
func (a *asking) read(flags []flag) error {
	for _, f := range flags {
		if f.member == "" {
			continue
		}
		isQuery := f.member[0] == '?'
		if a.body == nil && !isQuery {
			a.body = map[string]any{}
		}
		given := a.cmd.Flags().Lookup(f.name)
		if !given.Changed {
			continue
		}
		value, err := f.value(given.Value)
		if err != nil {
			return err
		}
		outer, inner, isInner := strings.Cut(f.member, ".")
		switch group, _ := a.body[outer].(map[string]any); {
		case isQuery:
			a.query.Set(outer[1:], fmt.Sprint(value))
		case !isInner:
			a.body[outer] = value
		case group == nil:
			a.body[outer] = map[string]any{inner: value}
		default:
			group[inner] = value
		}
	}
	return nil
}

// newFamily returns a command with verbs that ask a gateway for things of one kind. Without the word of
// a verb it does what the first one does if isList is true, and else prints its help.
func newFamily(flags remoteFlags, thing string, isList bool, head remoteVerb, verbs ...remoteVerb) *cobra.Command {
	family := &cobra.Command{Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	if isList {
		family = verbs[0].command(flags)
	}
	family.Use, family.Short, family.Long, family.Example = head.use, head.short, head.long, head.example
	for i := range verbs {
		cmd := verbs[i].command(flags)
		if field := strings.ToLower(cmd.Use[len(cmd.Name()):]); verbs[i].args == nil && field != "" {
			cmd.Args = oneArg(field[1:], thing, "patchbay "+head.use+" list shows the "+field[1:]+"s")
		}
		family.AddCommand(cmd)
	}
	return family
}

// command returns the command of a verb.
func (v *remoteVerb) command(flags remoteFlags) *cobra.Command {
	flags.makes = v.makes
	cmd := &cobra.Command{Use: v.use, Aliases: v.aliases, Short: v.short, Long: v.long, Example: v.example,
		Args: v.args, Annotations: map[string]string{"operation": v.asks}}
	if v.args == nil {
		cmd.Args = cobra.NoArgs
	}
	flags.register(cmd)
	isJSON := new(bool)
	if !v.isPlain {
		cmd.Flags().BoolVar(isJSON, "json", false, "print JSON")
	}
	for i := range v.flags {
		v.flags[i].register(cmd.Flags())
		_ = cmd.Flags().SetAnnotation(v.flags[i].name, "member", []string{v.flags[i].member}) // the flag is there
	}
	if v.setup != nil {
		v.setup(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a := &asking{cmd: cmd, args: args, query: url.Values{}, json: *isJSON}
		if err := a.read(v.flags); err != nil {
			return err
		}
		if v.needsInput && len(a.body) == 0 {
			return fmt.Errorf("nothing to change was given; %s --help names the flags", cmd.CommandPath())
		}
		return flags.at(cmd.Context(), func(ctx context.Context, r remote) error {
			a.ctx, a.remote = ctx, r
			if v.does != nil {
				return v.does(a)
			}
			if err := a.do(v.asks, &a.data); err != nil {
				return err
			}
			return v.prints(a)
		})
	}
	return cmd
}

// do calls an operation with the arguments and the flags.
func (a *asking) do(operation string, to any) error {
	method, path, _ := strings.Cut(operation, " ")
	if before, rest, hasName := strings.Cut(path, "{"); hasName {
		_, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(a.args[0]) + after
	}
	if query := a.query.Encode(); strings.Contains(path, "?") {
		path += "&" + query
	} else if query != "" {
		path += "?" + query
	}
	var body any
	if a.body != nil {
		body = a.body
	}
	return a.ask(a.ctx, method, path, body, to)
}

func (a *asking) out() io.Writer { return a.cmd.OutOrStdout() }

// printf prints a text for people, or a value as JSON.
func (a *asking) printf(value any, format string, args ...any) error {
	if a.json {
		return writeJSON(a.out(), value)
	}
	_, err := fmt.Fprintf(a.out(), format, args...)
	return err
}

// reply returns the prints of a verb, which gets the data of the reply.
func reply[Data any](print func(a *asking, data *Data) error) func(*asking) error {
	return func(a *asking) error {
		var data Data
		if json.Unmarshal(a.data, &data) != nil {
			return a.strange(http.StatusOK)
		}
		return print(a, &data)
	}
}

// table prints a list: its head, and a row for each element.
func table[Line any](head string, row func(*Line) []string) func(*asking) error {
	return reply(func(a *asking, lines *[]Line) error {
		if a.json {
			return writeJSON(a.out(), lines)
		}
		rows := [][]string{{head}}
		for i := range *lines {
			rows = append(rows, row(&(*lines)[i]))
		}
		return writeTable(a.out(), rows)
	})
}

// writeTable prints rows with their columns below each other.
func writeTable(to io.Writer, rows [][]string) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

// oneArg returns the check that a verb has exactly one argument.
func oneArg(field, thing, hint string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return fmt.Errorf("the %s of the %s is missing; %s", field, thing, hint)
		case 1:
			return nil
		}
		return fmt.Errorf("want the %s of one %s, found %d", field, thing, len(args))
	}
}
