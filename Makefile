# Byssus: everything that is done to the source tree. `make help` lists the targets.

BUILD  := $(CURDIR)/build
PREFIX ?= /usr/local
GO     ?= go
export CGO_ENABLED := 0

# Debian packages beyond Go, gcc and make: both MPIs, the unmodified programs that the tests and the demo run, and an
# emulator for the tests of package pup on a big-endian machine.
PACKAGES := g++ mpich libmpich-dev openmpi-bin libopenmpi-dev lammps python3-mpi4py \
	quantum-espresso quantum-espresso-data elk-lapw qemu-user
SUDO     := $(if $(filter 0,$(shell id -u)),,sudo)

# SCR's commands, by whose names byssus can be called.
SCR      := scr_halt scr_index scr_list_down_nodes scr_postrun scr_prerun scr_print scr_run scr_should_exit

.PHONY: help deps build demo demo-nodes demo-memory test test-long toolchains soak bench lint generate install clean
.DEFAULT_GOAL := help

help:            ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

deps:            ## install the Debian packages that are missing (root or sudo)
	@missing=; for p in $(PACKAGES); do \
		dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q '^install ok installed$$' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then echo "installing$$missing"; \
		$(SUDO) apt-get -qq update && \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $$missing >/dev/null; fi

build:           ## compile the command, the rank side and libscr into build/
	@$(MAKE) --no-print-directory -s -j$(shell nproc) -C rank BUILD=$(BUILD)
	@$(MAKE) --no-print-directory -s -j$(shell nproc) -C client BUILD=$(BUILD)
	@$(GO) build -trimpath -o $(BUILD)/bin/ ./cmd/byssus ./cmd/pupgen ./cmd/pupvet ./cmd/amtvet
	@for n in $(SCR); do ln -sf byssus $(BUILD)/bin/$$n; done

demo: deps build ## LAMMPS is checkpointed, killed and restarted under the other MPI
	@$(GO) run ./bench/demo -byssus $(BUILD)/bin/byssus

demo-nodes: deps build ## LAMMPS on four nodes and a spare, made of namespaces, outlives the silence of one
	@$(GO) run ./bench/demo -byssus $(BUILD)/bin/byssus -nodes -time 20s

demo-memory: deps build ## waves in three dimensions, with snapshots of their memory, outlive the silence of a node; in C and in Go
	@$(GO) run ./bench/demo -byssus $(BUILD)/bin/byssus -memory

test: deps build ## every test, and where the time went; the budgets are for 25 minutes
	@$(GO) run ./test/suite

test-long: deps build ## random checkpoint, kill, restart cycles over the whole matrix (hours)
	BYSSUS_TEST_LONG=1 $(GO) test -p 1 -timeout 24h -v ./internal/decide/coord ./test/...

soak: deps build ## random programs of tasks with known results, half an hour over all transports
	$(GO) test -count=1 -timeout 60m -v ./test/amt -run TestRandomPrograms -seed $$(date +%s) -lasting 30m

toolchains:      ## tests of package pup with other Go releases: TOOLCHAINS='go1.27.4 go1.28.0'
	@for t in $${TOOLCHAINS:?names the Go releases}; do GOTOOLCHAIN=$$t $(GO) version && GOTOOLCHAIN=$$t $(GO) test -count=1 -timeout 10m \
		-run 'Golden|RoundTrip|Graph|Assumptions|PointerShaped|Promoted|TestFootprint|TestCheck|Short' ./pup || exit 1; done

bench: deps build ## ratios to the native library, to plain writes and reads; pup beside gob, json, protobuf, msgpack, cbor, msgp
	@$(GO) run ./bench -byssus $(BUILD)/bin/byssus
	@$(GO) -C bench/pup run .

lint:            ## the checks of source text alone: formatting, vet, staticcheck, imports, C warnings
	$(GO) test -count=1 ./internal/tools/house

generate:        ## write the generated code anew from its sources
	$(GO) generate ./...
	$(GO) -C bench/pup generate ./...

install: build   ## copy the build below PREFIX (default /usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/share/man/man1
	install $(BUILD)/bin/byssus $(BUILD)/bin/pupgen $(BUILD)/bin/pupvet $(BUILD)/bin/amtvet $(DESTDIR)$(PREFIX)/bin/
	for n in $(SCR); do ln -sf byssus $(DESTDIR)$(PREFIX)/bin/$$n; done
	cp -R $(BUILD)/lib/byssus $(DESTDIR)$(PREFIX)/lib/
	install -m 644 docs/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/

clean:           ## remove what was built
	rm -rf $(BUILD)
