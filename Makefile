# Two commands do everything on a machine with Python 3.11 or newer and make:
#   make run    makes the environment and starts the daemon on 127.0.0.1:9092
#   make test   makes the environment and passes the tests
# Variables: PYTHON (interpreter), ARGS (for serve), PYTEST_ARGS, WORKERS, ROUNDS, SEEDS, MINUTES, BASE, COMMIT, ONLY.

SHELL = /bin/sh
# Hundreds of processes are started here: each would compile what it imports where the environment forbids bytecode.
export PYTHONDONTWRITEBYTECODE =
.DEFAULT_GOAL := help

# The first interpreter that runs and is new enough; give PYTHON=... to choose another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$python; break; fi; done)
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check --no-input

ARGS ?=
PYTEST_ARGS ?=
# Many tests wait for the timers of clients: one process more than there are cores finds work meanwhile.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
ROUNDS ?= 200
SEEDS ?= 20000
MINUTES ?=
COMMIT ?=
ONLY ?=

ALSO = compiled run-compiled wheel check format docs constraints clean demo demo-secure demo-cluster \
	spoken test-backing test-gateway test-whole test-compiled test-compiled-rotation test-long test-long-rotation conformance simulation mutants mutants-rotation \
	soak soak-backing soak-kill soak-log soak-disk soak-storms soak-migration soak-transactions \
	fuzz-security bench bench-quick bench-quick-rotation bench-against bench-log bench-throughput bench-spark bench-metrics bench-observed bench-gateway bench-backed bench-cluster-growth profile spark-cluster
.PHONY: help run test always $(ALSO)

help:
	@sed -n '/^# Two/,/^# Variables/s/^# \{0,1\}//p' Makefile
	@echo 'Also: $(ALSO)'

# A stamp says what the environment holds. Only what the daemon needs, so that a first start is quick:
$(VENV)/.runtime: pyproject.toml constraints.txt
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

# All that tests, benchmarks and Spark need:
$(VENV)/.dev: $(VENV)/.runtime
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev,spark]'
	@touch $@

run: $(VENV)/.runtime
	@exec $(BIN)/muster serve $(ARGS)

# The same with what requests run through as C (setup.py says what): some two minutes, and a C compiler is needed.
COMPILED = build/compiled
compiled: $(COMPILED)/.built

# What it is made of is noted before: an edit in these two minutes is not in it, nor is a module that is gone. The
# compiler runs once, for the tree that benchmarks run and for the wheel that is packed from it.
COMPILED_WHEEL = build/wheels
$(COMPILED)/.built: $(VENV)/.dev $(VENV)/.sources
	rm -rf build
	mkdir build && cp $(VENV)/.sources build/sources
	MUSTER_COMPILE=1 $(BIN)/python setup.py --quiet build --build-lib $(COMPILED) \
		bdist_wheel --skip-build --dist-dir $(COMPILED_WHEEL)
	mv build/sources $@

$(VENV)/.sources: $(VENV)/.dev always
	@$(BIN)/python -m bench.pairs.sources $@

run-compiled: $(COMPILED)/.built
	@PYTHONPATH=$(COMPILED) exec $(BIN)/python -P -m muster serve $(ARGS)

# Both wheels, in dist/: the pure one, and for this platform the one with the request path as C.
wheel: $(COMPILED)/.built
	rm -f dist/muster-*.whl
	mkdir -p dist && cp $(COMPILED_WHEEL)/muster-*.whl dist
	$(BIN)/python -m tools.wheels pure dist

# An environment of its own, with the compiled wheel and what it asks for.
INSTALLED = build/installed
$(INSTALLED)/.installed: $(COMPILED)/.built constraints.txt tools/wheels.py
	$(BIN)/python -m tools.wheels install $(INSTALLED)/environment $(COMPILED_WHEEL)/muster-*.whl --lend
	@touch $@

# What is compiled has to pass what its source passes, as users get it: installed from the wheel. The tests of the core, the
# protocol, the daemon, and the first seeds of the simulation go to a folder without the sources (tests/server/test_installed.py).
BESIDE_INSTALLED = pyproject.toml setup.py harness tools tests bench docs
test-compiled: $(INSTALLED)/.installed
	cd $(INSTALLED) && rm -rf $(BESIDE_INSTALLED)
	cp -R $(BESIDE_INSTALLED) $(INSTALLED)
	cd $(INSTALLED) && MUSTER_INSTALLED=compiled \
		environment/bin/python -m pytest --numprocesses $(WORKERS) --dist loadgroup \
		tests/groups tests/offsets tests/protocol tests/purgatory tests/storage tests/server tests/http tests/simulation \
		$(PYTEST_ARGS)

# Half of it, which the tree's id chooses: for every change.
test-compiled-rotation:
	$(MAKE) test-compiled PYTEST_ARGS='--rotate 2 $(PYTEST_ARGS)'

# All modules but those that take turns (tests/taking_turns.txt), of which the tree's id chooses a sixth; with PYTEST_ARGS
# what these ask for. Kafka's jars come first, where there is Java: fetched by a test they would count as its time.
TURNS = $(if $(PYTEST_ARGS),,--turns 6)
test: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	rm -rf .cache/spoken
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadgroup -m 'not measured' $(TURNS) $(PYTEST_ARGS)
	$(if $(PYTEST_ARGS),,$(BIN)/python -m pytest -n 0 -m measured)

# Every test but the long ones.
test-whole:
	$(MAKE) test TURNS=

# Whether clients spoke what docs/apis.md says they speak, in the last run of `make test`.
spoken: $(VENV)/.dev
	$(BIN)/python -m tests.spoken --check

# Three nodes on one Kafka, which are killed, stopped and cut off under clients that never stop (docs/cluster.md).
test-backing: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m tests.backing.rounds --rounds 5

# What client libraries and Spark do, through a gateway; what differs there, and why: tests/clients/through_gateway.py.
test-gateway: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadgroup --target gateway tests/clients \
		tests/spark/members/test_member.py tests/spark/members/test_members.py tests/spark/test_kafka_source.py $(PYTEST_ARGS)

# What takes minutes: executors that are killed, clusters of Spark, jobs over a daemon that restarts.
test-long: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m pytest -n 0 tests/long $(PYTEST_ARGS)

# A third of it, which the tree's id chooses: for every change.
test-long-rotation: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m pytest -n 0 tests/long --rotate 3 $(PYTEST_ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_imports.py tests/mutations/test_patches.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(VENV)/.dev
	$(BIN)/python -m bench.demo

# From nothing to SASL_SSL with SCRAM and ACLs: the walk of docs/security.md.
demo-secure: $(VENV)/.dev
	$(BIN)/python -m bench.demo_secure

# Three nodes before an Apache Kafka, consumers of two families, and a node that is killed (docs/cluster.md).
demo-cluster: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m bench.demo_cluster

# A master and two workers of Spark on loopback, until Ctrl-C: its URL is what --master of the jobs wants.
spark-cluster: $(VENV)/.dev
	$(BIN)/python -m muster.spark.standalone --workers 2 --cores 1

soak-kill: $(VENV)/.dev
	MUSTER_KILL_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -s tests/kill $(PYTEST_ARGS)

# Beside a Kafka; with TARGET=muster-on-kafka the groups are those of nodes whose log is on another, which takes four minutes.
TARGET ?= both
conformance: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m tests.conformance --target $(TARGET)

# The coordinator in virtual time: 2,000 histories, of which `make test` plays the first, and 250 of groups with members
# of both protocols; shows how many reached each mark.
simulation: $(VENV)/.dev
	$(BIN)/python -m tests.simulation
	$(BIN)/python -m tests.simulation --mixed --seeds 250
	$(BIN)/python -m tests.simulation --backing

# More of them: make soak SEEDS=100000
soak: $(VENV)/.dev
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)
	$(BIN)/python -m tests.simulation --mixed --seeds $$(($(SEEDS) / 10))
	$(BIN)/python -m tests.simulation --backing --seeds $(SEEDS)

# Breaks the daemon on purpose: every mutant, or (as .ci/run does) those of what changed and a twenty-fifth of the others.
mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutations

mutants-rotation: $(VENV)/.dev
	$(BIN)/python -m tests.mutations --rotate $(if $(BASE),--base $(BASE))

# The same rounds before three brokers, whose leaders move, with data through the nodes: two hundred take an hour or more.
soak-backing: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m tests.backing.rounds --rounds $(ROUNDS) --brokers 3 --gateway

# Commits against compaction on small segments, with kills: half an hour.
soak-log: $(VENV)/.dev
	$(BIN)/python -m tests.soak_log --minutes $(or $(MINUTES),30)

# Every crash point twenty times, and every byte of a small directory flipped: some ten minutes.
soak-disk: $(VENV)/.dev
	MUSTER_CRASH_ROUNDS=20 MUSTER_FLIP_STRIDE=1 $(BIN)/python -m pytest tests/server/test_crash_sweep.py tests/server/test_flips.py

# What strangers and files say, to each reader of it for ten minutes, or MINUTES; ONLY=jaas takes one of them.
fuzz-security: $(VENV)/.dev
	$(BIN)/python -m tests.security.fuzz --minutes $(or $(MINUTES),10) $(if $(ONLY),--only $(ONLY))

# Storms of joins, whose memory must not creep up: half an hour.
soak-storms: $(VENV)/.dev
	$(BIN)/python -m tests.soak_storms --minutes $(or $(MINUTES),30)

# Ten members of Java and librdkafka to the consumer protocol and back, under load, the daemon killed once in between:
# five times, which takes two minutes, or ROUNDS.
soak-migration: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m tests.soak_migration --rounds $(if $(filter file,$(origin ROUNDS)),5,$(ROUNDS))

# Consume, transform, produce in transactions, while workers and daemon are killed: ten minutes, or MINUTES.
soak-transactions: $(VENV)/.dev
	$(BIN)/python -m tests.soak_transactions --minutes $(or $(MINUTES),10)

# Beside Apache Kafka, every scenario, which takes an hour and a quarter, or some (make bench ONLY=commits,herd; names:
# python -m bench.pairs --list): writes what docs/performance.md has measured.
bench: $(COMPILED)/.built
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m bench.pairs --write $(if $(ONLY),--only $(ONLY))

# What a scrape and a walk over 100,000 groups cost; and what it costs to be scraped and followed, 15 rounds in turns.
bench-metrics: $(VENV)/.dev
	$(BIN)/python -m bench.metrics_scrape

bench-observed: $(VENV)/.dev
	$(BIN)/python -m bench.observed

bench-quick: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m bench.pairs --quick

# Half of the scenarios, which the tree's id chooses: for every change.
bench-quick-rotation: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m bench.pairs --quick --rotate

# User CPU beside that of an earlier commit, in turns, some twelve minutes: make bench-against COMMIT=7e117a8
bench-against: $(VENV)/.dev
	@test -n '$(COMMIT)' || { echo 'Which commit? make bench-against COMMIT=...' >&2; exit 1; }
	$(BIN)/python -m bench.against_commit --commit $(COMMIT)

# Flame graphs of the daemon under load, for docs/performance.md.
profile: $(VENV)/.dev
	$(BIN)/python -m bench.pairs.profile heartbeat
	$(BIN)/python -m bench.pairs.profile commit
	$(BIN)/python -m bench.pairs.profile large-commit
	$(BIN)/python -m bench.pairs.profile storm
	$(BIN)/python -m bench.pairs.profile herd
	$(BIN)/python -m bench.pairs.profile cold

bench-log: $(VENV)/.dev
	$(BIN)/python -m bench.loading
	$(BIN)/python -m bench.compaction

# Records through librdkafka, beside Kafka in the same run; and the floors under it.
bench-throughput: $(VENV)/.dev
	$(BIN)/python -m bench.throughput
	$(BIN)/python -m bench.sending

# What a gateway costs beside its Kafka asked directly, and what it costs a megabyte.
bench-gateway: $(VENV)/.dev
	$(BIN)/python -m bench.gateway

# Commits of a node whose log is on Kafka, beside those of the daemon with a log of its own.
bench-backed: $(VENV)/.dev
	$(BIN)/python -m harness.java_tools
	$(BIN)/python -m bench.backed_commits

# How the cost of nodes grows with nodes, shards and groups, to 100, 1,000 and a million (docs/cluster.md): ten minutes.
bench-cluster-growth: $(VENV)/.dev
	$(BIN)/python -m bench.cluster_growth

# What a record costs Spark: in one process, on one worker and on two, and by the size of a history.
bench-spark: $(VENV)/.dev
	$(BIN)/python -m bench.spark_decode
	$(BIN)/python -m bench.spark_scale_out
	$(BIN)/python -m bench.spark_scale_history

docs: $(VENV)/.dev
	$(BIN)/python -m coordinator.settings.page > docs/settings.md
	$(BIN)/python -m tools.state_diagram > docs/states.md

# Resolves all dependencies again, in an environment that is thrown away, and pins what came out.
constraints:
	rm -rf $(VENV)-resolve
	$(PYTHON) -m venv $(VENV)-resolve
	$(VENV)-resolve/bin/python -m pip --disable-pip-version-check install --quiet '.[dev,spark]'
	{ sed -n '/^#/p' constraints.txt; \
	  $(VENV)-resolve/bin/python -m pip --disable-pip-version-check freeze --all --exclude muster --exclude pip; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf $(VENV)-resolve

clean:
	rm -rf $(VENV) build dist *.egg-info .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
