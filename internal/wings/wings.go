// Package wings lists the settings of the wings. A wing is a feature in a folder of its own
// that the core does without: this file and the list of the gateway name it, and no other
// package of the core does. A line belongs to the wing that it names; to build without a
// wing, delete its folder and its lines.
package wings

import (
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/wings/alerts"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache"
	"github.com/patchbay-ai/patchbay/internal/wings/answers"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
	"github.com/patchbay-ai/patchbay/internal/wings/batches"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
	"github.com/patchbay-ai/patchbay/internal/wings/callertokens"
	"github.com/patchbay-ai/patchbay/internal/wings/callsearch/callfile"
	"github.com/patchbay-ai/patchbay/internal/wings/loras"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
	"github.com/patchbay-ai/patchbay/internal/wings/realtime/sockets"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
	"github.com/patchbay-ai/patchbay/internal/wings/selfservice"
	"github.com/patchbay-ai/patchbay/internal/wings/signin"
)

// Sections are the sections of the configuration that belong to wings. The document has them
// among its own; a section of a wing that is not built in is an unknown key.
type Sections struct {
	Responses   answers.Settings     `json:"responses"`
	AnswerCache answercache.Settings `json:"answerCache" managed:"write"`
	Files       files.Settings       `json:"files"`
	Batches     batches.Settings     `json:"batches"`
	Audit       audit.Settings       `json:"audit"`
	Alerts      alerts.Settings      `json:"alerts" effect:"now" managed:"manage"`
	Processes   processes.Settings   `json:"processes" effect:"now" from:"file"`
	LoRA        loras.Settings       `json:"loras" effect:"now" from:"file"`
	AgentRuns   runs.Settings        `json:"runs" from:"file"`
}

// Bounds are the settings of wings in the section limits.
type Bounds struct {
	processes.Bounds

	WebSockets sockets.Settings `json:"websockets"`
}

// Records are the settings of wings in the section monitoring.
type Records struct {
	CallsFile callfile.Settings `json:"callsFile" managed:"manage"`
}

// Access are the settings of wings in the section security.
type Access struct {
	OIDC        signin.Settings       `json:"oidc" from:"file"`
	JWT         callertokens.Settings `json:"jwt" effect:"now" from:"file"`
	SelfService selfservice.Settings  `json:"selfService" from:"file"`
}

// DefaultSections returns the sections of an empty configuration.
func DefaultSections() Sections {
	return Sections{
		Responses:   answers.DefaultSettings(),
		AnswerCache: answercache.DefaultSettings(),
		Files:       files.DefaultSettings(),
		Batches:     batches.DefaultSettings(),
		Audit:       audit.DefaultSettings(),
		Alerts:      alerts.DefaultSettings(),
		AgentRuns:   runs.DefaultSettings(),
	}
}

// DefaultBounds returns the bounds of an empty configuration.
func DefaultBounds() Bounds {
	return Bounds{
		WebSockets: sockets.DefaultSettings(),
	}
}

// DefaultRecords returns the records of an empty configuration.
func DefaultRecords() Records {
	return Records{
		CallsFile: callfile.DefaultSettings(),
	}
}

// DefaultAccess returns the settings of wings in the section security of an empty configuration.
func DefaultAccess() Access {
	return Access{
		SelfService: selfservice.DefaultSettings(),
	}
}

// Check reports every setting of the section security that has a value it may not have.
func (a Access) Check(report say.Report) {
	selfservice.Settings.Check(a.SelfService, say.Under("selfService.", report))
	signin.Settings.Check(a.OIDC, say.Under("oidc", report))
	callertokens.Settings.Check(a.JWT, say.Under("jwt", report))
}

// CheckTogether reports values of the section security that contradict values of others: whether
// tokens are needed, and the address by which people reach the gateway.
func (a Access) CheckTogether(isSecured bool, publicURL string, report say.Report) {
	signin.Settings.CheckTogether(a.OIDC, isSecured, publicURL, report)
}

// Lint reports values of the section security that are allowed and seldom meant. forwards are the
// instances that get the caller's own credential.
func (a Access) Lint(publicURL string, forwards []string, report func(path, message string)) {
	signin.Settings.Lint(a.OIDC, publicURL, report)
	callertokens.Settings.Lint(a.JWT, forwards, report)
}

// Examine reports the findings of doctor about the section security.
func (a Access) Examine(publicURL string, report func(level, area, message, fix string)) {
	signin.Settings.Examine(a.OIDC, publicURL, report)
	callertokens.Settings.Examine(a.JWT, report)
}

// LetsIn reports whether callers may be let in by something else than a key.
func (a Access) LetsIn() bool {
	count := 0
	count += callertokens.Settings.Count(a.JWT)
	return count > 0
}

// Check reports every setting that has a value it may not have.
func (r Records) Check(report say.Report) {
	callfile.Settings.Check(r.CallsFile, say.Under("callsFile.", report))
}

// Check reports every bound that has a value it may not have.
func (b Bounds) Check(report say.Report) {
	sockets.Settings.Check(b.WebSockets, say.Under("websockets.", report))
}

// CheckTogether reports values that contradict values of other sections. isShared says that
// gateways share the configuration.
func (s *Sections) CheckTogether(bounds Bounds, isShared bool, report say.Report) {
	batches.CheckFolder(s.Batches, s.Files.Folder, isShared, report)
	processes.CheckMemory(s.Processes, bounds.Bounds, report)
}

// Lint reports values that are allowed and seldom meant. The limits of one run are those of keys and
// tenants, by their places; output is the dearest price of a million tokens of answer.
func (s *Sections) Lint(ofRuns map[string]budget.RunLimits, output prices.Amount, report func(path, message string)) {
	processes.Lint(s.Processes, report)
	runs.Settings.Lint(s.AgentRuns, ofRuns, output, report)
}

// Examine reports the findings of doctor about wings: a level of package doctor, an area, a
// message and a remedy.
func (s *Sections) Examine(report func(level, area, message, fix string)) {
	processes.Examine(s.Processes, report)
}

// ReservedSpace returns how much of the disk stays free for the gateway's own files; 0
// leaves it to the size of the disk.
func (s *Sections) ReservedSpace() (bytes int64) {
	bytes += files.Reserved(s.Files)
	return bytes
}

// FilesFolder returns the folder that gateways share for uploaded files; empty where they share
// none.
func (s *Sections) FilesFolder() (folder string) {
	folder += files.FolderOf(s.Files)
	return folder
}

// ProcessNames returns the names of the processes that instances may refer to.
func (s *Sections) ProcessNames() (names []string) {
	names = append(names, processes.Names(s.Processes)...)
	return names
}

// LoRAs returns the LoRA adapters that engines load beside their models.
func (s *Sections) LoRAs() (all []backend.LoRA) {
	all = append(all, loras.List(s.LoRA)...)
	return all
}
