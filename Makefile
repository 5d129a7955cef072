# Two commands are enough: `make up` and `make test`. Everything installs what it needs, once.

PROFILE ?= local
PYTHON ?= python3
BIN := .venv/bin
BOOTSTRAP = $(PYTHON) mesh/bootstrap
# Further arguments of the program behind a target, such as ARGS="tests/unit -k budget" for `make test`.
ARGS ?=

PACKAGES := api shared router classifier cache engine traces outcomes mesh client

.DEFAULT_GOAL := help
.PHONY: images test-pods bench-pods help up down status logs doctor env env-test test check format protos bench-overhead bench-cache test-scenarios bench-resilience

help: ## List what can be made
	@echo "usage: make TARGET [PROFILE=local|lite|laptop] [PYTHON=python3]"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/  \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name what; do printf '  %-16s %s\n' "$$name" "$$what"; done

up: ## Install what the profile needs, start the mesh, return when it has answered
	@$(BOOTSTRAP) up --profile $(PROFILE) $(ARGS)

down: ## Let requests in flight finish, then stop the mesh
	@$(BOOTSTRAP) run -- down $(if $(filter command line environment,$(origin PROFILE)),--profile $(PROFILE))

status: ## Show every process and which configuration is served
	@$(BOOTSTRAP) run -- status $(if $(filter command line environment,$(origin PROFILE)),--profile $(PROFILE))

logs: ## Show the logs; ARGS="engine-l1-0 -f" for one, live
	@$(BOOTSTRAP) run -- logs $(ARGS) $(if $(filter command line environment,$(origin PROFILE)),--profile $(PROFILE))

doctor: ## Look for what is commonly wrong
	@$(BOOTSTRAP) run -- doctor $(if $(filter command line environment,$(origin PROFILE)),--profile $(PROFILE))

env: ## Install only: the base environment and the development tools, without language models
	@$(BOOTSTRAP) env --dev --base-only

env-test: ## Install everything that the tests need, language models included
	@$(BOOTSTRAP) env --dev --profile local
	@$(BIN)/python -m tiermesh.cache.fetch_embedder

test: env-test check ## Run every check and every test
	@echo "test: pytest"
	@$(BIN)/python -m pytest $(ARGS)

check: env ## Format, lint, types, layers, contracts, generated code
	@echo "check: format";         $(BIN)/ruff format --check --quiet . || { echo "run \`make format\`" >&2; exit 1; }
	@echo "check: lint";           $(BIN)/ruff check --quiet .
	@echo "check: types";          $(BIN)/mypy --no-error-summary $(PACKAGES:%=-p tiermesh.%)
	@echo "check: types (benchmarks/routing, training)"; MYPYPATH=services/classifier/training:benchmarks $(BIN)/mypy --no-error-summary -m design -m fit -m heads -m subjects_fit -m train -m generate -m routing_eval -m classifier_speed -p routing -p classifier
	@echo "check: types (mesh/bootstrap)"; MYPYPATH=mesh $(BIN)/mypy --no-error-summary -p bootstrap
	@echo "check: import layers";  out=$$($(BIN)/lint-imports) || { echo "$$out" >&2; exit 1; }
	@echo "check: rules";          $(BIN)/tiermesh rules lint --strict --quiet mesh/profiles/rules.yaml
	@echo "check: contracts";      $(BIN)/python protos/check.py
	@echo "check: generated code"; $(BIN)/python protos/generate.py --check
	@echo "check: generated pages"; $(BIN)/python docs/generate.py --check
	@echo "check: generated chart"; $(BIN)/python helm/generate.py --check

format: env ## Write the format that `make check` asks for
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --quiet .

protos: env ## Generate what is written from other files: protos/gen, pages of docs, schema of the chart
	@$(BIN)/python protos/generate.py
	@$(BIN)/python docs/generate.py
	@$(BIN)/python helm/generate.py

bench-overhead: env ## Measure what the mesh adds to a request
	@$(BIN)/python benchmarks/overhead.py

.PHONY: train-classifier eval-routing
TRAINING := services/classifier/training

train-classifier: env ## Write the training prompts, train the classifier's model, show its accuracy
	@OMP_NUM_THREADS=1 $(BIN)/python $(TRAINING)/generate.py
	@OMP_NUM_THREADS=1 $(BIN)/python $(TRAINING)/train.py $(ARGS)

eval-routing: env ## Measure routing on recorded outcomes; ARGS="--data FOLDER"
	@$(BIN)/python benchmarks/routing_eval.py $(ARGS)

bench-cache: env ## Measure the answer cache: right and false hits beside other caches, latency
	@OMP_NUM_THREADS=1 GRPC_VERBOSITY=ERROR $(BIN)/python benchmarks/cache_bench.py $(ARGS)

images: env ## Build the images of the chart; ARGS="--builder buildah"
	@$(BIN)/python helm/images.py $(ARGS)

test-pods: env ## Run the pods of the chart on this machine, without a cluster; needs root and Buildah; minutes
	@$(BIN)/python -m pytest tests/pods $(ARGS)

bench-pods: env ## Measure memory and CPU of the chart's containers, without a cluster; needs what test-pods needs
	@OMP_NUM_THREADS=1 GRPC_VERBOSITY=ERROR $(BIN)/python benchmarks/pod_sizes.py $(ARGS)

test-scenarios: env ## Kill, hang and slow down every process of a mesh under load; minutes
	@$(BIN)/python -m pytest tests/scenarios $(ARGS)

bench-resilience: env ## Measure what faults, outages and overload do to requests
	@$(BIN)/python benchmarks/resilience.py $(ARGS)

.PHONY: bench-classifier
bench-classifier: env ## Measure the classifier: rules, model, batching, start
	@$(BIN)/python benchmarks/classifier_speed.py $(ARGS)

.PHONY: bench-learning
bench-learning: env ## Measure what the log of outcomes can tell, on recorded outcomes; ARGS="--data FOLDER"
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/learning_bench.py $(ARGS)
