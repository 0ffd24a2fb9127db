package main

import (
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/docs"
	"github.com/patchbay-ai/patchbay/internal/config"
)

// schemaFile is the name that a starter file gives to the schema beside it.
const schemaFile = "patchbay.schema.json"

func newSchema(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file, for editors",
		Long: `Prints the JSON Schema of the configuration file. An editor that reads it completes
names, shows what each setting means and marks mistakes. For the YAML language
server, which many editors use, the first line of the file names the schema:

  # yaml-language-server: $schema=` + schemaFile + `

patchbay check knows more rules than a schema can express.`,
		Example: `  patchbay schema > ` + schemaFile,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			data, err := settingsSchema()
			if err == nil {
				_, err = stdout.Write(data)
			}
			return failed(err)
		},
	}
}

func settingsSchema() ([]byte, error) {
	data, err := json.Marshal(config.JSONSchema(docs.Setting), json.Deterministic(true), jsontext.WithIndent("  "))
	return append(data, '\n'), err
}
