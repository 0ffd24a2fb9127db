package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/wings/importer/llamaswap"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// router reads which models may run together, from the section that is in force.
func (s *swap) router() {
	groups, matrix, setting := reading.At(s.root, "groups"), reading.At(s.root, "matrix"), ""
	if router := reading.At(s.root, "routing", "router"); router != nil {
		setting = "routing.router.settings."
		groups, matrix = reading.At(router, "settings", "groups"), reading.At(router, "settings", "matrix")
		unused, name := &matrix, "matrix"
		if s.Text(router, "use") == "matrix" {
			unused, name = &groups, "groups"
		}
		if *unused != nil {
			s.NotInForce(*unused, setting+name, "routing.router.use names the other one")
			*unused = nil
		}
	}
	apart := llamaswap.ByGroups(s.models, nil)
	if matrix != nil {
		apart = s.matrix(matrix, setting+"matrix", apart)
	} else {
		apart = llamaswap.ByGroups(s.models, s.groups(groups, setting+"groups"))
	}
	count, of := apart.Groups()
	for n, model := range s.models {
		for _, group := range of[model] {
			name := "swap"
			if count > 1 {
				name = fmt.Sprintf("swap-%d", group+1)
			}
			s.processes[n].groups = append(s.processes[n].groups, name)
		}
	}
}

// groups reads the groups of models.
func (s *swap) groups(n *yaml.Node, setting string) (all []llamaswap.Group) {
	for _, e := range reading.Entries(n) {
		at := setting + "." + e.Key
		is := func(name string, usual bool) bool {
			return reading.At(e.Value, name) == nil && usual || s.Text(e.Value, name) == "true"
		}
		group := llamaswap.Group{Swap: is("swap", true), Exclusive: is("exclusive", true),
			Persistent: is("persistent", false)}
		for _, member := range s.Texts(e.Value, "members") {
			if !slices.Contains(s.models, member) {
				s.Partly(e.Value, at+".members", "there is no process of %s", member)
				continue
			}
			group.Members = append(group.Members, member)
		}
		switch {
		case len(group.Members) == 0:
			s.NotInForce(e.Value, at, "it has no members")
			continue
		case group.Exclusive == !group.Persistent: // what it does to others, they do to it
			s.Taken(e.Value, at, "groups of the processes")
		case group.Persistent && group.Exclusive:
			s.Changed(e.Value, at, "its members run beside those of other groups, which do not have to leave for them")
		default:
			s.Changed(e.Value, at, "its members run beside those of other groups, and do not leave for them")
		}
		all = append(all, group)
	}
	return all
}

// matrix reads which models may run together by expressions.
func (s *swap) matrix(n *yaml.Node, setting string, otherwise llamaswap.Apart) llamaswap.Apart {
	vars := map[string]string{}
	for _, e := range reading.Entries(reading.At(n, "vars")) {
		if vars[e.Key] = s.Text(e.Value); !slices.Contains(s.models, vars[e.Key]) {
			s.Unsupported(e.Value, setting+".vars."+e.Key, "there is no process of %s", vars[e.Key])
			delete(vars, e.Key)
		}
	}
	if costs := reading.At(n, "evict_costs"); costs != nil {
		s.Unsupported(costs, setting+".evict_costs", "processes leave first that are likely to be needed last; "+
			"pinned: true of an instance keeps its process")
	}
	sets := reading.At(n, "sets")
	var all []llamaswap.Set
	for _, e := range reading.Entries(sets) {
		all = append(all, llamaswap.Set{Name: e.Key, Text: s.Text(e.Value)})
	}
	combinations, err := llamaswap.Combinations(all, func(word string) (string, bool) {
		word = cmp.Or(vars[word], word)
		return word, slices.Contains(s.models, word)
	})
	if err == nil && len(s.models) > llamaswap.MaxModels {
		err = fmt.Errorf("there are more than %d models", llamaswap.MaxModels)
	}
	if err != nil {
		s.Unsupported(sets, setting+".sets", "one process runs at a time, because the sets cannot be read: %v", err)
		return otherwise
	}
	apart, refused := llamaswap.ByCombinations(s.models, combinations)
	for _, set := range refused {
		s.Partly(sets, setting+".sets", "%s do not run all together: groups say which two processes may, and these "+
			"only fit by a rule for three or more", strings.Join(set, ", "))
	}
	s.Taken(sets, setting+".sets", "groups of the processes: two that are in no set together have one in common")
	return apart
}

// preload reads which processes are started with the gateway.
func (s *swap) preload(n *yaml.Node) {
	taken := map[string]string{}
	for _, name := range s.Texts(n) {
		at := slices.Index(s.models, cmp.Or(s.names[name], name))
		if at < 0 {
			s.NotInForce(n, "hooks.on_startup.preload", "there is no process of %s", name)
			continue
		}
		p := s.processes[at]
		for _, group := range p.groups { // the last one is in memory in the end
			if before := taken[group]; before != "" {
				s.NotInForce(n, "hooks.on_startup.preload", "%s leaves for %s, with which it does not run together",
					before, name)
				s.processNamed(before).preload = false
			}
			taken[group] = p.name
		}
		p.preload = true
		s.Taken(n, "hooks.on_startup.preload", "preload of the process %s", p.name)
	}
}
