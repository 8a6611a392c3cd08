# ncclscope: `make demo` shows it, `make test` tests it; both install what they need under .tools/.

SHELL := /bin/bash
PLUGIN := libnccl-profiler-ncclscope.so
BUILT := libnccl_profiler_ncclscope.so
TOOLS := .tools/venv
ZIGBUILD := PATH="$(CURDIR)/$(TOOLS)/bin:$$PATH" cargo zigbuild
# NCCL's users run on RHEL 7-era systems too.
GLIBC := 2.17
X86 := x86_64-unknown-linux-gnu
ARM := aarch64-unknown-linux-gnu
# HolisticTraceAnalysis asks for a whole JupyterLab, which its reader does not use.
PYTESTS := .tools/python
# Nothing is compiled again in CI, so nothing need be kept for that.
ifdef CI
export CARGO_INCREMENTAL := 0
endif
# One process of Python per core, four at most. The tests of a file stay together, because they share what
# they opened.
SIDE_BY_SIDE := -n logical --maxprocesses 4 --dist loadscope
# What users get: the plugin and the command, jobs without a GPU, and what `ncclscope judge` measures with.
SHIPPED := -p ncclscope-recorder -p ncclscope -p ncclscope-fake-nccl -p ncclscope-empty-plugin \
	-p ncclscope-preload -p ncclscope-tuner
TARGET := $(or $(CARGO_TARGET_DIR),target)
portable_plugin = $(abspath $(TARGET)/portable/$(1)/release/$(BUILT))
# Tests look at what the portable plugins export and need. Link-time optimisation changes neither, and takes
# minutes.
UNOPTIMISED := CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	CARGO_TARGET_DIR=$(TARGET)/portable

.PHONY: all build debug tests-built busy test-tools portable cross portable-plugins portable-programs wheel \
	release-check demo test lint test-rust-built test-aarch64 test-install test-python test-python-built golden \
	screenshot notebooks bench-report test-frameworks test-spark site bench-viewer locked fuzz damage \
	random-jobs random-hangs attacks sanitize soak releases msrv miri deny clean

all: build

build: ## The command and the plugin, for this machine
	cargo build --release --workspace
	cp -f $(TARGET)/release/$(BUILT) $(TARGET)/release/$(PLUGIN)

debug:
	cargo build --workspace --lib --bins --examples
	cp -f $(TARGET)/debug/$(BUILT) $(TARGET)/debug/$(PLUGIN)

$(TOOLS)/.installed: Makefile
	python3 -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet ziglang==0.17.0 cargo-zigbuild==0.24.0
	touch $@

portable: $(TOOLS)/.installed ## The plugin and the command for any Linux with glibc 2.17, x86-64
	rustup target add $(X86)
	$(ZIGBUILD) --release $(SHIPPED) --target $(X86).$(GLIBC)
	cp -f $(TARGET)/$(X86)/release/$(BUILT) $(TARGET)/$(X86)/release/$(PLUGIN)

cross: $(TOOLS)/.installed ## The same for aarch64 (Grace)
	rustup target add $(ARM)
	$(ZIGBUILD) --release $(SHIPPED) --target $(ARM).$(GLIBC)
	cp -f $(TARGET)/$(ARM)/release/$(BUILT) $(TARGET)/$(ARM)/release/$(PLUGIN)

# Build and install conda packages, without conda.
CONDA := py-rattler-build==0.73.0 py-rattler==0.28.0
$(TOOLS)/.wheel: $(TOOLS)/.installed
	$(TOOLS)/bin/pip install --quiet maturin==1.16.0 auditwheel==6.8.2 uv==0.13.9 pipx==1.18.4 $(CONDA)
	touch $@

portable-plugins: $(TOOLS)/.installed ## Both portable plugins, built quickly for the tests
	rustup target add $(X86) $(ARM)
	$(UNOPTIMISED) $(ZIGBUILD) --release -p ncclscope-recorder --target $(X86).$(GLIBC)
	$(UNOPTIMISED) $(ZIGBUILD) --release -p ncclscope-recorder --target $(ARM).$(GLIBC)

portable-programs: $(TOOLS)/.installed ## The programs for glibc 2.17, to see that they can be linked
	rustup target add $(X86)
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 $(UNOPTIMISED) $(ZIGBUILD) --release -p ncclscope -p ncclscope-fake-nccl \
		--target $(X86).$(GLIBC)

wheel: portable cross debug $(TOOLS)/.wheel $(PYTESTS)/.installed ## Wheels, tried with pip, uvx, pipx
	rm -rf dist
	scripts/wheel.sh $(X86) $(TARGET)/$(X86)/release
	scripts/wheel.sh $(ARM) $(TARGET)/$(ARM)/release
	scripts/test-wheel.sh $(TARGET)/debug

release-check: wheel ## All that a release publishes, in dist/, tried from an index on this machine
	command -v .tools/bin/cargo-cyclonedx >/dev/null || \
		cargo install --locked --root .tools --version 0.5.9 cargo-cyclonedx
	scripts/release-files.sh $(CONDA_CHANNEL)

demo: ## Plays a recorded job through the plugin and reports; with GPUs, records a live one, too
	cargo build --profile quick --workspace
	cp -f $(TARGET)/quick/$(BUILT) $(TARGET)/quick/$(PLUGIN)
	@scripts/demo.sh $(TARGET)/quick

locked: ## Cargo.lock files say what the Cargo.toml files ask for
	cargo metadata --locked --format-version 1 > /dev/null
	cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null

# With the tests, dependencies have features that they do not have without them. So what tests load is built
# together with the tests: the build of `debug` would compile Arrow, Parquet and half of the workspace once
# more.
tests-built:
	cargo build --workspace --lib --bins --examples --tests
	cp -f $(TARGET)/debug/$(BUILT) $(TARGET)/debug/$(PLUGIN)

# What can be downloaded is downloaded while cargo compiles. All tests of a crate are one program
# (`tests/all`), because linking 100 of them took a third of the build. Tests in Rust have the machine to
# themselves: some play jobs at their real pace, and their hosts must keep up.
test: locked ## Everything that is tested without a GPU
	cargo fmt --all --check
	$(MAKE) --jobs=4 --output-sync=line tests-built portable-plugins portable-programs test-tools
	$(MAKE) lint test-rust-built
	$(MAKE) --jobs=2 --output-sync=target test-aarch64 test-install test-python-built

lint:
	cargo clippy --workspace --all-targets --quiet -- -D warnings

test-rust-built:
	NCCLSCOPE_PORTABLE_PLUGINS="$(call portable_plugin,$(X86)):$(call portable_plugin,$(ARM))" \
	NCCLSCOPE_PLUGIN="$(abspath $(TARGET)/debug/$(PLUGIN))" \
	cargo test --workspace --lib --bins --tests --no-fail-fast

releases: tests-built ## The plugin in the libraries of all releases of NCCL on PyPI, without a GPU
	scripts/test-releases.sh

busy: tests-built ## The tests in Rust, RUNS times on a machine with LOAD other busy processes
	NCCLSCOPE_PLUGIN="$(abspath $(TARGET)/debug/$(PLUGIN))" \
	scripts/busy.sh $(or $(RUNS),5) $(or $(LOAD),4) $(TESTS)

test-tools: $(PYTESTS)/.installed
	scripts/test-tools.sh

test-install: ## `pip install .` in a fresh checkout, and a conda package, with what is built already
	scripts/test-install.sh $(TARGET)/debug

test-aarch64: $(TOOLS)/.installed
	scripts/test-aarch64.sh

test-python-built: $(PYTESTS)/.installed
	scripts/test-python.sh $(TARGET)/debug "" $(SIDE_BY_SIDE)

$(PYTESTS)/.installed: python/tests/requirements.txt Makefile
	python3 -m venv $(PYTESTS)
	$(PYTESTS)/bin/pip install --quiet -r $<
	$(PYTESTS)/bin/pip install --quiet --no-deps HolisticTraceAnalysis==0.5.0
	touch $@

test-frameworks: debug ## The callbacks with real frameworks: installs 6 GB
	python3 -m venv .tools/frameworks
	.tools/frameworks/bin/pip install --quiet -r python/tests/requirements-frameworks.txt
	PYTHON=.tools/frameworks/bin/python scripts/test-python.sh $(TARGET)/debug "" \
		python/tests/test_frameworks.py python/tests/test_clusters.py python/tests/test_mcp.py

# PySpark is half a gigabyte, and needs Java.
test-spark: debug ## Exports and recipes in a real Spark
	python3 -m venv .tools/spark
	.tools/spark/bin/pip install --quiet -r python/tests/requirements.txt pyspark==4.3.0
	PYTHON=.tools/spark/bin/python scripts/test-python.sh $(TARGET)/debug "" \
		python/tests/test_export.py python/tests/test_recipes.py -k spark

test-python: debug test-python-built ## The Python package, and exports in the programs they are for

golden: debug ## Rewrites expected outputs and the README's picture; read the diff like code
	export NCCLSCOPE_GOLDEN=write NCCLSCOPE_PLUGIN="$(abspath $(TARGET)/debug/$(PLUGIN))"; \
	cargo test -p ncclscope --test all contracts:: && \
	cargo test -p ncclscope --test stories && cargo test -p ncclscope --test all docs::

screenshot: debug $(PYTESTS)/.installed ## Rewrites the screenshots of docs, from recorded jobs
	$(PYTESTS)/bin/python scripts/pictures.py $(TARGET)/debug/ncclscope

notebooks: debug $(PYTESTS)/.installed ## Runs examples/notebooks, and writes them with their outputs
	scripts/stage-python.sh $(TARGET)/debug $(TARGET)/debug/python
	PYTHONPATH=$(abspath $(TARGET)/debug/python) $(PYTESTS)/bin/python scripts/notebooks.py

site: $(PYTESTS)/.installed ## All pages as a site with search, for a browser, in OUT (target/site)
	$(PYTESTS)/bin/python scripts/docs_site.py $(or $(OUT),$(TARGET)/site)

bench-viewer: $(PYTESTS)/.installed ## How quickly the viewer opens and moves on 10 000 ranks
	cargo build --quiet --release -p ncclscope -p ncclscope-tables --bins --examples
	$(PYTESTS)/bin/python bench/viewer.py

bench-report: ## How fast a report of 10 million calls is, and how much memory it takes
	@bench/report.sh

# Long runs of what `make test` does in short; docs/reference/reliability.md says what they show.
SECONDS := 600
FUZZ := $(CURDIR)/.tools/bin/cargo-fuzz
# What `cargo` must be able to build the workspace with.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# Miri runs some 1000 times slower: a few cases of each property show what it can find.
# What the recorder makes lives as long as its process, so that is no leak.
MIRI := MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks" PROPTEST_CASES=2 \
	cargo +nightly miri test --target-dir $(TARGET)/miri
# Those that call no CUDA, no file and no other process.
PURE := epoch:: free_ring:: handle:: intern:: network:: round:: seats:: contents:: execs:: comm_table::
FAST := CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_DEBUG=1

$(FUZZ):
	cargo install --locked --root .tools cargo-fuzz

fuzz: $(FUZZ) ## With the address sanitizer: callbacks, captures and other tools' files, SECONDS each
	rustup toolchain install nightly --profile minimal
	for target in callbacks damaged flight inspector kineto nccl_tests nsys ras; do \
		mkdir -p fuzz/target/corpus/$$target && \
		(cd fuzz && RUSTUP_TOOLCHAIN=nightly $(FUZZ) fuzz run $$target target/corpus/$$target corpus/$$target -- \
		-max_total_time=$(SECONDS) -max_len=81920 -timeout=30 -detect_leaks=0) || exit 1; done

damage: ## CASES damaged captures and files of each other tool through every reader, from SEED on
	$(FAST) NCCLSCOPE_DAMAGE_CASES=$(or $(CASES),10000) NCCLSCOPE_DAMAGE_SEED=$(or $(SEED),1) \
	cargo test --target-dir $(TARGET)/fast -p ncclscope-render -p ncclscope-convert \
	--test all damage_of_any_kind -- --nocapture

attacks: debug ## Plays all scripts in scripts/attacks, ROUNDS times each, and launches of graphs out of sight
	NCCLSCOPE_ATTACKS=$(or $(ROUNDS),1) cargo test -p ncclscope --test attacks -- --nocapture --test-threads=1
	cargo test -p ncclscope-recorder --test all graphs::

soak: ## 100 million calls in one process
	$(FAST) NCCLSCOPE_SOAK=$(or $(CALLS),100000000) \
	cargo test --target-dir $(TARGET)/fast -p ncclscope-recorder --test all ends::a_long_job -- --nocapture

random-jobs: ## Reports on JOBS simulated jobs with a known cause, from SEED on
	$(FAST) cargo run --quiet --target-dir $(TARGET)/fast -p ncclscope-simulate --example play -- \
	$(or $(JOBS),1000) --seed $(or $(SEED),1)

random-hangs: ## Watches JOBS simulated jobs that hang, and as many healthy ones, from SEED on
	$(FAST) cargo run --quiet --target-dir $(TARGET)/fast -p ncclscope-simulate --example hangs -- \
	$(or $(JOBS),1000) --seed $(or $(SEED),1)

sanitize: ## The recorder and its tests under the address and thread sanitizers
	rustup toolchain install nightly --profile minimal --component rust-src
	for sanitizer in address thread; do \
		scripts/build-sanitized.sh $$sanitizer $(TARGET)/$$sanitizer $(TARGET)/sanitized/$$sanitizer && \
		scripts/sanitize.sh $$sanitizer $(TARGET)/sanitized/$$sanitizer || exit 1; done

msrv: ## The workspace with the oldest Rust that Cargo.toml allows
	rustup toolchain install $(MSRV) --profile minimal
	cargo +$(MSRV) check --locked --workspace --target-dir $(TARGET)/msrv

miri: ## The format and the recorder's pure parts under Miri, which finds undefined behaviour
	rustup toolchain install nightly --profile minimal --component miri,rust-src
	$(MIRI) -p ncclscope-capture --lib -- --skip left::
	$(MIRI) -p ncclscope-recorder --lib -- $(PURE)

deny: ## Licences and sources of every dependency
	command -v .tools/bin/cargo-deny >/dev/null || cargo install --locked --root .tools cargo-deny
	.tools/bin/cargo-deny --locked check licenses bans sources

clean:
	cargo clean
	rm -rf .tools
