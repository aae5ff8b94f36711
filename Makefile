# Every target first makes .venv and installs what it needs, from Python 3.11, make and a package index alone.
# A finished installation leaves a stamp in .venv, so the next call starts at once; a changed requirements file
# installs anew. After that no target needs the network.
#
# ffmpeg comes with the wheel imageio-ffmpeg and is linked as .venv/bin/ffmpeg: app.py puts the bin folder of
# its own interpreter first on its PATH, so no program has to be on the system's.
#
#   make run ARGS="--port 8000"       PYTHON=python3.12 make run

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# Absolute paths would tie a moved folder to its old place, so tools run as modules of this interpreter.
RUN := $(BIN)/python -m
PIP_INSTALL := $(RUN) pip install --disable-pip-version-check -c constraints.txt
APT_GET := DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600
MAKEFLAGS += --no-print-directory

define LINK_FFMPEG
import imageio_ffmpeg, os, shutil; \
program, link = shutil.which(imageio_ffmpeg.get_ffmpeg_exe()), "$(BIN)/ffmpeg"; \
os.path.lexists(link) and os.remove(link); \
os.symlink(os.path.relpath(program, "$(BIN)"), link)
endef

.PHONY: help run test slow load fuzz lint bench bench-full grammars install install-dev install-training chromium constraints

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 18

run: $(VENV)/.runtime  ## open the studio (ARGS goes to app.py)
	$(BIN)/python app.py $(ARGS)

test: $(VENV)/.dev  ## the quick tests
	$(RUN) pytest -m "not slow and not load" -n auto --maxprocesses 4 --dist loadfile $(ARGS)

slow: $(VENV)/.dev  ## the tests that take minutes
	$(RUN) pytest -m slow $(ARGS)

load: $(VENV)/.dev  ## the tests under load
	$(RUN) pytest -m load $(ARGS)

fuzz: $(VENV)/.dev  ## three minutes of wrong requests to every route
	$(RUN) pytest -m load tests/security/test_fuzz_api.py $(ARGS)

lint: $(VENV)/.dev  ## ruff and mypy
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy engine studio app.py

bench: $(VENV)/.runtime  ## the measurements of bench/ (ARGS goes to them)
	$(RUN) bench $(ARGS)

bench-full: $(VENV)/.runtime  ## the release at full size with random weights (15.3 GB in FOLDER)
	$(RUN) bench.full --folder $(or $(FOLDER),$(HOME)/.cache/zonos2-studio/full) $(ARGS)

grammars: $(VENV)/.runtime  ## the text grammars of nine languages, 5 minutes (ARGS: LANGUAGE... --folder FOLDER)
	$(RUN) engine.text.grammars $(ARGS)

install: $(VENV)/.runtime  ## what `make run` needs
install-dev: $(VENV)/.dev  ## what tests and checks need
install-training: $(VENV)/.training  ## what training/ needs

$(VENV)/.runtime: requirements.txt requirements-nodeps.txt constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -r requirements.txt
	$(PIP_INSTALL) --no-deps -r requirements-nodeps.txt
	env -u IMAGEIO_FFMPEG_EXE $(BIN)/python -c '$(LINK_FFMPEG)'
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt requirements-dev-nodeps.txt
	$(PIP_INSTALL) -r requirements-dev.txt
	$(PIP_INSTALL) --no-deps -r requirements-dev-nodeps.txt
	$(MAKE) chromium || echo "Without Chromium the browser tests will be skipped."
	touch $@

$(VENV)/.training: $(VENV)/.dev requirements-training.txt
	$(PIP_INSTALL) -r requirements-training.txt
	touch $@

chromium:  ## Debian's Chromium for the browser tests, installed where root and apt-get are at hand
	@command -v chromium || { \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; } \
	    || { echo "Chromium is missing and cannot be installed here: that takes root and apt-get."; exit 1; }; \
	  $(APT_GET) update; \
	  $(APT_GET) install -y --no-install-recommends chromium fonts-dejavu-core; }

constraints:  ## resolve the whole set anew, after a version in a requirements file was changed
	rm -rf $(VENV)
	: > constraints.txt
	$(MAKE) install-training
	{ echo "# Every package of the whole set (run time, tests, training), resolved once on Python 3.11 and recorded by"; \
	  echo "# \`make constraints\`; a package that only another platform needs is not held here."; \
	  $(RUN) pip freeze | grep -v -i -E '^(descript-audio|nemo|resemblyzer)' | sed 's/+.*//'; } > constraints.txt
