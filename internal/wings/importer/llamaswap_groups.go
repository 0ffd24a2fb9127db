package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/wings/importer/llamaswap"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// router reads which models may run together, from the section that is in force.
func (s *swap) router() {
	groups, matrix := s.root.At("groups"), s.root.At("matrix")
	if router := s.root.At("routing", "router"); router.Exists() {
		groups, matrix = router.At("settings", "groups"), router.At("settings", "matrix")
		unused := &matrix
		if router.Text("use") == "matrix" {
			unused = &groups
		}
		if unused.Exists() {
			unused.NotInForce("routing.router.use names the other one")
			unused.Node = nil
		}
	}
	var apart llamaswap.Apart
	if matrix.Exists() {
		apart = s.matrix(matrix)
	} else {
		apart = llamaswap.ByGroups(s.models, s.groups(groups))
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
func (s *swap) groups(n reading.Setting) (all []llamaswap.Group) {
	for _, e := range n.Entries() {
		is := func(name string, usual bool) bool {
			return !e.At(name).Exists() && usual || e.Text(name) == "true"
		}
		group := llamaswap.Group{Swap: is("swap", true), Exclusive: is("exclusive", true),
			Persistent: is("persistent", false)}
		for _, member := range e.Texts("members") {
			if !slices.Contains(s.models, member) {
				e.As(e.Name+".members").Partly("there is no process of %s", member)
				continue
			}
			group.Members = append(group.Members, member)
		}
		switch {
		case len(group.Members) == 0:
			e.NotInForce("it has no members")
			continue
		case group.Exclusive == !group.Persistent: // what it does to others, they do to it
			e.Taken("groups of the processes")
		case group.Persistent && group.Exclusive:
			e.Changed("its members run beside those of other groups, which do not have to leave for them")
		default:
			e.Changed("its members run beside those of other groups, and do not leave for them")
		}
		all = append(all, group)
	}
	return all
}

// matrix reads which models may run together by expressions.
func (s *swap) matrix(n reading.Setting) llamaswap.Apart {
	vars := map[string]string{}
	for _, e := range n.At("vars").Entries() {
		if vars[e.Key] = e.Text(); !slices.Contains(s.models, vars[e.Key]) {
			e.Unsupported("there is no process of %s", vars[e.Key])
			delete(vars, e.Key)
		}
	}
	if costs := n.At("evict_costs"); costs.Exists() {
		costs.Unsupported("processes leave first that are likely to be needed last; " +
			"pinned: true of an instance keeps its process")
	}
	sets := n.At("sets")
	var all []llamaswap.Set
	for _, e := range sets.Entries() {
		all = append(all, llamaswap.Set{Name: e.Key, Text: e.Text()})
	}
	combinations, err := llamaswap.Combinations(all, func(word string) (string, bool) {
		word = cmp.Or(vars[word], word)
		return word, slices.Contains(s.models, word)
	})
	if err == nil && len(s.models) > llamaswap.MaxModels {
		err = fmt.Errorf("there are more than %d models", llamaswap.MaxModels)
	}
	if err != nil {
		sets.Unsupported("one process runs at a time, because the sets cannot be read: %v", err)
		return llamaswap.ByGroups(s.models, nil)
	}
	apart, refused := llamaswap.ByCombinations(s.models, combinations)
	for _, set := range refused {
		sets.Partly("%s do not run all together: groups say which two processes may, and these "+
			"only fit by a rule for three or more", strings.Join(set, ", "))
	}
	sets.Taken("groups of the processes: two that are in no set together have one in common")
	return apart
}

// preload reads which processes are started with the gateway.
func (s *swap) preload(n reading.Setting) {
	taken := map[string]string{}
	for _, name := range n.Texts() {
		at := slices.Index(s.models, cmp.Or(s.names[name], name))
		if at < 0 {
			n.NotInForce("there is no process of %s", name)
			continue
		}
		p := s.processes[at]
		for _, group := range p.groups { // the last one is in memory in the end
			if before := taken[group]; before != "" {
				n.NotInForce("%s leaves for %s, with which it does not run together",
					before, name)
				s.processNamed(before).preload = false
			}
			taken[group] = p.name
		}
		p.preload = true
		n.Taken("preload of the process %s", p.name)
	}
}
