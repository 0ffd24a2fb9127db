package patchbay_test

import "regexp"

// riddles matches relative clauses that stand in place of a noun, so that a reader has to
// find out who or what is meant.
var riddles = regexp.MustCompile(`(?:^|[.;:(]\s+)[Ww]ho(?:ever)?\s+(?:\w+\s+){1,4}(?:is|are)\s+(?:told|refused|asked|sent|shown|let|given)\b` +
	`|\b[Ww]hat\s+(?:is|was|are|were)\s+of\b|\b[Tt]hat\s+which\s+(?:is|was|has)\b`)

// plainComments finds comments that a reader must solve before understanding them.
func plainComments(tr *tree) []string {
	var found []string
	for _, f := range tr.files {
		for _, comment := range f.Comments {
			if riddle := riddles.FindString(comment.Text()); riddle != "" {
				found = append(found, tr.at(comment.Pos(), "%q in a comment leaves open who or what is meant; name it", riddle))
			}
		}
	}
	return found
}
