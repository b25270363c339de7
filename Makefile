# Everything a newcomer needs: `make run`, `make test`. `make help` lists the rest.

export CARGO_TARGET_DIR ?= $(CURDIR)/target
export CLOISTER_HOME ?= $(HOME)/.cloister
CLOISTER := $(CARGO_TARGET_DIR)/debug/cloister
DEMO_DIR := $(CLOISTER_HOME)/demo

.PHONY: help run test test-slow tasks build deps models demo fuzz lint

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

run: demo ## install what is missing, build, fetch the models, solve the demo task

deps: ## install the Debian packages that are missing
	@sh deploy/deps.sh

build: deps ## build the binary
	cargo build --workspace --locked

models: build ## fetch the chat and the embedding model (resumable, sha256 checked)
	@$(CLOISTER) models pull

# The demo works on a copy, so that it can be run again; the repository here stays as it is.
demo: models
	@rm -rf "$(DEMO_DIR)" && mkdir -p "$(DEMO_DIR)" && cp -r deploy/demo/repo/. "$(DEMO_DIR)"
	@$(CLOISTER) run --apply --repo "$(DEMO_DIR)" "$$(cat deploy/demo/task.md)"

test: deps ## all quick tests
	@sh deploy/test.sh

test-slow: models ## the tests that need the real models and a real runtime
	@CLOISTER_SLOW=1 CLOISTER_TEST_MODELS="$(CLOISTER_HOME)/store/models" sh deploy/test.sh

tasks: models ## solve the tasks in ../shared/tasks and print a table (TASKS=DIR for others, ONLY=NAME for one)
	@"$(CARGO_TARGET_DIR)/debug/tasks" $(or $(TASKS),../shared/tasks) $(ONLY)

fuzz: deps ## every fuzzer for SECONDS (default 300)
	@CARGO_TARGET_DIR="$(CARGO_TARGET_DIR)/fuzz" sh fuzz/run.sh $(or $(SECONDS),300)

lint: deps ## formatting and clippy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
