# Each target sets up what it needs; a machine needs Python 3.11 or newer, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Without bytecode each process of the tests would compile them anew, which takes it 7 seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test lane fuzz stress records browser services lint conformance sites netbox clients
.PHONY: bench bench-quick bench-page tox clean

help:  ## Show the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'

demo: $(VENV)/.demo  ## Serve the newsroom, after a scripted session (ARGS=--once ends with it)
	$(BIN)/python manage.py demo $(ARGS)

test: $(VENV)/.demo $(VENV)/.test  ## Run the tests (ARGS="-k name" for some)
	$(BIN)/python -m pytest $(or $(ARGS),-n 2 --dist worksteal)

fuzz: $(VENV)/.demo $(VENV)/.test  ## Hold schemas against what is enforced: 10,000 new values a kind, 1,000 new classes
	FUZZ_EXAMPLES=$(or $(EXAMPLES),10000) $(BIN)/python -m pytest -n 2 \
		tests/schemas/test_differential.py tests/schemas/test_many_dataclasses.py \
		tests/schemas/validation/test_differential.py tests/audit/test_redaction.py \
		tests/access/test_rendering.py tests/admin/test_call_records.py $(ARGS)

records: $(VENV)/.demo $(VENV)/.test  ## The proofs of records with a file of SQLite, written together and each at once
	for write in together now; do \
		MCP_BRIDGE_TEST_WRITE=$$write MCP_BRIDGE_TEST_FILE=$(VENV)/records.sqlite3 $(BIN)/python -m pytest \
			$(or $(ARGS),-n 2 --dist loadfile tests/audit tests/calls tests/server tests/admin/test_call_records.py) \
			|| exit 1; \
	done

browser: $(VENV)/.demo $(VENV)/.test $(VENV)/.browser  ## The admin pages in Chromium, with pictures in .screenshots
	BROWSER=1 $(BIN)/python -m pytest tests/browser $(ARGS)

lane: $(VENV)/.demo $(VENV)/.test  ## Run the tests with every client on the direct lane
	LANE=1 $(BIN)/python -m pytest $(or $(ARGS),-n 2 --dist worksteal)

stress: $(VENV)/.demo $(VENV)/.test  ## Processes and threads against one another, in full
	STRESS=1 RELOADS=1000 $(BIN)/python -m pytest tests/processes $(ARGS)

services: $(VENV)/.demo $(VENV)/.test $(VENV)/.services  ## The tests on PostgreSQL and Redis, whose URLs are in MCP_BRIDGE_TEST_*_URL
	@: $${MCP_BRIDGE_TEST_DATABASE_URL:?such as postgres://user@localhost/name} $${MCP_BRIDGE_TEST_CACHE_URL:?such as redis://localhost/0}
	RELOADS=1000 STRESS=1 $(BIN)/python -m pytest $(or $(ARGS),-n 2 --dist loadfile)

lint: $(VENV)/.demo $(VENV)/.test $(VENV)/.lint  ## Check format, style, types and import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg

conformance: $(VENV)/.demo $(VENV)/.test  ## Official conformance suite, MCP Inspector, mcpcheck
	$(BIN)/python tests/conformance/run.py

sites: $(VENV)/.test  ## Install the bridge into Wagtail, django CMS, helpdesk, djoser, knox and sites with own users; all of their APIs as tools
	$(BIN)/python -m tests.sites $(ARGS)

netbox:  ## All of NetBox as tools, with figures (PYTHON=python3.12 or newer; PostgreSQL and Redis in MCP_BRIDGE_TEST_*_URL)
	@: $${MCP_BRIDGE_TEST_DATABASE_URL:?such as postgres://user@localhost/name} $${MCP_BRIDGE_TEST_CACHE_URL:?such as redis://localhost/0}
	test -d .venv-netbox || $(PYTHON) -m venv .venv-netbox
	.venv-netbox/bin/python -m pip install -q --disable-pip-version-check -r tests/sites/netbox/requirements.txt '.[drf,ninja]'
	.venv-netbox/bin/python -m pip install -q --disable-pip-version-check --force-reinstall --no-deps .
	.venv-netbox/bin/python -m tests.sites.netbox

clients:  ## Real clients and strict schema converters against the newsroom (ARGS=--write writes docs/clients)
	$(PYTHON) -m tests.clients $(ARGS)

bench:  ## Measure side by side with empty views, django-mcpz and bolt-mcp (PYTHON=python3.13 for that one)
	test -d .venv-bench || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install -q -e . -r benchmarks/requirements.txt
	.venv-bench/bin/python -m benchmarks $(ARGS)

bench-quick: $(VENV)/.demo $(VENV)/.test  ## Count function calls, against benchmarks/quick.json (ARGS=--write keeps the new ones)
	$(BIN)/python -m benchmarks.quick $(ARGS)

bench-page:  ## Put the last run's tables and charts into docs/performance.md
	.venv-bench/bin/python -m benchmarks.page $(ARGS)

tox: $(VENV)/.tox  ## Run the tests, with coverage, on every supported pair of Python and Django at hand
	$(BIN)/tox $(ARGS)

clean:  ## Remove what the targets made
	rm -rf $(VENV) .venv-bench .venv-sites .venv-netbox .tox .clients .conformance build dist *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11+ is needed")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.tox: $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check 'tox>=4.20'
	@touch $@

$(VENV)/.%: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[$*]'
	@touch $@
