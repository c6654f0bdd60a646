# `make` alone prints the targets. Tests and benchmarks run on a MariaDB, a
# PostgreSQL and a RabbitMQ of our own: see deploy/services.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# packages to test, and more flags for go test: make test PKGS=./ring/... TESTFLAGS='-run Claim -v'. The packages that take longest begin first.
PKGS      ?= ./cmd/clockd ./ring/... ./store/... ./...
TESTFLAGS ?=
# where make test writes go test's JSON events, when set
TESTJSON  ?=
# flags of gotestsum that repeat failed tests; only .ci/run sets them
RERUN     ?=
# make stress RUN='^TestClaim' COUNT=50: which tests, and how often
RUN       ?= .
# make stress MODULE=client/amqp PKGS=.
MODULE    ?= .
# how long each fuzz target runs: inputs, not seconds, at whose end go test before 1.27
# may fail without an input to show for it (go.dev/issue/75804)
FUZZTIME  ?= 200000x
# make fuzz FUZZPLAIN=1: inputs by chance alone, not by what they reach. So each target is compiled like the program, which takes a third of the time
FUZZPLAIN ?=
# make bench BENCH=Heap COUNT=10; BASE=old.txt compares with an earlier bench.txt
BENCH     ?= .
COUNT     ?= 6
BASE      ?=
# when a package's tests are given up: a guard against a hang, wide enough for a machine that others use
TESTTIME  ?= 60m
# how many packages are tested at once, and how many tests of each: more than there are cores, because most tests wait
PACKAGES  ?= 3
PARALLEL  ?= 5
# how long a soak test may take
SOAKTIME  ?= 60m

# The race detector watches all code but SQLite, which is C translated to Go. There it
# finds no race of clockd's code, and made the tests nine times slower. A module that
# uses sync.Map must be watched: the linker may take its copy of the generic map.
RACE      := -race -gcflags='modernc.org/...=-race=false'
# go test would vet each package first. make vet does more of it.
NOVET     := -vet=off
# Without this option a program with the race detector sleeps for a second at its end.
export GORACE ?= atexit_sleep_ms=0
# The garbage collector took an eighth of the tests' processor time.
test test-client test-clockbench vet lint fuzz: export GOGC ?= 400

# What the compiler makes of a package depends on these settings. With the same ones, bin/, vet
# and the linters share it.
PLAIN     := GOFLAGS='$(strip $(GOFLAGS) -trimpath)' CGO_ENABLED=0
# The generators and linters are pinned in a module of their own, so that their
# dependencies do not become the service's.
TOOL      := $(PLAIN) go tool -modfile='$(CURDIR)/tools/go.mod'
# buf needs other versions of some modules than the generators that it runs.
BUF       := $(PLAIN) go tool -modfile=tools/buf/go.mod buf
GOTESTSUM := go tool -modfile='$(CURDIR)/tools/go.mod' gotestsum
WITH      := '$(CURDIR)'/deploy/services with --
SCRIPTS   := deploy/package/postinstall.sh deploy/package/preremove.sh deploy/package/check deploy/services deploy/roots \
  deploy/matrix deploy/citus tools/stress tools/typescript/roundtrip tools/clients/check tools/contract/check tools/examples/check tools/release \
  tools/console/check .ci/run

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: build ## build and run clockd on the embedded SQLite, with nothing else installed
	bin/clockd serve

.PHONY: build
build: ## build bin/clockd and bin/clockbench, static binaries
	$(PLAIN) go build -o bin/ ./cmd/clockd
	$(PLAIN) go build -C cmd/clockbench -o '$(CURDIR)/bin/' .

# the release that packages get, and the program that makes them
VERSION   ?= 0.1.0-dev
NFPM      := go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2

.PHONY: package
package: ## bin/: deb, rpm and SHA256SUMS of VERSION, for this machine's architecture
	$(PLAIN) go build -ldflags='-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/clockd
	for packager in deb rpm; do \
	  VERSION='$(VERSION)' ARCH="$$(go env GOARCH)" $(NFPM) package --config deploy/package/nfpm.yaml --packager "$$packager" --target bin/; \
	done
	cd bin && sha256sum clockd clockd[_-]*.deb clockd[_-]*.rpm >SHA256SUMS

.PHONY: test-package
test-package: package ## install the deb into a clean Debian and start the service's program as its unit would; needs root and debootstrap
	deploy/package/check

.PHONY: test
test: ## all tests with the race detector, on the real databases and broker
	$(WITH) $(GOTESTSUM) --format pkgname $(RERUN) $(if $(TESTJSON),--jsonfile '$(TESTJSON)') --packages='$(PKGS)' \
	  -- $(RACE) $(NOVET) -shuffle=on -count=1 -timeout=$(TESTTIME) -p=$(PACKAGES) -parallel=$(PARALLEL) $(TESTFLAGS)

.PHONY: stress
stress: COUNT = 50
stress: ## the tests that match RUN of the packages PKGS of the module in the folder MODULE, COUNT times, half of them beside busy loops on all cores
	$(WITH) tools/stress '$(MODULE)' '$(COUNT)' '$(value RUN)' '$(PKGS)' $(RACE) $(TESTFLAGS)

# go test would not notice a change of the files that these tests read outside of their module.
.PHONY: test-tools
test-tools: ## in the module of the tools: the SQL of store/mysql with TiDB's parser, and that openapi-3.0.yaml is up to date
	$(PLAIN) go -C tools vet ./...
	$(PLAIN) go -C tools test -count=1 ./...

.PHONY: test-typescript
test-typescript: build ## a TypeScript client, generated from openapi-3.0.yaml, against a clockd on SQLite; needs node and npm
	tools/typescript/roundtrip

.PHONY: test-clients
test-clients: build ## the clients in clients/ with a clockd on SQLite whose connections are cut, and the Go client with its oldest Go; needs python3, node with npm, and a JDK with Maven
	tools/clients/check

.PHONY: test-contract
test-contract: build ## schemathesis makes the requests that /openapi.yaml allows, and others, to a clockd on SQLite; needs python3
	tools/contract/check

.PHONY: test-examples
test-examples: build ## the programs of examples/ with a clockd on SQLite and RabbitMQ; needs python3, node with npm, and a JDK
	deploy/services with rabbitmq -- tools/examples/check

# call: the folder of a module, and the file for the JSON events
MODULE_TEST = cd $(1) && $(WITH) $(GOTESTSUM) --format pkgname $(RERUN) \
  $(if $(2),--jsonfile '$(2)') --packages=./... \
  -- $(RACE) $(NOVET) -shuffle=on -count=1 -timeout=$(TESTTIME) $(TESTFLAGS)

.PHONY: test-client
test-client: export CLOCKD_TEST_PROGRAM = $(CURDIR)/bin/clockd
test-client: build ## the client for Go and its consumer for RabbitMQ, modules of their own, with a clockd on SQLite
	$(call MODULE_TEST,client,$(TESTJSON))
	$(call MODULE_TEST,client/amqp,$(TESTJSON:.json=-amqp.json))

.PHONY: test-clockbench
test-clockbench: ## the measurements, a module of their own: each stage in small, on the real databases and broker
	$(call MODULE_TEST,cmd/clockbench,$(TESTJSON))

# A fake cluster does for make test: Kafka needs a JRE and Maven Central.
.PHONY: test-kafka
test-kafka: ## on Apache Kafka: the tests of ring/kafka, the flows, and faults of a cluster (build tag kafka); needs Java 17, as root it is installed where missing
	deploy/services with kafka -- $(GOTESTSUM) --format pkgname $(RERUN) $(if $(TESTJSON),--jsonfile '$(TESTJSON)') --packages=./ring/kafka/... \
	  -- $(RACE) $(NOVET) -tags=kafka -shuffle=on -count=1 -timeout=$(TESTTIME) $(TESTFLAGS)
	deploy/services with kafka postgresql -- $(GOTESTSUM) --format pkgname $(RERUN) $(if $(TESTJSON),--jsonfile '$(TESTJSON:.json=-flows.json)') --packages=./cmd/clockd \
	  -- $(RACE) $(NOVET) -tags=kafka -run=Kafka -shuffle=on -count=1 -timeout=$(TESTTIME) $(TESTFLAGS)
	cd cmd/clockbench && '$(CURDIR)'/deploy/services with kafka -- $(GOTESTSUM) --format pkgname $(RERUN) $(if $(TESTJSON),--jsonfile '$(TESTJSON:.json=-bench.json)') --packages=./internal/bench \
	  -- $(RACE) $(NOVET) -tags=kafka -run=Kafka -count=1 -timeout=$(TESTTIME) $(TESTFLAGS)

.PHONY: test-flows
test-flows: ## the tests of cmd/clockd on all databases and with all targets, every process with the race detector
	CLOCKD_TEST_FLOWS=all $(WITH) $(GOTESTSUM) --format testname --packages=./cmd/clockd \
	  -- $(RACE) -count=1 -timeout=$(TESTTIME) -parallel=$(PARALLEL) $(TESTFLAGS)

.PHONY: soak
soak: ## the slow suites (build tag soak, TestSoak...), SOAKTIME at most
	$(WITH) $(GOTESTSUM) --format testname \
	  -- -tags=soak -run='^TestSoak' -count=1 -timeout=$(SOAKTIME) $(TESTFLAGS) $(PKGS)
	$(if $(filter file,$(origin PKGS)),$(MAKE) test-clockbench TESTTIME=$(SOAKTIME) TESTFLAGS="-tags=soak -run='^TestSoak' $(TESTFLAGS)")

.PHONY: test-matrix
test-matrix: ## stores, ring/rabbit and end to end on other versions of the servers, which deploy/roots fetches
	@TESTTIME=$(TESTTIME) deploy/matrix all $(TESTFLAGS)

# The flows of cmd/clockd that every database has.
CITUS_FLOWS := ^Test(CitusStore|CancelledAlarmsDoNotRing|KillInMidHerd|GracefulStopInMidHerd|UnroutableAlarmsRing|AlarmExpires|AtMostOnce|NodesShare|KilledNode|LeavingNode|StoppedNode|AlarmSetOnOneNode|SubscribersGetRings|AnswersOverHTTP|HigherPriority|Citus)

.PHONY: test-citus
test-citus: ## stores and end to end on Citus (build tag citus): a coordinator and two workers; CLOCKD_CITUS_FILES has its files, see deploy/citus help
	deploy/citus start 2
	export CLOCKD_TEST_CITUS_URL="$$(eval "$$(deploy/citus env)"; echo "$$CLOCKD_CITUS_URL")"; \
	$(WITH) $(GOTESTSUM) --format testname \
	  -- -tags=citus -run='$(CITUS_FLOWS)' -p=1 -count=1 -timeout=$(TESTTIME) $(TESTFLAGS) ./store/postgresql ./cmd/clockd

.PHONY: test-browser
test-browser: ## what web pages can do to clockd, with Chromium (build tag browser); as root it is installed where missing
	@command -v chromium >/dev/null || { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends chromium; } >/dev/null
	$(PLAIN) $(GOTESTSUM) --format testname $(RERUN) $(if $(TESTJSON),--jsonfile '$(TESTJSON)') --packages=./cmd/clockd \
	  -- -tags=browser -run='^TestBrowser' -count=1

.PHONY: test-console
test-console: build ## the console in Chromium against a clockd on SQLite; needs chromium, node and npm; SHOTS=FOLDER keeps screenshots, CROWD=1000000 sets a million alarms first
	CROWD=$(CROWD) tools/console/check $(SHOTS)

# promtool is taken out of Debian's package, which is not installed, because the package would start a Prometheus.
.PHONY: test-rules
test-rules: ## the alert rules of deploy/observability with promtool; Debian's is fetched where there is none
	@mkdir -p bin; promtool=$$(command -v promtool || echo bin/promtool); \
	if [[ $$promtool == bin/promtool && ! -x bin/promtool ]]; then \
	  fetched=$$(mktemp -d); trap 'rm -rf "$$fetched"' EXIT; \
	  (cd "$$fetched" && { apt-get -q download prometheus || { apt-get -q update && apt-get -q download prometheus; }; } && dpkg -x prometheus_*.deb .) >/dev/null 2>&1 \
	    || { echo 'promtool: neither installed nor to be had, not run'; exit 3; }; \
	  cp "$$fetched/usr/bin/promtool" bin/promtool; \
	fi; \
	"$$promtool" check rules deploy/observability/alerts.yaml && "$$promtool" test rules deploy/observability/alerts_test.yaml

# Only packages with a fuzz target are compiled, each once. One target runs at a
# time, as go test demands, in the package's folder, where its seeds are.
.PHONY: fuzz
fuzz: export CLOCKD_TEST_PROGRAM = $(CURDIR)/bin/clockd
fuzz: build ## every fuzz target for FUZZTIME
	@built=$$(mktemp -d); trap 'rm -rf "$$built"' EXIT; \
	for dir in $(shell grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u); do \
	  (cd "$$dir" && $(if $(FUZZPLAIN),$(PLAIN) go test,go test -fuzz=.) -c $(NOVET) -ldflags='-s -w' -o "$$built/test" .); \
	  targets=$$("$$built/test" -test.list '^Fuzz'); \
	  for target in $$targets; do \
	    echo "fuzz $$dir $$target $(FUZZTIME)"; \
	    (cd "$$dir" && "$$built/test" -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime $(FUZZTIME) \
	      -test.fuzzminimizetime 10x -test.fuzzcachedir "$$(go env GOCACHE)/fuzz/clockd/$$dir"); \
	  done; \
	done

.PHONY: bench
bench: ## benchmarks matching BENCH, into bench.txt; with BASE=FILE compared
	$(WITH) go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKGS) | tee bench.txt
	$(TOOL) benchstat $(BASE) bench.txt

# What the compiler is to optimize for: sets, cancels and herds on both servers.
.PHONY: pgo
pgo: build ## cmd/clockd/default.pgo anew, from the work of clockbench
	@rm -rf bin/pgo && mkdir -p bin/pgo
	$(WITH) bash -c 'for url in "$$CLOCKD_TEST_MYSQL_URL" "$$CLOCKD_TEST_POSTGRES_URL"; do \
	  CLOCKD_CPU_PROFILE=bin/pgo bin/clockbench --database-url "$$url" --amqp-url "$$CLOCKD_TEST_AMQP_URL" \
	    --only sets,singles,herd --rounds 2; done'
	go tool pprof -proto bin/pgo/*.pprof >cmd/clockd/default.pgo

.PHONY: cover
cover: ## tests with coverage over all packages, into coverage.out
	$(WITH) go test -count=1 -coverpkg=./... -coverprofile=coverage.out $(PKGS)
	go tool cover -func=coverage.out | tail -n 1

.PHONY: up
up: build ## build clockd, start the databases and the broker, and tell how to run clockd on them
	@deploy/services up
	@eval "$$(deploy/services env)"; \
	echo "MariaDB and RabbitMQ:"; \
	echo "  CLOCKD_DATABASE_URL='$$CLOCKD_TEST_MYSQL_URL' CLOCKD_AMQP_URL='$$CLOCKD_TEST_AMQP_URL' bin/clockd serve"; \
	echo "PostgreSQL and RabbitMQ:"; \
	echo "  CLOCKD_DATABASE_URL='$$CLOCKD_TEST_POSTGRES_URL' CLOCKD_AMQP_URL='$$CLOCKD_TEST_AMQP_URL' bin/clockd serve"

.PHONY: down
down: ## stop them; their data stays
	@deploy/services down

.PHONY: generate
generate: ## generate the query code from queries/ and schema/, the gRPC code from clockd.proto, and openapi-3.0.yaml
	$(TOOL) sqlc generate
	$(BUF) generate
	$(PLAIN) go -C tools run ./openapi30 ../clock/clockhttp/openapi.yaml ../clock/clockhttp/openapi-3.0.yaml

.PHONY: sqlc-diff
sqlc-diff: ## fail when the generated query code is not up to date
	$(TOOL) sqlc diff

.PHONY: buf-diff
buf-diff: ## fail when the generated gRPC code is not up to date
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(BUF) generate --output "$$fresh"; \
	for file in $$(cd "$$fresh" && find . -name '*.go') $$(git ls-files 'clock/clockgrpc/*.pb.go' 'clock/clockgrpc/*.connect.go'); do \
	  diff -u "$$file" "$$fresh/$$file" || { echo 'not up to date: make generate'; exit 1; }; \
	done

.PHONY: lint
lint: ## golangci-lint, buf lint, and shellcheck where there is one
	$(BUF) lint
	$(TOOL) golangci-lint run --allow-parallel-runners
	for module in client client/amqp cmd/clockbench; do \
	  (cd $$module && $(TOOL) golangci-lint run --allow-parallel-runners); \
	done
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS); else echo 'shellcheck: not installed, not run'; fi

.PHONY: vet
vet: ## go vet, the slow suites included
	$(PLAIN) go vet -tags=soak,browser,citus,kafka ./...
	$(PLAIN) go -C client vet ./...
	$(PLAIN) go -C client/amqp vet ./...
	$(PLAIN) go -C cmd/clockbench vet -tags=soak,kafka ./...
	$(PLAIN) go -C examples/go vet ./...

.PHONY: fmt
fmt: ## format the Go code
	$(TOOL) golangci-lint fmt

.PHONY: fmt-check
fmt-check: ## fail when gofmt would change a file
	@files=$$(git ls-files --cached --others --exclude-standard '*.go' | xargs -r gofmt -l); \
	if [[ -n $$files ]]; then printf 'not formatted:\n%s\n' "$$files"; exit 1; fi

.PHONY: vuln
vuln: ## govulncheck: known vulnerabilities in what is called
	$(TOOL) govulncheck ./...
	cd client/amqp && $(TOOL) govulncheck ./...

.PHONY: clean
clean: ## stop the services, remove their data and all that was built
	deploy/services down --purge
	rm -rf bin coverage.out bench.txt
