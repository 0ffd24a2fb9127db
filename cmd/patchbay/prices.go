package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/request/prices"
)

func newPrices(stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "prices",
		Short:   "Make the prices section of a configuration",
		Example: `  patchbay prices import model_prices_and_context_window.json --model 'gpt-*' >> patchbay.yaml`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPricesImport(stdout))
	return cmd
}

func newPricesImport(stdout io.Writer) *cobra.Command {
	var only []string
	currency := prices.DefaultSettings().Currency
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Turn LiteLLM's JSON list of prices into the prices section of a configuration",
		Long: `Reads the widely used JSON list of prices of LiteLLM
(model_prices_and_context_window.json) and prints the section prices of a
configuration file. Entries that cannot be read are named on standard error and
left out.`,
		Example: "  patchbay prices import model_prices_and_context_window.json --model 'gpt-*' >> patchbay.yaml",
		Args:    oneArg("name", "file", "patchbay prices import model_prices_and_context_window.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := os.ReadFile(args[0])
			if err != nil {
				return failed(err)
			}
			models, problems, err := prices.Import(data)
			if err != nil {
				return failed(fmt.Errorf("%s: %w", args[0], err))
			}
			for _, problem := range problems {
				fmt.Fprintln(cmd.ErrOrStderr(), "left out:", problem)
			}
			_, err = io.WriteString(stdout,
				prices.YAML(prices.Settings{Currency: currency, Models: prices.Select(models, only)}))
			return failed(err)
		},
	}
	cmd.Flags().StringArrayVar(&only, "model", nil,
		"name of a model that is wanted, in which * stands for any text; may be repeated (default: all)")
	cmd.Flags().StringVar(&currency, "currency", currency, "label of the currency")
	return cmd
}
