# Each target does its own set-up: one virtual environment, .venv, made again only when pyproject.toml, constraints.txt
# or the Makefile change.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Modules are compiled once, not again by each of the thousand processes that tests start.
unexport PYTHONDONTWRITEBYTECODE
export PYSPARK_PYTHON = $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON = $(CURDIR)/$(BIN)/python
# `make soak SECONDS=60`. bash has a variable SECONDS of its own, so only one from the command line counts.
SECONDS_OF_SOAK := $(if $(filter command line,$(origin SECONDS)),$(SECONDS),1800)

.PHONY: help setup demo test test-others check check-types check-names check-rest fix bench soak interop browser clean need-python need-java

help: ## what there is
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## one virtual environment, .venv, with everything in it

demo: need-java $(READY) ## 336,776 flights through a queue and Spark, killed on the way, compared with pandas
	@$(BIN)/rmq demo

# Three at a time on two cores, for many tests wait for processes and disks; with Spark, whose tests do not, two. What
# these need is made beside the others.
test: need-java $(READY) ## all tests but those that need a Java client or a browser, or measure
	@$(MAKE) --no-print-directory --keep-going -j 2 test-others $(COMPILED_SPARK)
	@SPARK_HOME=$(CURDIR)/$(COMPILED_SPARK) $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "spark and not benchmark" $(SPARK_TESTS)

test-others: $(READY)
	@$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "not spark and not java and not benchmark and not browser" $(PASSED_OVER)

# Spark that starts quickly, for tests alone: who measures has Spark as pip installs it.
COMPILED_SPARK := $(VENV)/compiled-spark
# Where tests with Spark are: to look at all others, too, takes both cores ten seconds.
SPARK_TESTS := tests/spark tests/integration/cli/test_cli_up_demo.py tests/integration/examples
# Where all tests need Spark, Java or a browser: to look at them for nothing takes both cores three seconds.
PASSED_OVER := $(addprefix --ignore=tests/,spark java browser)

$(COMPILED_SPARK): $(READY)
	@$(BIN)/python tests/compiled_spark.py $@

check: $(READY) ## lint, format, types, import rules
	@$(MAKE) --no-print-directory --keep-going -j 2 $(TOLD_APART) check-types check-names check-rest

# The types of the package take as long as the names in its tests: one core each. What one says is shown when it is done.
TOLD_APART := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

check-types: $(READY)
	@$(BIN)/mypy

check-names: $(READY)
	@$(BIN)/mypy --config-file tests/mypy.ini

check-rest: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/python docs/generate.py --check

fix: $(READY) ## what lint and format can mend by themselves
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/python docs/generate.py

bench: need-java $(READY) ## paths through Spark and the broker: a table and JSON in bench-results/
	@$(BIN)/python benchmarks/run.py $(ARGS)

soak: need-java $(READY) ## the long forms of property and fault tests, in rounds: make soak SECONDS=1800
	@$(BIN)/python tests/soak.py $(SECONDS_OF_SOAK)

interop: need-java $(READY) ## Apache RocketMQ's own clients and tools against our broker (fetches them once)
	@$(BIN)/python -m pytest -q -m java -p no:randomly

browser: $(READY) ## the console in a real browser: every page, wide and narrow, by keyboard, for who cannot see it
	@command -v chromium >/dev/null || { echo "Chromium is missing. On Debian and Ubuntu: apt install chromium" >&2; exit 1; }
	@$(BIN)/python -m pip install -q -c constraints.txt --group browser
	@$(BIN)/python -m pytest -q -m browser

clean: ## remove what make made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache bench-results

$(READY): pyproject.toml constraints.txt Makefile | need-python
	@echo "Setting up $(VENV) (a few minutes the first time) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q -c constraints.txt pip
	@$(BIN)/python -m pip install -q --no-compile -c constraints.txt -e '.[admin,spark,delta,demo]' --group dev
	@$(BIN)/python -m compileall -qq -j 2 -x '/tests?/' $(VENV)/lib || true # pip would on one core; a file for another Python is no harm
	@touch $@

need-python:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is missing. On Debian and Ubuntu: apt install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, $$($(PYTHON) --version) is here. Name another: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python has no venv. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

need-java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; package="On Debian and Ubuntu: apt install openjdk-17-jre-headless"; \
	  command -v "$$java" >/dev/null || { echo "Spark needs a Java runtime, 17 or newer$${JAVA_HOME:+, and JAVA_HOME=$$JAVA_HOME has none}. $$package" >&2; exit 1; }; \
	  version=$$({ "$$java" -version 2>&1 || true; } | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p'); \
	  test "$${version:-0}" -ge 17 || { echo "Spark needs Java 17 or newer, and $$java is $${version:-none that tells its version}. $$package" >&2; exit 1; }
