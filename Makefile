# Each target sets up what it needs; a machine needs Python 3.11 or newer, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# What counts all connections to the database, those of other tests too.
ALONE := tests/processes/test_crowded.py
# The tests of what decides who may do what, and of what is written of it.
SUFFICIENT := tests/access $(addprefix tests/contract/test_,access.py audit.py audit_refusals.py throttling.py permission_matrix.py prompts.py resources.py completion.py) \
	tests/protocol $(addprefix tests/records/test_,redaction.py hidden_texts.py errors_on_record.py) \
	tests/admin/test_pending_calls.py tests/admin/test_approval_queue.py tests/admin/test_call_log.py \
	tests/admin/test_scopes.py tests/admin/test_sees.py tests/management/test_pending.py \
	tests/management/test_missing_tools.py $(addprefix tests/oauth/test_,authorization.py consent.py tokens.py toolsets.py) tests/server/test_query_counts.py \
	tests/apps/test_token_limits.py $(addprefix tests/registry/test_,hidden_tools.py kinds.py) \
	tests/server/test_batch_limits.py tests/server/test_elicitation.py \
	tests/server/test_param_headers.py tests/server/test_toolsets.py \
	tests/transports/test_body_read_before.py
# The extras whose packages are pinned in tests/constraints.txt.
LOCKED := browser,demo,dist,docs,faults,fuzz,hostile,lint,mutation,services,test
# The extras that need no library of the system's.
AT_ONCE := browser,demo,docs,fuzz,hostile,lint,services,test
COMMA := ,
# Without bytecode each process of the tests would compile them anew, which takes it 7 seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo docs test alone contract coverage mutants lane fuzz stress records pages browser faults hostile load services lint conformance sites netbox oldest
.PHONY: proofs messages clients bench bench-quick bench-page tox audit dist lock clean

help:  ## Show the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'

install: | $(VENV)/bin/python  ## Install what most of the targets below need, at once
	$(BIN)/python -m pip install -q --disable-pip-version-check -c tests/constraints.txt -e '.[$(AT_ONCE)]'
	@touch $(addprefix $(VENV)/.,$(subst $(COMMA), ,$(AT_ONCE)))

demo: $(VENV)/.demo  ## Serve the newsroom, after a scripted session (ARGS=--once ends with it)
	$(BIN)/python manage.py demo $(ARGS)

test: $(VENV)/.demo $(VENV)/.test  ## Run the tests (ARGS="-k name" for some)
	$(BIN)/python -m pytest $(or $(ARGS),-n 2 --dist worksteal)

alone: $(VENV)/.demo $(VENV)/.test .conformance/installed  ## The tests that start sites and servers in processes of their own, race, or measure
	$(BIN)/python -m pytest -m alone $(or $(ARGS),-n 2 --dist worksteal)

proofs:  ## Everything that takes long, before a release: all tests in each surrounding, and every proof whole
	$(MAKE) alone
	$(MAKE) pages
	$(MAKE) lane
	$(MAKE) stress
	$(MAKE) records
	$(MAKE) fuzz
	$(MAKE) browser
	$(MAKE) hostile
	.ci/services $(MAKE) sites
	$(MAKE) clients
	.ci/faults $(MAKE) faults
	.ci/services $(MAKE) services
	.ci/newest $(MAKE) tox
	$(MAKE) load
	$(MAKE) mutants

coverage: $(VENV)/.demo $(VENV)/.test  ## Every branch of protocol/, access/ and what hides secrets, by the tests that suffice
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --cov-fail-under=100 \
		--cov=mcp_bridge.protocol --cov=mcp_bridge.access \
		--cov=mcp_bridge.records.redaction \
		$(SUFFICIENT)

mutants: $(VENV)/.demo $(VENV)/.test $(VENV)/.mutation  ## Change the same code in every small way, and see whether one of these tests fails (ARGS="mcp_bridge.protocol.text.*" for some)
	$(BIN)/python -m tests.mutation $(ARGS) --tests $(SUFFICIENT)

fuzz: export FUZZ_SEED := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
fuzz: $(VENV)/.demo $(VENV)/.test $(VENV)/.fuzz  ## 10,000 values a kind (EXAMPLES), 100,000 changed requests (MUTATIONS), ten minutes by coverage (SECONDS); new ones, or those of a SEED
	FUZZ=1 FUZZ_EXAMPLES=$(or $(EXAMPLES),10000) FUZZ_MUTATIONS=$(or $(MUTATIONS),100000) FUZZ_SECONDS=$(or $(SECONDS),600) \
		$(BIN)/python -m pytest -n 2 -m "" --hypothesis-seed=$$FUZZ_SEED tests/fuzz tests/server/test_state_machine.py \
		tests/schemas/test_differential.py tests/schemas/test_many_dataclasses.py \
		tests/schemas/validation/test_differential.py tests/records/test_redaction.py \
		tests/confirmation/test_rendering.py tests/admin/test_call_records.py \
		tests/sources/admin/test_many_admins.py $(ARGS) \
		|| { echo "To try the same again: make fuzz SEED=$$FUZZ_SEED, with the other variables as they were"; exit 1; }

records: $(VENV)/.demo $(VENV)/.test  ## The proofs of records with a file of SQLite, written together and each at once
	for write in together now; do \
		MCP_BRIDGE_TEST_WRITE=$$write MCP_BRIDGE_TEST_FILE=$(VENV)/records.sqlite3 $(BIN)/python -m pytest -m "" \
			$(or $(ARGS),-n 2 --dist loadfile tests/records tests/calls tests/server tests/admin/test_call_records.py) \
			|| exit 1; \
	done

browser: $(VENV)/.demo $(VENV)/.test $(VENV)/.browser  ## The admin pages in Chromium, in themes too, with pictures in .screenshots
	BROWSER=1 $(BIN)/python -m pytest tests/browser $(ARGS)

contract: $(VENV)/.demo $(VENV)/.test  ## Run the tests of the front door on each way in (WAYS="wsgi asgi lane stdio rest tasks")
	for way in $(or $(WAYS),wsgi asgi lane stdio rest tasks); do \
		echo "$$way:"; WAY=$$way $(BIN)/python -m pytest -q $(or $(ARGS),-n 2 --dist worksteal tests/contract) || exit 1; \
	done

lane: $(VENV)/.demo $(VENV)/.test .conformance/installed  ## Run all tests with every client on the direct lane
	WAY=lane $(BIN)/python -m pytest -m "" $(or $(ARGS),-n 2 --dist worksteal)

pages: $(VENV)/.demo $(VENV)/.test  ## Each page of the admin: every kind of person, hostile input, all links, no text without translation
	PAGES=1 $(BIN)/python -m pytest $(or $(ARGS),-n 2 --dist worksteal tests/pages)

stress: $(VENV)/.demo $(VENV)/.test  ## Processes and threads against one another, in full
	STRESS=1 RELOADS=$(or $(RELOADS),1000) $(BIN)/python -m pytest tests/processes tests/ext/grpc/test_forks.py $(ARGS)

faults: $(VENV)/.demo $(VENV)/.test $(VENV)/.faults  ## Databases, a cache and processes that fail while sites are served (as root; .ci/faults installs the servers)
	FAULTS=1 $(BIN)/python -m pytest $(or $(ARGS),-n 2 --dist loadfile tests/faults)

hostile: $(VENV)/.demo $(VENV)/.test $(VENV)/.hostile  ## Hostile requests to two sites on every server (ARGS="--only cursors" for some)
	$(BIN)/python -m tests.hostile $(ARGS)

load: $(VENV)/.demo $(VENV)/.test  ## Many connections, callers, tools and calls (ARGS="--calls 100000")
	$(BIN)/python -m tests.hostile.load $(ARGS)

services: $(VENV)/.demo $(VENV)/.test $(VENV)/.services .conformance/installed  ## The tests on PostgreSQL and Redis, whose URLs are in MCP_BRIDGE_TEST_*_URL
	@: $${MCP_BRIDGE_TEST_DATABASE_URL:?such as postgres://user@localhost/name} $${MCP_BRIDGE_TEST_CACHE_URL:?such as redis://localhost/0}
	RELOADS=$(or $(RELOADS),1000) PAGES=1 STRESS=1 $(BIN)/python -m pytest -m "" $(or $(ARGS),-n 2 --dist loadfile \
		--ignore $(ALONE) $(addprefix --ignore tests/,benchmarks features protocol))
	$(if $(ARGS),,STRESS=1 $(BIN)/python -m pytest $(ALONE))

# The date of a run is left out: the catalogues change only where messages do.
messages: $(VENV)/.demo $(VENV)/.test  ## Collect the texts to translate, and compile the translations (GNU gettext is needed)
	@command -v msgmerge > /dev/null || { echo "GNU gettext is needed: xgettext, msgmerge, msgfmt"; exit 1; }
	cd mcp_bridge && ../$(BIN)/python -m django makemessages --all --no-location --no-wrap --no-obsolete
	sed -i '/^"POT-Creation-Date: /d' mcp_bridge/locale/*/LC_MESSAGES/django.po
	cd mcp_bridge && ../$(BIN)/python -m django compilemessages

lint: $(VENV)/.demo $(VENV)/.test $(VENV)/.lint  ## Check format, style, types and import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg

docs: $(VENV)/.docs  ## Build the documentation into site/; every link and anchor must lead somewhere (ARGS=serve serves it)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(ARGS),build --strict --quiet)

conformance: $(VENV)/.demo $(VENV)/.test $(if $(MCP_BRIDGE_TEST_DATABASE_URL),$(VENV)/.services)  ## Official conformance suite, MCP Inspector, mcpcheck; the suite on PostgreSQL too if MCP_BRIDGE_TEST_DATABASE_URL is set
	$(BIN)/python tests/conformance/run.py

# The server of the TypeScript SDK is tested with, too.
.conformance/installed: | $(VENV)/.test
	$(BIN)/python tests/conformance/run.py --install

sites: $(VENV)/.test  ## Install the bridge into Wagtail, django CMS, helpdesk, djoser, knox, sites with own users, label-studio, ARA and oscar; all of their APIs as tools (ARGS="djoser ara" for some)
	$(BIN)/python -m tests.sites $(ARGS)

oldest:  ## The tests of REST views with the oldest drf-spectacular that the extra allows
	test -d .venv-oldest || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install -q --disable-pip-version-check -c tests/oldest.txt -e '.[test]'
	.venv-oldest/bin/python -m pytest -q -n 2 $(or $(ARGS),tests/sources/rest_framework tests/sources/test_every_source.py)

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

bench-page:  ## Put the last run's tables and charts into docs/project/performance.md
	.venv-bench/bin/python -m benchmarks.page $(ARGS)

tox: $(VENV)/.tox $(VENV)/.test .conformance/installed  ## Run the tests, with coverage, on every supported pair of Python and Django at hand
	$(BIN)/tox $(ARGS)

audit: $(VENV)-dist/.dist  ## Ask for known vulnerabilities of the pinned packages, where that data can be had
	$(VENV)-dist/bin/python .ci/audit

dist: $(VENV)/.lint $(VENV)-dist/.dist  ## Build the last commit: a reproducible wheel, the source, a CycloneDX list of what it brings
	.ci/dist

lock:  ## Pin the newest packages that setup.cfg allows, for all targets (tox goes on with unpinned ones)
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install -q --disable-pip-version-check '.[$(LOCKED)]'
	$(VENV)-lock/bin/python -m pip freeze --exclude django-mcp-bridge > tests/constraints.txt
	rm -rf $(VENV)-lock

clean:  ## Remove what the targets made
	rm -rf $(VENV) $(VENV)-dist mutants .venv-bench .venv-sites .venv-netbox .venv-oldest .tox .clients .conformance build dist site *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11+ is needed")'
	$(PYTHON) -m venv $(VENV)

# What lists packages brings a library with which jsonschema takes ten times as long to import.
$(VENV)-dist/.dist: setup.cfg tests/constraints.txt | $(VENV)/bin/python
	$(PYTHON) -m venv $(VENV)-dist
	$(VENV)-dist/bin/python -m pip install -q --disable-pip-version-check -c tests/constraints.txt '.[dist]'
	@touch $@

$(VENV)/.tox: $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check 'tox>=4.20'
	@touch $@

$(VENV)/.%: setup.cfg pyproject.toml tests/constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -c tests/constraints.txt -e '.[$*]'
	@touch $@
