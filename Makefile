# `make` alone tells what there is. Nothing here needs more than Go, but for
# what `make test` installs when it is missing and may (curl, a browser).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -X main.version=$(VERSION)
PKGS := ./...
FUZZTIME ?= 10s
BENCH ?= .
BENCHCOUNT ?= 5
CONFORMANCE ?= ../shared/conformance
TOOLS := $(GO) tool -modfile=.ci/tools.mod

.PHONY: help build run test vet lint lint-more vuln fuzz simulate bench bench-compare conformance test-wine dist dist-check web web-check screenshots clean test-needs

help: ## tell what there is
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/pushd, and the same binary as bin/pushctl
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/pushd ./cmd/pushd
	@ln -sf pushd bin/pushctl

run: build ## see an action delivered, lost, resent and acked; then serve on 127.0.0.1:8080
	@./bin/pushctl demo --once
	@exec ./bin/pushd serve

test: test-needs ## run all tests, race detector on
	$(GO) test -race -timeout 15m $(PKGS)

# Real clients are part of the tests: curl, a browser and an agent in C#, and so are
# the proxies that people put in front. They are installed where that is allowed (RUNLEVEL
# keeps their services from starting); a test that lacks one says so and skips.
test-needs:
	@missing=""; \
	command -v curl >/dev/null || missing="$$missing curl"; \
	command -v nginx >/dev/null || missing="$$missing nginx-light"; \
	command -v haproxy >/dev/null || missing="$$missing haproxy"; \
	command -v dotnet >/dev/null || command -v mcs >/dev/null || missing="$$missing mono-mcs libmono-system-net-http4.0-cil libmono-system-runtime-serialization4.0-cil libmono-system-xml-linq4.0-cil"; \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || missing="$$missing chromium"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing$$missing for the tests"; \
		{ apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; } >/dev/null 2>&1 \
			|| echo "could not install$$missing; their tests will skip"; \
	fi
	@if command -v npm >/dev/null && [ ! web/node_modules/.package-lock.json -nt web/package-lock.json ]; then \
		(cd web && npm ci --ignore-scripts --no-audit --no-fund >/dev/null 2>&1) \
			|| echo "no node_modules for web; that web/dist is built from web/src is not tested"; \
	fi

vet: ## vet and gofmt find nothing
	$(GO) vet $(PKGS)
	@unformatted="$$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l)"; \
	[ -z "$$unformatted" ] || { echo "not formatted:"; echo "$$unformatted"; exit 1; }
	@echo "vet and gofmt: nothing found"

lint: vet ## the same, and go fix has nothing to modernise
	@fixes="$$($(GO) fix -diff $(PKGS) 2>&1 || true)"; \
	[ -z "$$fixes" ] || { echo "go fix has something to say:"; echo "$$fixes"; exit 1; }
	@echo "go fix: nothing found"

lint-more: lint ## the same with gofumpt and staticcheck
	@unformatted="$$(git ls-files -co --exclude-standard '*.go' | xargs -r $(TOOLS) gofumpt -l)"; \
	[ -z "$$unformatted" ] || { echo "gofumpt would change:"; echo "$$unformatted"; exit 1; }
	$(TOOLS) staticcheck $(PKGS)

vuln: ## known vulnerabilities in what is called, where their database answers
	@out="$$($(TOOLS) govulncheck $(PKGS) 2>&1)" && { echo "$$out"; exit 0; }; \
	case "$$out" in \
	*"fetching vulnerabilities"*) echo "the database does not answer; nothing was checked" ;; \
	*) echo "$$out"; exit 1 ;; \
	esac

fuzz: ## run every fuzz target for FUZZTIME each
	@for pkg in $$($(GO) list $(PKGS)); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "fuzz: $$pkg $$target for $(FUZZTIME)"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

simulate: ## 5000 histories of the store, other ones each time, against the model
	$(GO) test -count=1 -timeout 60m -run 'TestSimulation$$' ./ackstore/boltstore -rapid.seed=$$RANDOM$$RANDOM -rapid.checks=5000

bench: build ## measure this machine: cycles, latency, commits, memory per stream
	@./bin/pushctl bench

test-wine: ## the tests for Windows and a session of the agent, under wine where it is
	@GO="$(GO)" .ci/test-wine

dist: ## build what a release hands out into dist/: archives, packages, checksums, SBOM
	@GO="$(GO)" VERSION="$(VERSION)" .ci/dist dist

dist-check: ## hold that to be the same bytes twice
	@GO="$(GO)" VERSION="$(VERSION)" .ci/dist-check

bench-compare: ## Go benchmarks of this tree against those of REF, interleaved
	@[ -n "$(REF)" ] || { echo "say which: make bench-compare REF=main"; exit 2; }
	@GO="$(GO)" BENCH='$(BENCH)' COUNT=$(BENCHCOUNT) .ci/bench-compare '$(REF)'

conformance: build ## run the protocol's conformance suite against bin/pushd
	$(CONFORMANCE)/run ./bin/pushd

web: ## build web/dist from web/src (needs Node); the bytes are committed
	cd web && npm ci --ignore-scripts --no-audit --no-fund && npx tsc --noEmit && node build.mjs

web-check: web ## hold that web/dist is what web/src makes
	git diff --exit-code -- web/dist

screenshots: ## every page of the dashboard, both themes and a telephone, into web/screenshots
	PUSHD_SCREENSHOTS="$$PWD/web/screenshots" $(GO) test -count=1 -run TestScreenshots ./web

clean: ## remove what was built
	rm -rf bin dist
	$(GO) clean -testcache
