# make demo   sees it work on a machine with nothing but Go and make;  make test   checks everything.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build test test-short torture-long lint fmt demo lab lab-down bench bench-memcached bench-handlersocket bench-writes bench-seed-memcached bench-seed-handlersocket servers clean clean-servers

GO ?= go
ARGS ?=
PROFILE ?=
COMPOSE = $(shell if docker compose version >/dev/null 2>&1; then echo docker compose; else echo docker-compose; fi)

help: ## list what can be made
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-32s %s\n", $$1, $$2 }'

build: ## the static binary bin/binlogcache
	@scripts/install-deps.sh build
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/binlogcache ./cmd/binlogcache

demo: build ## a private MariaDB with sample data, and a guided tour; ARGS="--once --rows 1000000 --flavor mysql"
	@exec bin/binlogcache demo $(ARGS)

test: ## everything: set-up, format, vet, staticcheck, all tests on real servers
	@scripts/test.sh

test-short: ## what needs no long wait; servers stay up for the next run
	$(GO) test -short ./...

torture-long: ## 1,000 faults of each kind under load, on both flavours: an hour; CYCLES=200 for fewer
	BINLOGCACHE_TORTURE_CYCLES=$(or $(CYCLES),1000) $(GO) test -count=1 -timeout 6h -v -run '^(TestEveryByte|TestCycles)$$' ./canal ./tests

lint: ## gofumpt, vet and staticcheck
	@scripts/lint.sh

fmt: ## format all Go files
	$(GO) tool -modfile=tools/go.mod gofumpt -l -w .

bench: ## micro-benchmarks of the parts
	$(GO) test -run '^$$' -bench . -benchmem ./...

# The comparisons start what they need and end it. Their settings are variables, which benchmarks/lib.sh and the scripts list.
bench-memcached: ## get and set beside memcached; BENCH_ROUNDS=1 BENCH_SECONDS=1 for a short look
	@benchmarks/memcached.sh

bench-handlersocket: ## reads beside the HandlerSocket plugin and prepared SELECTs; the same variables
	@benchmarks/handlersocket.sh

bench-writes: ## durable writes over HandlerSocket beside SQL; the same variables
	@benchmarks/writes.sh

bench-seed-memcached: ## memcslap with 4 to 256 threads, table and plots; SEED_RUNS=1 SEED_SETS=100 for a short look
	@benchmarks/seed-memcached.sh

bench-seed-handlersocket: ## 50 to 150 clients on a million users, SQL beside HandlerSocket; SEED_REQUESTS=200 for a short look
	@benchmarks/seed-handlersocket.sh

servers: ## download and prepare the test servers, so that later runs need no network
	@scripts/server-up.sh mariadb --prepare
	@scripts/server-up.sh mysql --prepare

clean-servers: ## stop the test servers and remove their data; the downloads stay
	@scripts/server-down.sh --all

lab: ## MySQL, binlogcache and memcached in containers; PROFILE=mariadb for MariaDB
	$(COMPOSE) $(if $(PROFILE),--profile $(PROFILE)) up --build --detach
	@echo "HandlerSocket on 127.0.0.1:9998, memcached protocol on 127.0.0.1:11211, dashboard on http://127.0.0.1:8911/"
	@echo "plain memcached on 127.0.0.1:11311; make lab-down ends it"

lab-down: ## stop the containers and remove their data
	$(COMPOSE) --profile mariadb down --volumes --remove-orphans

clean: clean-servers ## remove what was built
	rm -rf bin dist
