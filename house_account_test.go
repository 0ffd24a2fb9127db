package patchbay_test

import (
	"go/ast"
	"slices"
	"strings"
)

// taking are the types by which a request takes from limits, budgets and the ledger, and prices, and
// takingCalls the methods that need no such type. Only accounts use them.
var (
	taking = []string{
		"allowance.Use", "budget.Charge", "quota.Ticket", "quota.Subject", "ratelimit.Spent", "pool.Price", "Pool.Price",
	}
	takingCalls = []string{"Limiter.Take", "Limiter.Allow", "Cost"}
)

// isTaker reports whether a package is one of those that limit, price and settle: those of
// internal/count, the account that uses them, and prices.
func isTaker(dir string) bool {
	return strings.HasPrefix(dir, "internal/count/") || dir == "internal/route/account" || dir == "internal/request/prices"
}

// mayTake names functions and types outside of these packages that take all the same, and why.
var mayTake = map[string]string{
	"internal/hosts/backend.Permit":  "the limit of an instance is a slot, which the executor acquires",
	"internal/route/routing.Compile": "it gives each pool its price",
	"internal/hosts/backend.acquire": "the limit of an instance is a slot, which the executor acquires",
}

// onlyAccountsTake finds code outside of these packages that takes from limits, budgets or the
// ledger, or that makes a price, without an account.
func onlyAccountsTake(tr *tree) []string {
	var found []string
	for _, f := range tr.product() {
		if isTaker(f.dir) {
			continue
		}
		for _, decl := range f.Decls {
			if mayTake[f.dir+"."+declaredName(decl)] != "" {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if name := takes(n); name != "" {
					found = append(found, tr.at(n.Pos(), "%s takes or prices without an account; use internal/route/account", name))
					return false
				}
				return true
			})
		}
	}
	return found
}

// takes returns which of the types or methods a node uses, empty for none.
func takes(n ast.Node) string {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if name := selected(n); slices.Contains(taking, name) {
			return name
		}
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) == 0 {
			return ""
		}
		if slices.Contains(takingCalls, called.Sel.Name) {
			return called.Sel.Name
		}
		if name := selected(called); slices.Contains(takingCalls, name) {
			return name
		}
	}
	return ""
}

// selected returns the last two names of a selector.
func selected(s *ast.SelectorExpr) string {
	switch x := s.X.(type) {
	case *ast.Ident:
		return x.Name + "." + s.Sel.Name
	case *ast.SelectorExpr:
		return x.Sel.Name + "." + s.Sel.Name
	}
	return s.Sel.Name
}

// declaredName returns the name of a function or of the first thing that is declared.
func declaredName(decl ast.Decl) string {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		return decl.Name.Name
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if spec, ok := spec.(*ast.TypeSpec); ok {
				return spec.Name.Name
			}
		}
	}
	return ""
}

// closedBy names who closes the account that a function makes, where it does not defer that.
var closedBy = map[string]string{
	"internal/route/proxy.beginPart":         "nobody: the account of the whole request pays for its parts",
	"internal/serve/web/tryout.call":         "Proxy.Do",
	"internal/serve/web/v1.visit":            "findAnswer, whose callers defer it",
	"internal/wings/realtime/socket.newTurn": "relay.settle or turn.giveBack; relay.endTurns ends those that are left",
	"internal/wings/realtime/socket.hold":    "Proxy.Hold",
}

// accountsAreClosed finds functions that make an account and do not defer its end.
func accountsAreClosed(tr *tree) []string {
	var found []string
	for _, f := range tr.product() {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || closedBy[f.dir+"."+fn.Name.Name] != "" {
				continue
			}
			var made ast.Node
			closes := false
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if isAccount(f, n.Type) {
						made = n
					}
				case *ast.DeferStmt:
					called, ok := n.Call.Fun.(*ast.SelectorExpr)
					closes = closes || ok && called.Sel.Name == "Close"
				}
				return true
			})
			if made != nil && !closes {
				found = append(found, tr.at(made.Pos(), "%s makes an account and does not defer its Close; do that, or name who closes it in closedBy", fn.Name.Name))
			}
		}
	}
	return found
}

// isAccount reports whether a type is that of accounts.
func isAccount(f goFile, t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.SelectorExpr:
		name := selected(t)
		return name == "account.Account" || name == "proxy.Request"
	case *ast.Ident:
		return t.Name == "Request" && f.dir == "internal/route/proxy"
	}
	return false
}
