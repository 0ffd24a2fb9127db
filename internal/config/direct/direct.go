// Package direct asks backends without a gateway: each call has a configuration of its own with
// one instance.
package direct

import (
	"context"
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// Send returns a discover.Send for programs without a gateway.
func Send(client *transport.Client) discover.Send {
	return func(ctx context.Context, serviceType schema.ServiceType, settings backend.Settings,
		post string) (int, []byte, error) {
		doc := config.Default().Alone(serviceType, config.DefaultService(), settings)
		if problems := doc.ValidateServices(kinds.Check); len(problems) > 0 {
			at := problems[0].Path
			return 0, nil, fmt.Errorf("%w: %s %s", discover.ErrRefused, at[strings.LastIndexByte(at, '.')+1:],
				problems[0].Said)
		}
		table, err := routing.Compile(doc.Routed(), nil, nil)
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", discover.ErrRefused, err)
		}
		return discover.SendTo(ctx, client, table.Service(serviceType).Instance(settings.ID()), post)
	}
}
