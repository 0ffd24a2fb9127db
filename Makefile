# Patchbay needs Go and make. What else a target can use, it looks for, and says
# so when it is not there.

.DEFAULT_GOAL := help
ifndef LANES
.NOTPARALLEL:
endif

BINARY   := bin/patchbay
SKIPS    := bin/skipped
FAILED   := bin/failed
CLIENTS  := test/clients
AGENTS   := test/agents
CONSOLE  := console
FUZZTIME ?= 10s
SINCE    ?= HEAD~3
# The race detector makes a program five to ten times slower, so that test-race leaves these
# out: tests of these names, which go through hundreds of rows or hours of simulated traffic, or
# measure bytes, where other tests of the same packages run the same code; and packages that
# share nothing between goroutines, or start processes.
TOO_LONG := EveryLimitHolds|GoesOnAtAnother|LearnedSlotsSuit|SlowInstancesDoNot|MemoryKept|MemoryAllocated|BesideInteractive|OverloadLeavesNoSlotIdle|IsDoneSooner|UnderFaults|AfterTheStoreIsBack|AboveItsRate|ClientsForAMinute|WithinFifteenPercent|WithinThirtySeconds
PURE     := patchbay-ai/patchbay$$|/cmd/patchbay$$|/internal/config$$|/internal/(request/(jsonscan|jsonwrite|schema|naming|prices)|dialect|route/prompts|config/(lint|references|control/(files|merge))|testing/(fleettest|yardstick)|wings/importer|store/seal)(/|$$)
# These take longest and so begin first, beside all others, instead of last and alone.
SLOWEST  := ./internal/route/proxy ./internal/gateway ./internal/config/control ./internal/count/quota
# Most tests wait for something, so that more of them than there are cores can run at
# once. Without debugging information, which no test reads, they are linked in half of
# the time; what they print on a failure has its file names and lines all the same.
TEST_FLAGS := -vet=off -ldflags=-w -parallel 8
# The official clients are two packages of a hundred thousand generated lines, which
# take half of the time to compile where nothing is inlined.
CLIENTS_FLAGS := $(foreach sdk,github.com/openai/openai-go/... github.com/anthropics/anthropic-sdk-go/...,-gcflags='$(sdk)=-c=1 -l -dwarf=false')
BENCH    ?= .
# The packages that decide, and the files of them that do more than that: those of
# subpackages, and of quota what reads and writes stores.
PACKAGES ?= hosts/breaker route/balance route/queue route/routing access count/ratelimit request/jsonscan count/quota
NO_MUTANTS := /|^(disk|flush|journal|ledger|recovery|session|shared|stats|status|store|sync)\.go$$

# All steps compile with the same settings, so that each package is compiled once from cold. The tag
# grpcnotrace keeps html/template out, and with it half of the binary. No step reads the
# debugging information, for which the compiler takes a tenth of its time.
export CGO_ENABLED := 0
# The client of Redis has a package of 50,000 generated lines, which compiles in half of the
# time where nothing is inlined; only calls that leave the process use it.
# The compiler and the linker collect their garbage less often, which takes a quarter less time
# and for the largest packages up to 1 GB of memory. Packages are compiled side by side, so that
# one thread for each is enough, and takes a seventh less. What they build is the same.
export GOFLAGS := $(GOFLAGS) -trimpath -tags=grpcnotrace '-toolexec=env GOGC=400' '-gcflags=all=-c=1 -dwarf=false' '-gcflags=github.com/redis/rueidis/internal/cmds=-c=1 -l -dwarf=false'

# Without git, or outside a clone, the binary says that it does not know.
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  = $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DATE    = $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
# A branch may have any name, and this one meets a shell.
BRANCH  = $(shell git rev-parse --abbrev-ref HEAD 2>/dev/null | tr -cd 'A-Za-z0-9._/+-')
STAMP   = -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE) -X main.branch=$(BRANCH)

BUILD   = go build -trimpath -buildvcs=false -tags grpcnotrace -ldflags "-s -w $(STAMP)"
SOURCES = find . -name '*.go' -not -path '*/node_modules/*' -not -path './bin/*'

# A step that cannot run says why. In `make test` that is all; asked for by name
# it is a failure.
skip = { mkdir -p bin; echo "$(1)" >> $(SKIPS); touch bin/$@.skipped; echo "skipped: $(1)"; test -n "$(MAY_SKIP)"; }

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Start the demo: a gateway with simulated backends (ARGS="--listen 127.0.0.1:9000")
	@exec $(BINARY) demo $(ARGS)

# The first time, modules are downloaded, which leaves the processor idle, so that the standard
# library is compiled meanwhile. Both end before the program is compiled, or the two would
# compile the same packages.
STANDARD := net/http database/sql text/template regexp log/slog encoding/xml

.PHONY: build
build: ## Build bin/patchbay, one static binary
	@test -e $(BINARY) || { GOGC=400 go build $(STANDARD) >/dev/null 2>&1 & go list -deps ./cmd/patchbay >/dev/null; fetched=$$?; wait; exit $$fetched; }
	@$(BUILD) -o $(BINARY) ./cmd/patchbay

# Every step runs and reports, also after one that failed. The steps of the lanes aside mostly
# wait for a browser or for clients and so run beside those of Go, and what they print is shown
# after them. The binary comes first, because steps that compile at the same time compile the
# same packages; what the lanes aside install is fetched meanwhile.
STEPS_FIRST   := test-deps fmt-check build
STEPS         := unit
ASIDE_CONSOLE := unless-passed-console-check unless-passed-console-look
ASIDE_CLIENTS := unless-passed-clients modules

.PHONY: test
test: begin ## Run the tests; CI runs more (.ci/run)
	+@began=$$(date +%s); \
	$(MAKE) --no-print-directory fetch >bin/fetch.log 2>&1 & \
	$(call run-steps,$(STEPS_FIRST)); \
	wait; \
	$(MAKE) --no-print-directory -j 3 LANES=yes lane lane-CONSOLE lane-CLIENTS || echo lanes >> $(FAILED); \
	cat bin/aside-*.log; \
	skipped=$$(awk 'NR > 1 { printf "; " } { printf "%s", $$0 }' $(SKIPS) 2>/dev/null); \
	echo "skipped: $${skipped:-nothing}"; \
	echo "took $$(( $$(date +%s) - began )) s"; \
	if test -e $(FAILED); then echo "failed:" $$(cat $(FAILED)); exit 1; fi; \
	echo "passed"

run-steps = for step in $(1); do \
		start=$$(date +%s); \
		$(2) $(MAKE) --no-print-directory LANES= MAY_SKIP=yes $$step || echo $${step\#unless-passed-} >> $(FAILED); \
		echo "[$${step\#unless-passed-}: $$(( $$(date +%s) - start )) s]"; \
	done

# A step aside that hangs is ended, and what it has printed is shown. Those of the first lane
# are go test, which does so by itself.
within = $(if $(shell command -v timeout),timeout -k 10 $(1))

.PHONY: lane
lane:
	+@$(call run-steps,$(STEPS))
lane-%:
	+@{ $(call run-steps,$(ASIDE_$*),$(call within,20m)); } >bin/aside-$*.log 2>&1

# A step aside is not run again if it has passed, nothing of it skipped, with the same
# binary, the same files of its own (a list of files that are installed included, and schema.ts not,
# which the binary makes) and the same tools, by their contents, as go test does it for packages. make clean forgets it.
unless-passed-%: build
	+@sum=$$({ cat $(BINARY) Makefile; find $(if $(filter console%,$*),$(CONSOLE) $(wildcard internal/wings/*/sentences.zh.ts),test/$*) \( -name node_modules -o -path '*/src/api/schema.ts' \) -prune -o -type f -print | LC_ALL=C sort | tr '\n' '\0' | xargs -0 cksum; \
		for tool in go node python3 chromium $${OLLAMA:-ollama}; do command -v $$tool && "$$tool" $$(test $$tool = go || echo --)version; done; } 2>/dev/null | sha256sum); \
	if test "$$sum" = "$$(cat bin/$*.passed 2>/dev/null)"; then \
		echo "$*: has passed with this binary and these files"; \
	else \
		rm -f bin/$*.passed bin/$*.skipped; \
		$(MAKE) --no-print-directory $* && { test -e bin/$*.skipped || echo "$$sum" > bin/$*.passed; }; \
	fi

# Some tests start servers of their own, on free ports, and a browser. Where one
# is missing and this is root on Debian, its package is installed (and its own
# service is not started); else the tests that need it are skipped.
.PHONY: test-deps
test-deps: ## Install what tests start (Redis, PostgreSQL, Prometheus, Chromium, tinyproxy, nginx, Caddy), where apt can
	@missing=; \
	command -v redis-server >/dev/null || missing="$$missing redis-server"; \
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || missing="$$missing postgresql"; \
	command -v promtool >/dev/null || missing="$$missing prometheus"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	ls /usr/share/fonts/opentype/noto/NotoSansCJK* >/dev/null 2>&1 || missing="$$missing fonts-noto-cjk"; \
	command -v tinyproxy >/dev/null || missing="$$missing tinyproxy"; \
	command -v nginx >/dev/null || test -x /usr/sbin/nginx || missing="$$missing nginx-light"; \
	command -v caddy >/dev/null || missing="$$missing caddy"; \
	if test -z "$$missing"; then exit 0; fi; \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		echo "installing for the tests:$$missing"; \
		mkdir -p bin; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $$missing; } >bin/apt.log 2>&1 || \
			echo "could not install$$missing (see bin/apt.log); the tests that need them are skipped"; \
	else \
		echo "not installed:$$missing; install them, or the tests that need them are skipped"; \
	fi

# Without what starts the binary: building it takes longer than most tests.
.PHONY: test-short
test-short: ## Run the quick tests only, none of handlers and verbs
	@go test -short -p 4 $(TEST_FLAGS) $$(go list ./... | grep -Ev '/cmd/patchbay$$|/internal/(gateway$$|serve/web(/|$$))')

.PHONY: test-race
test-race: ## Run the tests with the race detector, but for those that take it too long
	@if ! command -v $$(go env CC) >/dev/null; then $(call skip,race detector: no C compiler); \
	else CGO_ENABLED=1 go test -race -p 3 $(TEST_FLAGS) -skip '$(TOO_LONG)' -timeout 20m $(SLOWEST) $$(go list ./... | grep -Ev '$(PURE)'); fi

.PHONY: test-long
test-long: build $(CONSOLE)/node_modules/.package-lock.json ## Run what is too long for CI: all looks and flows of the console, 50,000 random histories and 200 kills of the ledger, 5,000 of shared rate limits, 100,000 clients that reset their connections, 40 days of models that are loaded and leave
	@cd $(CONSOLE) && PATCHBAY_BIN=$(CURDIR)/$(BINARY) node scripts/look.mjs && PATCHBAY_BIN=$(CURDIR)/$(BINARY) MINUTES=10 node scripts/many.mjs && PATCHBAY_BIN=$(CURDIR)/$(BINARY) node scripts/flows.mjs
	@CGO_ENABLED=1 go test -race -count=1 -timeout 30m $(TEST_FLAGS) -run '$(TOO_LONG)' ./internal/serve/front ./internal/gateway ./internal/hosts/pace ./internal/route/proxy ./internal/count/ratelimit
	@go test -count=1 -timeout 30m ./internal/count/quota -run EqualsAPlainCount -rapid.checks=50000
	@go test -count=1 -timeout 30m ./internal/config/control -run PropertyRestart -rapid.checks=2000
	@PATCHBAY_LIMIT_HISTORIES=5000 go test -count=1 -timeout 60m ./internal/count/ratelimit -run SharedLimitUnderFaults
	@PATCHBAY_RESETS=100000 go test -count=1 -timeout 60m ./internal/gateway -run RequestsThatAreReset
	@PATCHBAY_DAYS=10 go test -count=1 -timeout 30m ./internal/hosts/residency -run KeptModelsOfADay
	@PATCHBAY_KILL_ROUNDS=200 go test -count=1 -timeout 60m ./cmd/patchbay -run QuotaSurvivesKill

.PHONY: gains
gains: ## Measure scatter, hedging, single flight and learned slots: the binary with simulated engines, each off and on, ten minutes
	@PATCHBAY_GAINS=1 go test -count=1 -v -timeout 60m $(TEST_FLAGS) ./cmd/patchbay -run GainOf

.PHONY: test-llama
test-llama: ## Kill llama.cpp's server 200 times in the middle of a stream that another one goes on with (LLAMA_SERVER=FILE MODEL=FILE, a tiny one)
	@PATCHBAY_LLAMA_SERVER=$(LLAMA_SERVER) PATCHBAY_LLAMA_MODEL=$(MODEL) PATCHBAY_KILL_ROUNDS=200 go test -count=1 -v -timeout 60m $(TEST_FLAGS) ./cmd/patchbay -run StreamsGoOnWhenLlamaCppIsKilled

.PHONY: way
way: ## Count the blocks, files and packages that one request runs through, with a binary that counts
	@PATCHBAY_WAY=1 go test -count=1 -v $(TEST_FLAGS) ./cmd/patchbay -run BlocksThatARequestRuns

.PHONY: without
without: ## Build and test the core without all wings, and without each that changed since SINCE (WINGS="spend demo" for some at once)
	@go run -modfile=tools/go.mod tools/without/*.go -since $(SINCE) $(WINGS)

.PHONY: without-all
without-all: ## Build and test the core without all wings, and without each in turn
	@go run -modfile=tools/go.mod tools/without/*.go

.PHONY: size
size: ## Count the tokens of the product's code; fails above the limit in tools/size/budget
	@go run -modfile=tools/go.mod tools/size/main.go

.PHONY: test-agents
test-agents: build $(AGENTS)/node_modules/.package-lock.json ## Run Claude Code, Codex, OpenCode, Qwen Code and Continue (1.3 GB, from npm) against the binary, on a scripted backend in each dialect
	@cd $(AGENTS) && PATCHBAY_BIN=$(CURDIR)/$(BINARY) node --test --test-reporter=spec

.PHONY: test-keycloak
KEYCLOAK := 26.4.0
test-keycloak: build $(CLIENTS)/node_modules/.package-lock.json ## Sign in with Keycloak (170 MB, from Maven; needs Java 17) in a browser, as docs/identity.md tells
	@test -d bin/keycloak/keycloak-$(KEYCLOAK) || { \
		mvn -q dependency:copy -Dartifact=org.keycloak:keycloak-quarkus-dist:$(KEYCLOAK):zip -DoutputDirectory=bin/keycloak && \
		unzip -q bin/keycloak/keycloak-quarkus-dist-$(KEYCLOAK).zip -d bin/keycloak; }
	@cd $(CLIENTS) && KEYCLOAK_HOME=$(CURDIR)/bin/keycloak/keycloak-$(KEYCLOAK) PATCHBAY_BIN=$(CURDIR)/$(BINARY) node --test --test-reporter=spec keycloak.test.js

.PHONY: test-suites
test-suites: build ## Run suites that others wrote for the APIs (from PyPI and npm) against the binary
	@PATCHBAY_BIN=$(CURDIR)/$(BINARY) SUITES_DIR=$(CURDIR)/bin/suites python3 test/suites/run.py

# These are in no registry, so that checkouts of them are named.
.PHONY: test-openresponses
test-openresponses: build ## Run the compliance tests of Open Responses against the binary (OPENRESPONSES=CHECKOUT with bun and zod)
	@PATCHBAY_BIN=$(CURDIR)/$(BINARY) python3 test/suites/openresponses.py $(OPENRESPONSES)

.PHONY: test-llama-suite
test-llama-suite: build ## Run llama.cpp's own server tests with and without the gateway (LLAMA=CHECKOUT LLAMA_SERVER=FILE CHAT_MODEL=FILE EMBEDDING_MODEL=FILE RERANK_MODEL=FILE)
	@PATCHBAY_BIN=$(CURDIR)/$(BINARY) SUITES_DIR=$(CURDIR)/bin/suites LLAMA_SERVER=$(LLAMA_SERVER) CHAT_MODEL=$(CHAT_MODEL) EMBEDDING_MODEL=$(EMBEDDING_MODEL) RERANK_MODEL=$(RERANK_MODEL) \
		python3 test/suites/llama.py $(LLAMA)

.PHONY: test-tester
test-tester: build ## Run openai-compatible-tester in strict mode against the binary (TESTER=CHECKOUT)
	@PATCHBAY_BIN=$(CURDIR)/$(BINARY) python3 test/suites/tester.py $(TESTER)

.PHONY: test-ollama
test-ollama: build $(CLIENTS)/node_modules/.package-lock.json ## Run the commands of Ollama's program against the binary, and compare what Ollama answers with what the gateway's Ollama endpoints answer in front of it (OLLAMA=FILE MODELS=FOLDER of Modelfiles)
	@cd $(CLIENTS) && PATCHBAY_BIN=$(CURDIR)/$(BINARY) OLLAMA=$(OLLAMA) node --test --test-reporter=spec --test-name-pattern='of the program' ollama.test.js
	@PATCHBAY_BIN=$(CURDIR)/$(BINARY) OLLAMA=$(OLLAMA) python3 test/suites/ollama.py $(MODELS)

.PHONY: test-collector
test-collector: build ## Send traces and metrics of the binary to the OpenTelemetry Collector's receiver
	@cd test/collector && PATCHBAY_BIN=$(CURDIR)/$(BINARY) go test -count=1 -vet=off -ldflags=-w -timeout 5m ./...

# Where Python is missing, or the registry, they are skipped.
.PHONY: suites
suites: build ## Run the quick ones of these suites, as CI does
	@if ! command -v python3 >/dev/null; then \
		$(call skip,suites of others: python3 is not installed); \
	else \
		echo "suites of others, the quick ones"; status=0; \
		PATCHBAY_BIN=$(CURDIR)/$(BINARY) SUITES_DIR=$(CURDIR)/bin/suites python3 test/suites/run.py --quick || status=$$?; \
		if test $$status = 3; then $(call skip,suites of others: they could not be installed from PyPI); else exit $$status; fi; \
	fi

# It verifies with the rules of docs/audit.md alone. Where Python is missing, or the registry, it
# is skipped.
.PHONY: test-audit
test-audit: build ## Let a verifier in Python and the gateway's verify the same audits
	@if ! command -v python3 >/dev/null; then \
		$(call skip,the verifier of the audit in Python: python3 is not installed); \
	else \
		status=0; PATCHBAY_BIN=$(CURDIR)/$(BINARY) AUDIT_DIR=$(CURDIR)/bin/audit python3 test/audit/run.py || status=$$?; \
		if test $$status = 3; then $(call skip,the verifier of the audit in Python: cryptography could not be installed); else exit $$status; fi; \
	fi

# One of the linters is go vet, which therefore is no step of its own. golangci-lint is
# built from source, 934 packages, which takes two cores longer than the tests: so it is
# no step of test.
.PHONY: lint
lint: ## Run the linters
	@mkdir -p bin
	@for module in deploy/dist docs/site; do (cd $$module && go vet .) || exit 1; done
	@go mod tidy -diff
	@if linter=$$(go tool -modfile=tools/go.mod -n golangci-lint 2>bin/lint.log); then \
		echo "golangci-lint run"; \
		for module in . bench $(CLIENTS); do (cd $$module && "$$linter" run ./...) || exit 1; done; \
	else \
		tail -n 3 bin/lint.log; go vet ./... && $(call skip,lint: golangci-lint could not be built; go vet has run instead); \
	fi

.PHONY: clients
clients: build ## Run the official clients against the binary
	@echo "client tests in Go"
	@cd $(CLIENTS) && PATCHBAY_BIN=$(CURDIR)/$(BINARY) go test -count=1 -vet=off -ldflags=-w $(CLIENTS_FLAGS) -timeout 3m ./...
	@if ! command -v npm >/dev/null; then \
		$(call skip,$(notdir $(wildcard $(CLIENTS)/*.test.js)): npm is not installed); \
	elif ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then \
		$(call skip,$(notdir $(wildcard $(CLIENTS)/*.test.js)): Node is older than 20); \
	else \
		echo "client tests in Node"; \
		command -v chromium >/dev/null || { echo "viewer.test.js, signin.test.js, people.test.js: no Chromium is installed" >> $(SKIPS); touch bin/$@.skipped; }; \
		command -v $${OLLAMA:-ollama} >/dev/null || echo "the commands of Ollama's program: ollama is not installed" >> $(SKIPS); \
		$(MAKE) --no-print-directory $(CLIENTS)/node_modules/.package-lock.json && \
		cd $(CLIENTS) && PATCHBAY_BIN=$(CURDIR)/$(BINARY) node --test --test-reporter=spec; \
	fi

# What npm has installed is as old as the list that it was installed from. npm has waited
# for a registry for more than an hour: so it asks none for what it has, and otherwise gets
# five minutes, twice.
npm-ci = npm ci --no-audit --no-fund --loglevel=error

# The lock of the agents lacks packages of other platforms, which npm ci does not accept from version 11 on.
$(AGENTS)/node_modules/.package-lock.json: $(AGENTS)/package-lock.json
	@cd $(AGENTS) && { $(npm-ci) >/dev/null 2>&1 || $(call within,15m) npm install --no-save --no-audit --no-fund; }
	@touch $@

%/node_modules/.package-lock.json: %/package-lock.json
	@cd $* && { $(npm-ci) --offline >/dev/null 2>&1 || $(call within,5m) $(npm-ci) || $(call within,5m) $(npm-ci); }
	@touch $@

# A step that needs what could not be fetched says so.
.PHONY: fetch
fetch:
	@-cd $(CLIENTS) && go list -deps -test ./... >/dev/null
	@-if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(CONSOLE)/node_modules/.package-lock.json $(CLIENTS)/node_modules/.package-lock.json; fi

# The built files are committed, so that nothing else here needs Node.
.PHONY: console
console: console-types ## Build the console (console/dist) from its sources, with npm
	@cd $(CONSOLE) && npm run --silent build -- --logLevel warn

# The types of the API, from the document that the binary prints. They are made again
# where the document, but for its version, or the generator is another one.
.PHONY: console-types
console-types: build $(CONSOLE)/node_modules/.package-lock.json ## Make the console's types of the API (console/src/api/schema.ts) from the binary
	@$(BINARY) openapi --demo | sed 's/"title":"Patchbay","version":"[^"]*"/"title":"Patchbay","version":"any"/' > bin/openapi.json
	@sum=$$(cat bin/openapi.json $(CONSOLE)/scripts/generate-api.mjs $(CONSOLE)/package-lock.json | cksum); \
	if test ! -e $(CONSOLE)/src/api/schema.ts || test "$$sum" != "$$(cat bin/openapi.sum 2>/dev/null)"; then \
		(cd $(CONSOLE) && node scripts/generate-api.mjs) < bin/openapi.json && echo "$$sum" > bin/openapi.sum; \
	fi

# That the committed files are those of the sources, TestBuiltFilesMatchTheirSources
# says without Node; here they are built once more and compared.
.PHONY: console-check
console-check:
	@if ! command -v npm >/dev/null; then \
		$(call skip,console: npm is not installed); \
	elif ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || a == 20 && b >= 19 ? 0 : 1)'; then \
		$(call skip,console: Node is older than 20.19); \
	else \
		echo "console: types, lint, tests, build"; mkdir -p bin; \
		$(MAKE) -s console-types && cd $(CONSOLE) && PATH=$$PWD/node_modules/.bin:$$PATH && \
		{ tsc --noEmit --incremental --tsBuildInfoFile ../bin/console.tsbuildinfo & types=$$!; vitest run --testTimeout 120000 --hookTimeout 120000 && eslint --cache --cache-strategy content --cache-location ../bin/console.eslint . && vite build --logLevel warn --outDir ../bin/console --emptyOutDir && wait $$types; } >../bin/console.log 2>&1 && \
		diff -r dist ../bin/console || { tail -n 40 ../bin/console.log; exit 1; }; \
	fi

# Every page in a real browser, in English and light at 1440 px and in Chinese and
# dark at 390 px: no error, no violation of the policy, no missing text, no sideways
# scroll, nothing that is cut or too small for a finger, no finding of axe. test-long
# has all combinations with every drawer, dialog and menu, the pages of 600 instances,
# and what a person does from page to page.
.PHONY: console-look
console-look: build
	@if ! command -v npm >/dev/null || ! command -v chromium >/dev/null; then \
		$(call skip,console in a browser: npm or Chromium is not installed); \
	else \
		echo "console in a browser"; \
		$(MAKE) -s $(CONSOLE)/node_modules/.package-lock.json && cd $(CONSOLE) && \
		PATCHBAY_BIN=$(CURDIR)/$(BINARY) node scripts/look.mjs --few; \
	fi

.PHONY: screenshots
screenshots: build $(CONSOLE)/node_modules/.package-lock.json ## Make the pictures of docs/console.md, with Chromium
	@cd $(CONSOLE) && PATCHBAY_BIN=$(CURDIR)/$(BINARY) node scripts/screenshots.mjs

.PHONY: bench
bench: build bench-deps ## Measure CPU per request beside nginx and a bare proxy, in about three minutes (ARGS=--json)
	@cd bench && go build -o ../bin/bench .
	@bin/bench -patchbay $(BINARY) $(ARGS)

# The strategies one after the other, a minute each. A machine that does other things
# meanwhile measures itself.
.PHONY: fleet
fleet: build ## Measure how much sooner first tokens come with least_time: a gateway, eight simulated engines, three minutes (TRACE=FILE ARGS="-until 300")
	@go run ./internal/testing/yardstick -http $(BINARY) $(if $(TRACE),-trace $(TRACE)) $(ARGS)

# Each router has an environment of its own: two of them bring a program of the same name.
RACERS ?= least_time,least_connections,round_robin,smg,sglang-router,vllm-router,litellm$(if $(wildcard bin/race/llm-d/epp),$(COMMA)llm-d)$(if $(shell command -v nginx),$(COMMA)nginx)$(if $(shell command -v haproxy),$(COMMA)haproxy)
COMMA  := ,
.PHONY: race
race: build ## Compare the time to the first token with other routers, which it installs into bin/race (docs/race.md; TRACE=FILE ENGINES=URL,... RACERS=... ARGS=...)
	@for router in smg sglang-router vllm-router litellm; do \
		case ",$(RACERS)," in *,$$router,*) ;; *) continue;; esac; \
		test -x bin/race/$$router/bin/$$router || { echo "installing $$router"; \
			python3 -m venv bin/race/$$router && bin/race/$$router/bin/pip install -q $$(test $$router = litellm && echo 'litellm[proxy]' || echo $$router); } || exit 1; \
	done
	@RACE=$(CURDIR)/bin/race PATH=$$PATH:/usr/sbin go run ./internal/testing/yardstick -http $(BINARY) -strategies $(RACERS) $(if $(TRACE),-trace $(TRACE)) $(if $(ENGINES),-engines $(ENGINES)) $(ARGS)

.PHONY: bench-deps
bench-deps: ## Install nginx for make bench, where apt can
	@if command -v nginx >/dev/null || test -x /usr/sbin/nginx; then exit 0; fi; \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		echo "installing nginx for the comparison"; \
		mkdir -p bin; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends nginx-light; } >bin/apt.log 2>&1 || \
			echo "could not install nginx (see bin/apt.log); the comparison is without it"; \
	else \
		echo "nginx is not installed; the comparison is without it"; \
	fi

.PHONY: microbench
microbench: ## Run the benchmarks of single packages (BENCH=regexp)
	@go test -run '^$$' -bench '$(BENCH)' -benchmem \
		$$(grep -rl --include='*_test.go' '^func Benchmark' internal | xargs -n 1 dirname | sort -u | sed 's|^|./|')

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (10s)
	@for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

# A mutant is the code with one operator changed; the tests of its package should
# notice. Runs are uncached (-count=1), because the time of the first one bounds
# all others, and start no servers (-short).
.PHONY: mutants
mutants: export GOFLAGS := $(GOFLAGS) -count=1 -short
mutants: ## Count which changes of the code its tests notice (PACKAGES="hosts/breaker route/queue")
	@mkdir -p bin
	@gremlins=$$(go tool -modfile=tools/go.mod -n gremlins) || exit 1; \
	printf '%-18s %6s %5s %11s %9s %8s %8s\n' package killed lived 'not covered' 'timed out' efficacy coverage; \
	for package in $(PACKAGES); do \
		log=bin/mutants-$$(basename $$package).log; \
		nice -n 19 "$$gremlins" unleash --workers 1 --timeout-coefficient 10 -E '$(NO_MUTANTS)' ./internal/$$package >$$log 2>&1 && \
		awk -F '[:,] *' -v package=$$package \
			'/^Killed/ { killed = $$2; lived = $$4; uncovered = $$6 } /^Timed out/ { late = $$2 } \
			/^Test efficacy/ { efficacy = $$2 } /^Mutator coverage/ { covered = $$2 } \
			END { printf "%-18s %6s %5s %11s %9s %8s %8s\n", package, killed, lived, uncovered, late, efficacy, covered }' $$log || \
		{ tail -n 3 $$log; exit 1; }; \
	done; \
	grep -HE '^ *(LIVED|NOT COVERED|TIMED OUT)' $(patsubst %,bin/mutants-%.log,$(notdir $(PACKAGES))) || true

.PHONY: fmt
fmt: ## Format the Go files
	@$(SOURCES) -exec gofmt -l -w {} +

.PHONY: clean
clean: ## Remove what was built and installed here
	@rm -rf bin $(CLIENTS)/node_modules $(CONSOLE)/node_modules

.PHONY: begin
begin:
	@mkdir -p bin
	@rm -f $(SKIPS) $(FAILED)

.PHONY: fmt-check
fmt-check:
	@unformatted=$$($(SOURCES) -exec gofmt -l {} +) && test -z "$$unformatted" || \
		{ echo "not formatted, run 'make fmt':" $$unformatted; exit 1; }

.PHONY: modules
modules:
	@echo "small modules: bench, deploy/dist, docs/site"
	@cd bench && go test $(TEST_FLAGS) ./...
	@cd deploy/dist && go test $(TEST_FLAGS) -count=1 . # these read files outside of their modules, which the cache does not know
	@cd docs/site && go test $(TEST_FLAGS) -count=1 .

# The log of every test goes to a file; shown are the packages that passed, or
# all but the passes when something failed.
report = grep '^ok' $(1) || true; else grep -Ev '^(=== |PASS$$|\?)|^ *--- (PASS|SKIP)' $(1); exit 1; fi

.PHONY: unit
unit:
	@mkdir -p bin
	@echo "go test"
	@if go test -v -p 3 $(TEST_FLAGS) -timeout 20m $(SLOWEST) ./... > bin/unit.log 2>&1; then $(call report,bin/unit.log)
	@$(call skipped-tests,bin/unit.log)

# Skipped tests are named with their reasons.
skipped-tests = awk '/^=== (RUN|CONT|NAME)/ { test = $$3; next } \
	/^ +[^ ]+\.go:[0-9]+: / { sub(/^ +[^ ]+ /, ""); why[test] = $$0; next } \
	/^ *--- SKIP: / { print $$3 ": " why[$$3] }' $(1) >> $(SKIPS)

# What is released: static binaries for six platforms, archives, Debian packages, container
# images, the Helm chart, bills of materials, licences, manual pages, completions and
# checksums; and in bin/image what is copied to a registry. One build at a time.
DIST_FLAGS = -version $(VERSION) -commit $(COMMIT) -date $(DATE) -branch "$(BRANCH)"

# What is released is compiled by the newest patch of Go, which `go` downloads if it is another one.
dist dist-check image: export GOTOOLCHAIN := go1.26.11

.PHONY: dist
dist: ## Build what is released into bin/dist (ONLY=linux/amd64 for one platform)
	@cd deploy/dist && nice go run . $(DIST_FLAGS) -only "$(ONLY)" -out ../../bin/dist
	@cat bin/dist/SHA256SUMS

# The second build is in another directory, of the committed files.
.PHONY: dist-check
dist-check: ## Build the packages of one platform twice, in two places, and compare them (ONLY=linux/amd64)
	@rm -rf bin/dist-check && mkdir -p bin/dist-check/second/tree
	@cd deploy/dist && nice go run . $(DIST_FLAGS) -only "$(or $(ONLY),linux/amd64)" -out ../../bin/dist-check/first -layout ../../bin/dist-check/image
	@git archive HEAD | tar -x -C bin/dist-check/second/tree
	@cd bin/dist-check/second/tree/deploy/dist && nice go run . $(DIST_FLAGS) -only "$(or $(ONLY),linux/amd64)" -out ../../../out -layout ../../../image
	@diff bin/dist-check/first/SHA256SUMS bin/dist-check/second/out/SHA256SUMS && echo "both builds are the same" && cat bin/dist-check/first/SHA256SUMS
	@rm -rf bin/dist-check

.PHONY: docs
docs: ## Make the documentation as a site with a search, which needs no network (bin/site/index.html)
	@cd docs/site && go run . -out ../../bin/site

# They are committed, so that the gateway builds without what renders them.
.PHONY: pictures
pictures: build ## Make the pictures of the README: terminals in which the commands of docs/images/*.sh run, and a chart of docs/performance.md
	@cd docs/site && go run . -pictures ../../$(BINARY)

.PHONY: docs-served
docs-served: ## Make the pages of the documentation that the gateway serves (docs/served)
	@cd docs/site && go run . -served -out ../served

# It is written as files (deploy/dist/image.go), so that it needs no container engine.
.PHONY: image
image: ## Build the container image of this machine's architecture, for docker load
	@$(MAKE) --no-print-directory dist ONLY=linux/$$(go env GOARCH) >/dev/null
	@echo "load it with: docker load --input bin/dist/$$(cd bin/dist && ls *_image_*.tar)"
	@echo "and name it to the compose files: PATCHBAY_IMAGE=ghcr.io/patchbay-ai/patchbay:$(VERSION:v%=%)"

HELM_VERSION := v3.22.0

.PHONY: helm-check
helm-check: ## Lint and render the Helm chart and try its upgrades, with helm, which is built where it is missing (minutes)
	@command -v helm >/dev/null || test -x bin/helm || GOBIN=$(CURDIR)/bin GOFLAGS= go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	@go test ./cmd/patchbay -count=1 -run 'Chart'
