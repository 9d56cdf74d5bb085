# Bare `make` prints this list of targets.

FUZZTIME = 20s
# What make lint builds and vets for, beside the machine it runs on: 32 bits, another architecture, no epoll.
PLATFORMS = linux/386 linux/arm64 darwin/arm64
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help run build test soak newest lint bench fuzz clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' Makefile

run: build ## start the server, with options as in ARGS="--port 7000"
	@exec bin/cellserver $(ARGS)

build: ## build bin/cellserver
	go build -trimpath -o bin/cellserver ./cmd/cellserver

test: ## install what the tests need where that is possible, and run them all
	@deps=$$(./scripts/test-deps) && eval "$$deps" && \
		go test $$CELLSERVER_TEST_RACE -shuffle=on -timeout 10m ./... && \
		go test -run=DoesNotAllocate ./resp && \
		cd bench && go test $$CELLSERVER_TEST_RACE -shuffle=on -timeout 5m ./...

soak: build ## the long versions of the tests: an hour or so
	./scripts/soak

newest: ## report scripts of the newest libraries that are not known: asks npm, the Go module proxy and Debian
	@deps=$$(./scripts/test-deps) && eval "$$deps" && ./scripts/newest

lint: ## check the formatting, go vet, golangci-lint
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	for platform in $(PLATFORMS); do \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} go vet ./... || exit 1; done
	go run $(GOLANGCI_LINT) run
	cd bench && go vet ./... && go run $(GOLANGCI_LINT) run

bench: ## install what it needs, and measure against Redis and in process; forty minutes (ARGS=--quick: five)
	@deps=$$(./scripts/test-deps) && eval "$$deps"
	cd bench && go run . compare $(ARGS) && go run . memory $(ARGS) && go run . disk $(ARGS) && \
		go run . cluster $(ARGS)
	go test -run='^$$' -bench=. -benchmem ./buckets/... ./resp ./persistence

fuzz: ## fuzz each target for FUZZTIME
	./scripts/fuzz $(FUZZTIME)

clean: ## remove what was built
	rm -rf bin
