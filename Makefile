# One door to everything; `.ci/run` calls the same targets.
PYTHON ?= python3
VENV := .venv/bin
READY := .venv/.ready
# Tests wait a third of their time: three at a time keep two cores busy.
JOBS ?= 3

# Modules are found from here, whatever Python is told elsewhere, and compiled once: a worker or a command starts in half
# the time.
unexport PYTHONSAFEPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast lint docs format prove chaos bench oldest test-airflow test-docker packages sbom audit mutation power clean

help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## make .venv with everything in it; jars too (PYTHON=python3.12 picks one)

demo: .venv/.demo  ## see a snapshot taken, assembled and verified (ARGS="..." are passed on)
	@$(VENV)/snapkafka demo $(ARGS)

PYTEST = $(VENV)/python -m pytest
BESIDE = --numprocesses $(JOBS) --dist loadgroup --no-loadscope-reorder

test: $(READY)  ## run the tests, three at a time (JOBS=n; ARGS="-k name" picks some)
ifdef ARGS
	@$(PYTEST) $(BESIDE) $(ARGS)
else
	@$(PYTEST) $(BESIDE) -m "not nightly"
endif

# Any test may go to any process, so that all end at the same time: these share no broker and no session, and they
# compute.
test-fast: $(READY)  ## the unit tests, the protocol, its scenarios and the simulator: no broker, no Spark (three minutes on two cores)
	@$(PYTEST) --numprocesses logical --dist worksteal -m "not nightly" \
	  tests/unit tests/protocol tests/scenarios tests/sim $(ARGS)

lint: $(READY)  ## style, format, types, layers, that every protocol rule has its place, and that no folder grows
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .
	@$(VENV)/mypy
	@$(VENV)/lint-imports
	@$(VENV)/python tests/check_rules.py
	@$(VENV)/python tests/check_budget.py

docs: $(READY) .venv/docs/.ready  ## build the pages of docs/ as a site, in build/docs; warnings are errors
	@$(VENV)/python -m tools.reference
	@.venv/docs/bin/sphinx-build --builder html --quiet --fail-on-warning --keep-going docs build/docs
	@echo "build/docs/index.html"

format: $(READY)  ## put the code into its form
	@$(VENV)/ruff check --fix-only --quiet .
	@$(VENV)/ruff format .

bench: $(READY)  ## measure what the docs promise (ONLY=name picks one)
	@$(VENV)/python -m tests.bench $(ONLY)

prove: $(READY) .venv/airflow/.ready .venv/web/.ready  ## the tests marked nightly, the protocol against 100,000 seeds of the simulator, and every rule switched off (two hours on two cores)
	@$(PYTEST) -m nightly
	@$(VENV)/python -m tests.sim campaign --seeds 100000
	@$(VENV)/python -m tests.sim mutate
	@$(VENV)/python -m tests.sim explore --large
	@$(MAKE) --no-print-directory power

chaos: $(READY)  ## workers that die, sleep, come and go for twenty minutes, a snapshot every second (MINUTES=n, SEED=n)
	@MINUTES=$${MINUTES:-20} $(PYTEST) -s tests/chaos/test_storm.py

oldest: .venv/oldest/.ready  ## run the tests on the oldest versions that pyproject.toml allows (ARGS="tests/unit" picks some)
	@.venv/oldest/bin/python -m pytest $(BESIDE) -m "not nightly" $(ARGS)

test-airflow: .venv/airflow/.ready  ## the Airflow provider's own tests, in an environment with Airflow (`make prove` runs a DAG on a real system)
	@cd connectors/airflow && ../../.venv/airflow/bin/python -m pytest $(ARGS)

packages: .venv/packages/.ready  ## build sdist and wheel of snapkafka and snapkafka-airflow into dist/, and check them
	@rm -rf dist
	@.venv/packages/bin/python -m build --outdir dist . >/dev/null
	@.venv/packages/bin/python -m build --outdir dist connectors/airflow >/dev/null
	@.venv/packages/bin/twine check --strict dist/*
	@.venv/packages/bin/check-wheel-contents dist/*.whl

sbom: build/released/.ready  ## write build/sbom/snapkafka.cdx.json: what an installation with every extra consists of (CycloneDX)
	@mkdir -p build/sbom
	@.venv/packages/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	  --output-file build/sbom/snapkafka.cdx.json build/released
	@echo "build/sbom/snapkafka.cdx.json"

audit: build/released/.ready  ## known vulnerabilities of what it installs, by PyPI's advisories, and of the workflow files
	@rm -f build/audit.json
	@.venv/packages/bin/pip-audit --progress-spinner off --skip-editable --format json --output build/audit.json \
	  --path "$$(build/released/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" || true
	@.venv/packages/bin/python tests/check_audit.py build/audit.json
	@.venv/packages/bin/zizmor --offline --persona pedantic .github/workflows

test-docker: $(READY)  ## build the images and run compose.yaml, where a Docker engine answers; says "not run" where none does
	@$(VENV)/python -m tests.docker

mutation: .venv/mutation/.ready  ## change the protocol and the checks in thousands of ways, and see each noticed (40 minutes; docs/evidence/mutation.md)
	@PATH=.venv/mutation/bin:$$PATH mutmut run --max-children $$(nproc) $(ARGS)
	@.venv/mutation/bin/python tests/mutation_score.py

power: .venv/mutation/.ready  ## which test files notice which of these changes (a night; a part: ARGS="--sample 20")
	@PATH=.venv/mutation/bin:$$PATH python -m tools.power $(ARGS)

clean:  ## remove what was made here; what was fetched stays in the cache, which all checkouts share
	rm -rf .venv setup.log dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache mutants
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Set up once, and again whenever pyproject.toml changes. The demo does without servers and tools of the tests.
$(READY): pyproject.toml
	$(call install,.[dev],650 MB)
	@$(VENV)/python -m snapkafka.runtime.maven kafka spark
	@$(VENV)/python -m tests.servers.jars
	@touch .venv/.demo $@

.venv/.demo: pyproject.toml
	$(call install,.[demo$(COMMA)service],580 MB)
	@$(VENV)/python -m snapkafka.runtime.maven kafka spark
	@touch $@

# Into .venv, by uv where it is, else by pip.
COMMA := ,
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "snapkafka needs Python 3.11 or newer: add PYTHON=python3.12")'
	@test -x $(VENV)/pip || $(PYTHON) -m venv --clear .venv
	@echo 'Installing $(1) into .venv; the first time $(2) are fetched'
	@if command -v uv >/dev/null; then uv pip install --quiet --python .venv --editable '$(1)'; \
	 else $(VENV)/pip install --quiet --disable-pip-version-check --editable '$(1)'; fi
endef

# uv can resolve to the lowest of what is named.
.venv/oldest/.ready: pyproject.toml $(READY)
	@$(VENV)/python -m venv --clear .venv/oldest
	@.venv/oldest/bin/pip install --quiet uv
	@.venv/oldest/bin/uv pip install --quiet --python .venv/oldest --resolution lowest-direct --editable '.[dev]'
	@touch $@

.venv/packages/.ready: pyproject.toml
	@$(PYTHON) -m venv --clear .venv/packages
	@.venv/packages/bin/pip install --quiet --disable-pip-version-check 'build>=1.2,<2' 'twine>=7,<8' 'check-wheel-contents>=0.6,<1' \
	  'cyclonedx-bom>=7.5,<8' 'pip-audit>=2.10,<3' 'zizmor>=1.32,<2'
	@touch $@

# All that a user may have, and nothing else: no pip, no tools of ours.
build/released/.ready: pyproject.toml .venv/packages/.ready
	@rm -rf build/released
	@$(PYTHON) -m venv --without-pip build/released
	@if command -v uv >/dev/null; then INSTALL="uv pip install --python build/released"; \
	 else INSTALL=".venv/packages/bin/python -m pip --python build/released/bin/python install"; fi; \
	 $$INSTALL --quiet '.[demo,s3,service]'
	@touch $@

# No test and no lint needs these.
.venv/docs/.ready: Makefile $(READY)
	@$(VENV)/python -m venv --clear .venv/docs
	@.venv/docs/bin/pip install --quiet --disable-pip-version-check 'sphinx>=9.0.4,<10' 'furo>=2025.12.19,<2027' 'myst-parser>=5.2,<6'
	@touch $@

# Airflow needs a croniter that Faust does not allow: an environment of its own. uv where it is, else pip.
.venv/airflow/.ready: pyproject.toml connectors/airflow/pyproject.toml $(READY)
	@$(VENV)/python -m venv --clear .venv/airflow
	@if command -v uv >/dev/null; then INSTALL="uv pip install --python .venv/airflow"; \
	 else INSTALL=".venv/airflow/bin/pip install"; fi; \
	 $$INSTALL --quiet --editable '.[cli]' --editable 'connectors/airflow[test]'
	@touch $@

# A browser's driver, axe and schemathesis: nothing that a developer needs every day. Chromium is Debian's.
.venv/web/.ready: pyproject.toml
	@$(PYTHON) -m venv .venv/web
	@.venv/web/bin/pip install --quiet --disable-pip-version-check 'playwright>=1.65,<1.66' \
	  'axe-playwright-python>=0.1.8,<0.2' 'schemathesis>=4.32,<5'
	@touch $@

# mutmut needs a click that Faust does not allow: an environment of its own.
.venv/mutation/.ready: pyproject.toml $(READY)
	@$(VENV)/python -m venv .venv/mutation
	@.venv/mutation/bin/pip install --quiet --editable '.[mutation]'
	@touch $@
