# Every target does its own set-up: on a fresh Debian-like machine with a Rust toolchain, `make run`
# and `make test` are the first commands that one needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run test test-advice fuzz test-kernels lint bench bench-residency bench-order bench-view bench-warm bench-io bench-cpu bench-size bench-shield bench-tier package test-package setup

CARGO ?= cargo

help: ## what can be made here (this text)
	@echo "cachewise: make TARGET"
	@echo
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) \
		| while IFS='|' read -r target text; do printf '%-18s %s\n' "$$target" "$$text"; done
	@echo
	@echo "Exact numbers and the ground-truth tests need root; without it both say what is missing."

run: ## build cachewise and watch dd read 512 MiB cold, warm and with O_DIRECT
	@scripts/setup run
	$(CARGO) build --profile demo --locked -p cachewise
	@scripts/demo

test: ## every test; as root the ground-truth tests too. Says in its last lines what was skipped
	@scripts/setup test
	@scripts/test

test-advice: ## the findings on real programs: cause, fix, and whether the fix helps; a table; needs root
	@scripts/setup advice
	@scripts/test-advice

SECONDS ?= 60
SEED ?= $(shell date +%s)

fuzz: ## random I/O programs against the kernel's own word, for SECONDS=60 with SEED=the time; needs root
	@scripts/setup test
	CACHEWISE_FUZZ_SECONDS=$(SECONDS) CACHEWISE_FUZZ_SEED=$(SEED) \
		$(CARGO) test --locked -p cachewise-probe --test fuzz -- --show-output

test-kernels: ## the ground truth and the release binary on Debian's 6.1 and 6.12 kernels, in virtual machines; a table
	@scripts/setup kernels
	@scripts/test-kernels --all

lint: ## formatting, clippy, documentation, shell scripts, prose, licences and packages; warnings are errors
	@scripts/setup lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --workspace --features cachewise/otlp --all-targets -- -D warnings
	# Examples are documented too: with them, dependencies have the features that clippy has checked them with.
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --lib --bin cachewise --examples
	@scripts/lint-shell
	@scripts/lint-prose
	@scripts/lint-dependencies
	@scripts/lint-publish

bench: ## what the probe costs a program, how long a census and a start take; CHECK=1 fails where a goal is missed
	@scripts/setup run
	@# All of them, also where a goal is missed before.
	status=0; \
	$(CARGO) bench --locked -p cachewise-probe --bench overhead -- $(if $(CHECK),--check) || status=1; \
	$(CARGO) bench --locked -p cachewise-probe --bench census -- $(if $(CHECK),--check) || status=1; \
	$(CARGO) bench --locked -p cachewise --bench startup -- $(if $(CHECK),--check) || status=1; \
	exit $$status

bench-residency: ## what it costs to ask what is resident, beside the floor, fincore, vmtouch and pcstat; CHECK=1 fails where a goal is missed
	@scripts/setup bench
	@# Both, also where a goal of the first is missed.
	status=0; \
	$(CARGO) bench --locked -p cachewise-residency --bench residency -- $(if $(CHECK),--check) || status=1; \
	$(CARGO) bench --locked -p cachewise --bench files -- $(if $(CHECK),--check) || status=1; \
	exit $$status

bench-order: ## what reading files again and again costs, order by order, with less memory than they need; CHECK=1 fails where a goal is missed
	@scripts/setup run
	@# Both, also where a goal of the first is missed.
	status=0; \
	$(CARGO) bench --locked -p cachewise-residency --bench order -- $(if $(CHECK),--check) || status=1; \
	$(CARGO) bench --locked -p cachewise --bench order -- $(if $(CHECK),--check) || status=1; \
	exit $$status

bench-shield: ## what `shield` saves of a hot set beside a scan, and what it costs; CHECK=1 fails where a goal is missed; PROGRAMS=1: tar, rsync, ... beside SQLite
	@scripts/setup run
	$(if $(PROGRAMS),$(CARGO) build --locked --release -p cachewise && scripts/bench-shield-programs --cachewise target/release/cachewise,$(CARGO) bench --locked -p cachewise --bench shield -- $(if $(CHECK),--check))

bench-view: ## what live views and recordings cost: a frame, `top`, a scrape of `serve`, its page in a browser, `record`'s CPU and bytes an hour
	@scripts/setup run
	$(CARGO) bench --locked -p cachewise-tui --bench frame
	$(CARGO) bench --locked -p cachewise --bench top
	$(CARGO) bench --locked -p cachewise --bench serve
	$(CARGO) bench --locked -p cachewise --bench page
	$(CARGO) bench --locked -p cachewise --bench record

bench-warm: ## how exact the verdict of `run` is: warm runs of eight programs, predicted from cold ones and measured; as root
	@scripts/setup run
	$(CARGO) bench --locked -p cachewise --bench warm

bench-io: ## what `bench` adds to reading a cached file, beside a bare C loop that does the same reads
	@scripts/setup run
	$(CARGO) bench --locked -p cachewise-bench --bench io

bench-cpu: ## how well the CPU's caches are measured: against a bare chase in C, and 15 sweeps with the other CPU busy
	@scripts/setup run
	$(CARGO) bench --locked -p cachewise-cpu --bench cpu

bench-size: ## how exact the curves of `size` are: eight loads at four limits, predicted and counted in memory groups; as root
	$(CARGO) bench --locked -p cachewise --bench size

bench-tier: ## the block cache: five servers healthy and one frozen, with the policy and without; MB/s; the mount beside plain FUSE, rclone, s3fs, GlusterFS; programs from a published version; CHECK=1 fails where a goal is missed
	@scripts/setup tier
	$(CARGO) build --locked --release -p cachewise-tier
	@# All of them, also where a goal is missed before.
	status=0; \
	$(CARGO) bench --locked -p cachewise-tier --bench slow_node -- $(if $(CHECK),--check) || status=1; \
	$(CARGO) bench --locked -p cachewise-tier --bench throughput -- $(if $(CHECK),--check) || status=1; \
	scripts/bench-tier-mounts $(if $(CHECK),--check) || status=1; \
	python3 crates/tier/benches/programs/run.py || status=1; \
	python3 crates/tier/benches/gluster/run.py || status=1; \
	exit $$status

package: ## a Debian package for each program, and a tarball of all three; in target/package
	@scripts/setup package
	@scripts/package

test-package: package ## install the packages in a clean Debian 12, run each program, remove them; needs root
	@scripts/test-package

setup: ## only install what is missing for all of the above
	@scripts/setup test
	@scripts/setup lint
