# The front door. Every recipe is a few plain commands; see CONTRIBUTING.md.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := install
# Recipes share cargo's folder and build/, which they would fight over. What `make test` builds side by side
# does not.
ifndef SIDE_BY_SIDE
.NOTPARALLEL:
endif

# Tools that scripts/setup.sh could not get from the system.
export PATH := $(CURDIR)/build/tools/bin:$(PATH):$(HOME)/.cargo/bin

BUILD := build/release
# `make TARGET SMALL=yes` runs a target in a few seconds, if `make test` has run: with the smallest sizes and one round, in
# folders of its own, and nothing is installed. scripts/targets.sh runs all targets so.
ifdef SMALL
export UMBO_SETUP := no
# INSTALLED=yes: the library is in that prefix already, and what needs it does not install it again.
PREFIX := build/small/prefix
WORK := build/small
DOCUMENTS := build/small/docs
# As make test configures it, so that nothing is built again.
WITHOUT_TESTS :=
EPOCHS := 1
ROUNDS := 1
RUNS := 100
CALLS := 1000
COUNT := 0
MINUTES := 0
DATA = --data c_examples/data/digits
export PEER_ELEMENTS := 65536
export UMBO_FAULTS_ONLY := 1
else
PREFIX := build/prefix
# Where examples are built, and what they write.
WORK := build
# Where what is measured is written into documents.
DOCUMENTS := docs
WITHOUT_TESTS := -DUMBO_BUILD_TESTS=OFF -DUMBO_BUILD_EXAMPLES=OFF
# The small set, where the package of the large one could not be had.
DATA = $$([ -e /usr/share/datasets/fashion-mnist ] || echo --data c_examples/data/digits)
endif
ROUNDS ?= 7
EPOCHS ?= 10
# What scripts/setup.sh mpi installs.
MPI ?= $(CURDIR)/build/mpi/mpich
SEED ?= 1
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

# A folder that is named from here, or in full.
in_full = $(if $(filter /%,$(1)),$(1),$(CURDIR)/$(1))

# Tests in Rust and in C use one build of the library, in cargo's folder. It is one if the crates that it needs have the
# features that tests want of them, too.
one_build := "-DUMBO_CARGO_TARGET_DIR=$(CURDIR)/target" -DUMBO_CARGO_FEATURES_OF=umbo-tests
# A build tree keeps the generator it was made with. CMake starts rustc, which would look for make's jobs in vain.
configure = MAKEFLAGS= cmake -S $(2) -B $(1) -DCMAKE_BUILD_TYPE=Release $(if $(filter .,$(2)),$(one_build)) \
  $$([ -e $(1)/CMakeCache.txt ] || ! command -v ninja >/dev/null || echo -G Ninja) $(3)
# Rust's tests as `make test` has them, so that nothing is built anew: over the release library, with the features of
# all packages; and Clippy looks at what is compiled.
cargo_test := RUSTC_WRAPPER="$(CURDIR)/scripts/clippy.sh" cargo test --locked --release --workspace
# Builds the program of an example against the installed library.
example = $(call section,Build the examples against $(PREFIX)); \
  $(call configure,$(WORK)/c_examples,c_examples,"-DCMAKE_PREFIX_PATH=$(call in_full,$(PREFIX))"); \
  cmake --build $(WORK)/c_examples --parallel $(JOBS) $(if $(SMALL),--target $(1))
section = echo; echo "==== $(1)"

.PHONY: help setup install check demo demo-mpi docs movielens cases test build-rust test-rust test-mpi test-gpu test-card test-engines \
  test-torch-cuda test-aarch64 test-riscv64 test-windows test-musl test-wasm test-least check-macos one-sha test-conan test-loom test-protocol \
  simulate mutants faults test-c test-large test-all build-c matrix storm fuzz fuzz-parsers fuzz-oss asan tsan miri flaky bench \
  bench-peers bench-check bench-loops bench-engines adoption pictures judges dist sbom wheel clean

help: ## Show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

setup: ## Say which tools a build lacks; install them with UMBO_SETUP=yes
	@scripts/setup.sh build

ifeq ($(SMALL)$(INSTALLED),yesyes)
install:
else
install: setup ## Build the library and install it into build/prefix (the default)
	@$(call section,Build and install into $(PREFIX))
	@$(call configure,$(BUILD),.,$(WITHOUT_TESTS) -DUMBO_OLDEST_GLIBC=$(OLDEST_GLIBC))
	@cmake --build $(BUILD) --parallel $(JOBS)
	@cmake --install $(BUILD) --prefix "$(call in_full,$(PREFIX))" >/dev/null
	@echo "Umbo is in $(PREFIX). '$(PREFIX)/bin/umbo doctor' checks what training needs."
endif

demo: ## Train the Fashion-MNIST example against the installed library (EPOCHS=, SEED=)
	@scripts/setup.sh demo
	@$(MAKE) --no-print-directory install
	@$(call example,03_train_fashion_mnist)
	@$(call section,Train)
	@scripts/with_kernels.sh $(PREFIX)/bin/umbo \
	  $(WORK)/c_examples/03_train_fashion_mnist $(DATA) --epochs $(EPOCHS) --seed $(SEED) --compare \
	  --history $(WORK)/history.csv
	@$(PREFIX)/bin/umbo plot $(WORK)/history.csv

demo-mpi: ## Train the Fashion-MNIST example in one process and in two, over MPI (EPOCHS=, SEED=)
	@scripts/setup.sh demo
	@scripts/setup.sh mpi
	@$(MAKE) --no-print-directory install
	@$(call example,03_train_fashion_mnist)
	@$(call section,Train in one process)
	@scripts/with_kernels.sh $(PREFIX)/bin/umbo \
	  $(WORK)/c_examples/03_train_fashion_mnist $(DATA) --epochs $(EPOCHS) --seed $(SEED) --replicas 2
	@$(call section,Train in two processes)
	@LD_LIBRARY_PATH="$(MPI)/lib" scripts/with_kernels.sh $(PREFIX)/bin/umbo "$(MPI)/bin/mpiexec" -n 2 \
	  $(WORK)/c_examples/03_train_fashion_mnist $(DATA) --workers mpi --epochs $(EPOCHS) --seed $(SEED) --replicas 1

movielens: ## Learn MovieLens-100k with row-sparse gradients against the installed library (SEED=)
	@scripts/setup.sh movielens
	@$(MAKE) --no-print-directory install
	@$(call example,04_matrix_factorisation)
	@$(call section,Train)
	@$(WORK)/c_examples/04_matrix_factorisation --seed $(SEED) $(if $(SMALL),--epochs 1) \
	  $$([ ! -e build/movielens/ml-100k.inter ] || echo --data build/movielens/ml-100k.inter)

docs: ## Make the pages of reference and documents: build/docs/html/index.html
	@scripts/setup.sh docs
	@mkdir -p build/docs
	@doxygen docs/site/Doxyfile
	@docs/site/search.py build/docs/html
	@docs/site/check.py build/docs/html
	@echo "build/docs/html/index.html"

cases: ## Run the conformance cases (UMBO_CASES=files, separated by colons)
	@scripts/setup.sh build
	@$(if $(SMALL),UMBO_CASES=$(firstword $(wildcard tests/cases/data/*.json))) $(cargo_test) --quiet --test cases

# An engine of ranks uses nothing of another, and nothing above uses one: each alone, and none, are all that can differ.
features := "--package umbo --package umbo-tool" "--package umbo-comm --features mpi" "--package umbo-comm --features nccl"

check: ## Format, lints and unit tests: the quick part of `make test`
	@$(call section,Format and lints and unit tests)
	@scripts/format.sh
	@cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	@# Unit tests are no target that cargo chooses by itself (Cargo.toml).
	@cargo clippy --quiet --locked --workspace --lib --profile test -- -D warnings
	@for chosen in $(features); do cargo clippy --quiet --locked --no-default-features $$chosen -- -D warnings; done
	@cargo test --quiet --locked --workspace --lib

# Cargo builds the library and Rust's tests. Then these are run, and those in C are compiled and run, side by side: one kind
# alone leaves processors idle, where a test waits. What each command prints stays together.
# Where UMBO_NO_SKIPS is set, as in CI, a test that is skipped fails.
test: export UMBO_SKIPS := $(CURDIR)/build/skipped.txt
test: ## Run every check: format, lints, Rust tests, C and C++ tests, and each of these targets in a small form
	@scripts/setup.sh test
	@mkdir -p build; : >build/skipped.txt
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=line SIDE_BY_SIDE=yes mutants test-c
	@$(call section,Every target in a small form)
	@scripts/targets.sh small
	@if [ -s build/skipped.txt ]; then $(call section,Skipped); sort -u build/skipped.txt; \
	  echo "'scripts/setup.sh everything' installs what tests need; 'make test-all' runs all targets as they are."; fi
	@scripts/count_code.py | tail -n 1
	@$(call section,All checks passed)

test-all: export UMBO_SETUP ?= yes
test-all: ## Install all that can be had, and run every target but clean, setup and flaky as it is (hours)
	@scripts/setup.sh everything
	@scripts/targets.sh whole

build-rust:
	@$(call section,Format)
	@scripts/format.sh
	@$(call section,Build all of Rust with clippy)
	@$(cargo_test) --test '*' --bench '*' --no-run

ifdef SIDE_BY_SIDE
build-c: build-rust
endif
test-rust: build-rust
	@$(call section,cargo test)
	@# Make's pipe for jobs does not reach what tests start, which would warn that it is gone.
	@unset MAKEFLAGS; $(cargo_test) --test '*'
	@unset MAKEFLAGS; $(cargo_test) --lib --config tests/unit_tests.toml
	@unset MAKEFLAGS; $(cargo_test) --bins --config tests/tool_unit_tests.toml

test-mpi: ## Run the tests over ranks: of processes, and of MPI where it can be installed
	@scripts/setup.sh mpi
	@$(call section,Ranks)
	@$(call configure,$(BUILD),.,-DUMBO_BUILD_TESTS=ON)
	@cmake --build $(BUILD) --parallel $(JOBS)
	@cd $(BUILD) && ctest --output-on-failure -L '^(ranks|mpi)$$' $(if $(SMALL),-R '^(ranks.engine|mpi.restart)$$')

test-gpu: ## Run the tests of GPU code against the fake CUDA driver (needs no GPU)
	@$(call section,The fake CUDA driver)
	@$(cargo_test) --test mistakes
	@$(call section,GPU code on the fake CUDA driver)
	@$(cargo_test) $(if $(SMALL),--test cuda as_ptx::fills,--test gpu --test cuda --test cases)

test-card: $(if $(SMALL),,build-c) ## Run the tests of GPU code on this machine's GPU, which stands for as many as a test wants
	@$(if $(SMALL),,scripts/setup.sh torch-cuda)
	@$(call section,This machine's GPU)
	@SMALL=$(SMALL) scripts/card.sh $(BUILD)

test-loom: ## Run the models of how threads meet, with a preemption more than `make test` where they are long
	@$(call section,loom)
	@$(if $(SMALL),,MODELS=all) $(cargo_test) --test models $(if $(SMALL),a_notified_thread)

test-protocol: ## Explore the model of steps over replicas and ranks in its large sizes (5 GB of memory, some minutes)
	@$(call section,The model of steps)
ifdef SMALL
	@$(cargo_test) --test protocol every_property
else
	@MODELS=all $(cargo_test) --test protocol -- --nocapture
	@$(call section,Traces of steps)
	@rm -rf build/step_traces && mkdir -p build/step_traces
	@STEP_TRACES="$(CURDIR)/build/step_traces" cargo test --locked --quiet --test strategy --test together
	@STEP_TRACES="$(CURDIR)/build/step_traces" $(cargo_test) --test protocol traces -- --nocapture
endif

simulate: ## Simulate steps of up to 1,000 ranks in virtual time, and compare them with docs/scale.py (8 GB of memory, some minutes; SEED=)
	@$(call section,Ranks in virtual time)
	@cargo build --locked --quiet --release --workspace --bin simulation
	@scripts/simulate.py --tool "$(or $(CARGO_TARGET_DIR),target)/release/simulation" --seed $(SEED) $(if $(SMALL),--small)

ifdef SIDE_BY_SIDE
mutants: test-rust
endif
mutants: ## Put known mistakes into a copy of the library and demand that tests catch them
	@$(call section,mutants)
	@scripts/mutants.sh

test-c: build-c
	@$(call section,ctest)
	@cd $(BUILD) && ctest --output-on-failure --parallel $(JOBS)

test-engines: ## Install LibTorch, ggml and dlib, and train with them (docs/engines.md)
	@scripts/setup.sh engines
	@$(call configure,$(BUILD),.,-DUMBO_BUILD_TESTS=ON -DUMBO_BUILD_EXAMPLES=ON)
	@cmake --build $(BUILD) --parallel $(JOBS)
	@$(call section,Engines)
	@cd $(BUILD) && ctest --output-on-failure --label-regex "^engines$$" $(if $(SMALL),-R ggml)

test-torch-cuda: ## Compile the LibTorch adapter against a LibTorch with CUDA, and run what runs without a GPU
	@scripts/setup.sh torch-cuda
	@$(call configure,$(BUILD),.,-DUMBO_BUILD_TESTS=ON -DUMBO_BUILD_EXAMPLES=ON)
	@$(call section,LibTorch with CUDA)
	@scripts/torch_cuda.sh $(BUILD)

test-aarch64: ## Build for AArch64 and run tests of that under qemu (needs a cross compiler and qemu-user)
	@scripts/setup.sh aarch64
	@scripts/cross.sh aarch64

test-riscv64: ## The same for RISC-V
	@scripts/setup.sh riscv64
	@scripts/cross.sh riscv64

test-windows: ## Build for Windows with MinGW and run tests of that under wine
	@scripts/setup.sh windows
	@scripts/windows.sh $(if $(SMALL),small)

test-musl: ## Build for musl and run examples, with and without shared libraries
	@scripts/setup.sh musl
	@scripts/musl.sh $(if $(SMALL),small)

test-wasm: ## Build for WebAssembly with WASI and run programs in wasmtime; one learns digits without files, in Chromium too
	@scripts/setup.sh wasm
	@scripts/wasm.sh $(if $(SMALL),small)

test-least: ## Build the smallest library, without optional parts, and a program that learns digits; their sizes are limited
	@scripts/setup.sh build
	@scripts/least.sh

one-sha: build-c ## Train in every setting: one SHA-256 over instruction sets, systems, replicas and ranks; writes docs/internals/one-sha.md
	@scripts/writable.sh $(DOCUMENTS)/internals/one-sha.md
	@for system in musl windows aarch64 riscv64; do scripts/setup.sh $$system; done
	@$(call section,One SHA)
	@scripts/one_sha.py $(BUILD)/tests/one_sha/umbo_one_sha --output $(DOCUMENTS)/internals/one-sha.md \
	  $(if $(ONLY),--only $(ONLY))

check-macos: ## Check everything for macOS with clippy, and link library and tool with zig; nothing is run
	@scripts/setup.sh macos
	@scripts/macos.sh $(if $(SMALL),small)

test-conan: export CONAN_HOME := $(CURDIR)/build/conan
test-conan: ## Make the Conan package and a program that uses it
	@scripts/setup.sh conan
	@$(call section,Conan)
	@conan profile detect --exist-ok
	@conan create packaging/conan

faults: ## Let each request for data, mappings and threads fail in turn (about 10 minutes)
	@scripts/setup.sh test
	@$(call section,Faults)
	@$(call configure,$(BUILD),.,-DUMBO_BUILD_TESTS=ON -DUMBO_BUILD_EXAMPLES=ON)
	@cmake --build $(BUILD) --parallel $(JOBS) --target umbo_faults
	@cd $(BUILD)/tests/faults/run && export LD_PRELOAD=../libumbo_fail_requests.so && \
	  ../umbo_faults $(if $(SMALL),sample,every) training && ../umbo_faults $(if $(SMALL),sample,every) pipelines

# The long versions of tests that ctest runs for some seconds each. docs/internals/reliability.md keeps count.
RUNS ?= 100000
CALLS ?= 1000000
build-c:
	@scripts/setup.sh test
	@$(call section,CMake)
	@$(call configure,$(BUILD),.,-DUMBO_BUILD_TESTS=ON -DUMBO_BUILD_EXAMPLES=ON)
# Without MAKEFLAGS: ninja starts cargo, which would look for make's jobs there in vain.
	@MAKEFLAGS= cmake --build $(BUILD) --parallel $(JOBS)

matrix: build-c ## Call every function in every context in which the library calls back, each with new objects
	@cd $(BUILD)/tests/c && ./umbo_c_matrix --jobs $(JOBS) --together 1 $(if $(SMALL),--contexts 2)

storm: build-c ## Compare runs with every kind of end with a model (RUNS=, SEED=)
	@$(BUILD)/tests/c/umbo_c_storm --runs $(RUNS) --seed $(SEED)

fuzz: build-c ## Compare random calls of all functions with a model (CALLS=, SEED=)
	@cd $(BUILD)/tests/c && ./umbo_c_sequences --calls $(CALLS) --seed $(SEED)

fuzz-parsers: ## Fuzz the parsers of files, positions, names and DLPack's structs (nightly Rust; RUNS=)
	@scripts/setup.sh fuzz
	@RUNS=$(if $(filter-out file default,$(origin RUNS)),$(RUNS)) scripts/fuzz.sh

fuzz-oss: ## Build the fuzz targets as OSS-Fuzz does, and run each on its seeds (nightly Rust; RUNS=)
	@scripts/setup.sh fuzz
	@RUNS=$(if $(filter-out file default,$(origin RUNS)),$(RUNS)) scripts/oss_fuzz.sh

asan: ## All C tests under AddressSanitizer and LeakSanitizer (nightly Rust)
	@scripts/setup.sh sanitizers
	@scripts/sanitize.sh address

tsan: ## All C tests under ThreadSanitizer (nightly Rust and its source)
	@scripts/setup.sh sanitizers
	@scripts/sanitize.sh thread

miri: ## Handle table, hazard records, storage and the protocol of steps under Miri (nightly Rust)
	@scripts/setup.sh sanitizers
	@scripts/miri.sh

N ?= 200
MINUTES ?= inf
# Seconds: what takes less, or more, is run once.
QUICKEST ?= 0
SLOWEST ?= 0.2
flaky: build-c ## Every test N times, half of them while three loops keep processors busy; resumes where it stopped (N=, MINUTES=, QUICKEST=, SLOWEST=)
	@scripts/flaky.py --times $(N) --minutes $(MINUTES) --quickest $(QUICKEST) --slowest $(SLOWEST) $(BUILD)

test-large: ## Run the tests of tensors with more than 2^31 elements (10 GiB of memory)
	@$(cargo_test) --test strategy -- --ignored more_than $(if $(SMALL),--list)

judges: ## Let others' tests judge the library; writes docs/internals/judges.md (installs into build/judges)
	@scripts/writable.sh $(DOCUMENTS)/internals/judges.md
	@scripts/setup.sh judges
	@$(MAKE) --no-print-directory install
	@$(call section,Judges)
	@JUDGES_DOCUMENTS=$(DOCUMENTS) tests/judges/run.py

bench: ## Measure the library on this machine
	@scripts/setup.sh bench
	@$(call section,Benchmarks)
	@cargo bench --locked --workspace --bench handle --bench products

pictures: ## Draw the documents' pictures anew, from what is measured meanwhile: on a quiet machine
	@scripts/writable.sh $(DOCUMENTS)/pictures/history.svg
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory demo
	@$(call section,Pictures)
	@DATA="$(DATA)" scripts/pictures.sh $(PREFIX) $(WORK) $(DOCUMENTS)/pictures $(if $(SMALL),--rounds 1 --steps 2 --to-us 4)

bench-peers: ## Compare with other frameworks; writes docs/internals/benchmarks.md (installs into build/peers)
	@scripts/writable.sh $(DOCUMENTS)/internals/benchmarks.md
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory install
	@$(call section,Benchmarks compared with peers)
	@benches/peers/run.py --prefix "$(call in_full,$(PREFIX))" --rounds $(ROUNDS) --output $(DOCUMENTS)/internals/benchmarks.md \
	  $(if $(SMALL),--busy)

bench-check: ## Measure as bench-peers does; fails where a ratio to a probe fell by more than a tenth of docs/internals/benchmarks.md
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory install
	@$(call section,Benchmarks as they were)
	@benches/peers/run.py --prefix "$(call in_full,$(PREFIX))" --rounds $(ROUNDS) --check

bench-loops: ## Compare updates with loops written by hand, and with earlier ones; writes the tables of docs/internals/updates.md
	@scripts/writable.sh $(DOCUMENTS)/internals/updates.md
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory install
	@$(call section,Updates compared with loops written by hand)
	@$(if $(SMALL),cp docs/internals/updates.md $(DOCUMENTS)/internals)
	@benches/peers/loops.py --prefix "$(call in_full,$(PREFIX))" --rounds $(ROUNDS) --output $(DOCUMENTS)/internals/updates.md \
	  $(if $(SMALL),--elements 65536 --busy)
	@$(call section,Updates while the backward pass runs)
	@benches/peers/early.py --prefix "$(call in_full,$(PREFIX))" --rounds $(ROUNDS) --output $(DOCUMENTS)/internals/updates.md \
	  $(if $(SMALL),--mebi 4 --busy)

bench-engines: ## Measure engines alone and under Umbo; writes the table of docs/engines.md
	@scripts/writable.sh $(DOCUMENTS)/engines.md
	@scripts/setup.sh bench-engines
	@$(MAKE) --no-print-directory install
	@$(call section,Engines alone and under Umbo)
	@$(if $(SMALL),cp docs/engines.md $(DOCUMENTS))
	@benches/engines/run.py --prefix "$(call in_full,$(PREFIX))" --rounds $(ROUNDS) --output $(DOCUMENTS)/engines.md \
	  $(if $(SMALL),--only mlp --quick)

adoption: ## Count the lines that Umbo takes in programs without it, and measure both; writes the tables of docs/adoption.md
	@scripts/writable.sh $(DOCUMENTS)/adoption.md
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory install
	@$(call section,Programs before and after Umbo)
	@$(if $(SMALL),cp docs/adoption.md $(DOCUMENTS))
	@benches/adoption/run.py --prefix "$(call in_full,$(PREFIX))" --build "$(call in_full,$(WORK))/adoption" --rounds $(ROUNDS) \
	  --output $(DOCUMENTS)/adoption.md $(if $(SMALL),--small) $(if $(ONLY),--only $(ONLY))

dist: ## Make and try all of a release, with checksums: sources with all crates, packages, wheel: build/dist
	@scripts/setup.sh build
	@SMALL=$(SMALL) scripts/dist.sh $(if $(SMALL),build/small/dist)

sbom: ## Write the library's bill of materials in CycloneDX, from Cargo.lock: build/sbom/umbo.cdx.json
	@scripts/sbom.py $(WORK)/sbom/umbo.cdx.json

wheel: ## Make a wheel for pip with library, headers, CMake files and the Python binding: build/wheel (OLDEST_GLIBC=)
	@scripts/setup.sh build
	@$(MAKE) --no-print-directory install
	@$(call section,Wheel)
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) scripts/wheel.py $(PREFIX) $(WORK)/wheel

clean: ## Remove everything that was built
	@rm -rf build target
