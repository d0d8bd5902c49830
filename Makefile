# What a person types. Each goal sets up what it needs; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup setup-tests lab labs new run reset solve progress share unshare board doctor site tour test test-fast lint clean \
	tabletop tabletop-status tabletop-down tabletop-fail tabletop-heal tabletop-slow \
	hub hub-status hub-stop hub-forget submit results scaling trace report guide release mvapich2 gpu-check gpu-bundle container

# The set-up reads these from the environment (make setup MPI_HOME=…) and keeps them for all other goals.
export PYTHON MPI_HOME GPU_OPERATIONS NCCL_HOME CUDA_HOME TORCH_INDEX

VENV := .venv
PY := $(VENV)/bin/python
# Any Python begins the set-up, which then looks for one that it can use, or says what to install.
BOOT = $(or $(shell for name in $(PYTHON) python3.11 python3.12 python3.13 python3.10 python3; do \
	"$$name" -c "" >/dev/null 2>&1 && echo "$$name" && break; done),$(error There is no python3 here: install it))
NP ?= 1
TABLETOP := $(PY) -m slurm.tabletop
TABLE := $(if $(NAME),--name "$(NAME)")
ROOT_TOO := $(if $(filter 0,$(shell id -u)),--allow-root)# in a container one is often root
SHOW := notebooks/00_check_environment.ipynb

# The learners' archive (make release) has no solutions and no tests.
FOR_INSTRUCTORS := labs new reset solve tour guide release test test-fast lint setup-tests gpu-check gpu-bundle
ifneq ($(shell grep -s '"kind": "learners"' EDITION.json),)
HIDDEN := ^($(subst $() ,|,$(FOR_INSTRUCTORS))):
$(foreach goal,$(filter $(FOR_INSTRUCTORS),$(MAKECMDGOALS)),$(error make $(goal) is not in the learners' archive, \
	which holds no solutions and no tests. Your instructor has it))
ifneq ($(if $(filter run submit scaling,$(MAKECMDGOALS)),$(SOLVED)),)
$(error SOLVED=1 is not in the learners' archive, which holds no solutions and no tests. Your instructor has them)
endif
endif

# Asked before anything is set up: which lab, which exercise?
ifneq ($(filter trace,$(MAKECMDGOALS)),)
$(if $(FILE),,$(error Say which trace: make trace FILE=trace.json))
endif
ifneq ($(filter new run reset solve submit scaling,$(MAKECMDGOALS)),)
$(if $(LAB),,$(error Say which lab: make $(MAKECMDGOALS) LAB=$(if $(filter new,$(MAKECMDGOALS)),66_my_topic,40)))
endif
ifneq ($(filter solve,$(MAKECMDGOALS)),)
$(if $(EX),,$(error Say which exercise: make solve LAB=$(LAB) EX=$(LAB).1))
endif

help: ## this list
	@echo "High-Performance Distributed Deep Learning Labs"; echo
	@awk -F ':.*## ' -v hidden='$(or $(HIDDEN),^$$)' '$$0 ~ hidden {next} /^[a-z0-9-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' Makefile

# A learner's copy on a hub has no env/: its .venv is a link to the shared environment, which is set up.
setup: ## make .venv: packages, MPI, Horovod, labkit; verified on two ranks [GPU_OPERATIONS=NCCL] [MPI_HOME=…]
	@test ! -e env/setup.py || $(BOOT) env/setup.py

setup-tests: # what only the tests need on top: a browser
	@$(BOOT) env/setup.py --tests

mvapich2: setup ## MVAPICH2 2.3.7 beside this MPI, from source: make mvapich2 [SOURCE=file] [DEVICE=nemesis, sock or mrail]
	@$(PY) -m env.mvapich2 $(if $(SOURCE),--source "$(SOURCE)") $(if $(DEVICE),--device "$(DEVICE)")

# On a login node others could read along at a kernel's port: without its key they get no word.
lab: setup ## JupyterLab, opened at the first lab (PORT=8888)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/jupyter lab --ServerApp.root_dir="$(CURDIR)" \
		--KernelManager.transport_encryption=required --LabApp.default_url=/lab/tree/$(SHOW) \
		$(if $(PORT),--port $(PORT)) $(ROOT_TOO)

labs: setup ## write the learner's files and the README's table from solutions/
	@$(PY) -m authoring labs

new: setup ## begin a new lab: make new LAB=66_my_topic
	@$(PY) -m authoring new $(LAB)

# What is typed behind make; the same names in somebody's environment may mean anything.
typed = $(if $(filter command line,$(origin $(1))),$($(1)))
BUILDS = $(if $(call typed,HOROVOD),--horovod $(call typed,HOROVOD)) $(if $(call typed,MPI),--mpi $(call typed,MPI))

run: setup ## run a lab's script: make run LAB=40 NP=4 [SET="epochs=1"] [SOLVED=1] [HOROVOD=nccl] [MPI=mvapich2]
	@$(PY) -m labkit run $(LAB) --np $(NP) $(if $(SOLVED),--solved) $(if $(SET),--set $(SET)) $(BUILDS)

# The job's options: SET and the rest are read here, not from the environment of the job itself.
JOB = $(if $(RANKS),--ranks $(RANKS)) $(if $(SITE),--site $(SITE)) $(if $(SOLVED),--solved) \
	$(if $(WAIT),--wait) $(if $(SET),--set $(SET)) $(if $(call typed,ENV),--env $(call typed,ENV)) $(BUILDS)

submit: setup ## a lab as a batch job: make submit LAB=40 NODES=2 [RANKS=4 a node] [SITE=x] [SET=…] [SOLVED=1] [WAIT=1] [HOROVOD=…] [MPI=…] [ENV="A=1"]
	@$(PY) -m labkit submit $(LAB) $(if $(NODES),--nodes $(NODES)) $(JOB)

results: setup ## your batch jobs, their state and their records [LAB=40]
	@$(PY) -m labkit results $(LAB)

scaling: setup ## one job for each size: make scaling LAB=50 NODES=1,2,4,8; without NODES: the table of the last study
	@$(PY) -m labkit scaling $(LAB) $(if $(NODES),--nodes $(NODES)) $(JOB)

trace: setup ## open a trace in Perfetto's viewer, offline: make trace FILE=trace.json [PORT=9001]
	@$(PY) -m labkit trace "$(FILE)" $(if $(PORT),--port $(PORT))

report: setup ## check the report of lab 80, then render it as one page, HTML and PDF [FILE=report.md] [SOLVED=1]
	@$(PY) -m labkit report $(if $(FILE),"$(FILE)") $(if $(SOLVED),--solved)

reset: setup ## begin a lab afresh, yours is set aside: make reset LAB=40
	@$(PY) -m authoring reset $(LAB)

solve: setup ## put one answer into your notebook: make solve LAB=40 EX=40.1
	@$(PY) -m authoring solve $(LAB) $(EX)

progress: setup ## what you have solved so far
	@$(PY) -m labkit progress

share: setup ## let your instructor's class board show where you are [HIDDEN=1: without your name]
	@$(PY) -m labkit share $(if $(call typed,HIDDEN),--hidden)

unshare: setup ## take that back, and delete what was shared
	@$(PY) -m labkit unshare

board: setup ## where the class is stuck, of those who share: make board [DIR=folder] [HTML=page.html] [SERVE=8899] [HIDDEN=1] [WATCH=1] [NEW=1]
	@$(PY) -m labkit.board $(if $(call typed,DIR),"$(DIR)") $(if $(call typed,HTML),--html "$(HTML)") \
		$(if $(call typed,SERVE),--serve "$(SERVE)") $(if $(call typed,HIDDEN),--hide-names) \
		$(if $(call typed,WATCH),--watch) $(if $(call typed,NEW),--new)

doctor: setup ## what this machine has, and which lab runs here; with SITE=x: check a cluster
	@$(PY) -m $(if $(SITE),slurm.doctor "$(SITE)" $(if $(NODES),--nodes $(NODES)) $(if $(PATIENCE),--patience $(PATIENCE)),labkit doctor)

site: setup ## a few questions, then slurm/sites/NAME.sh for a new cluster
	@$(PY) -m slurm.new_site

tour: setup ## run every solved lab, then write report/index.html [LABS=10,20] [SMALL=1]
	@$(PY) -m authoring tour $(if $(LABS),--labs $(LABS)) $(if $(SMALL),--small)

guide: setup ## the instructor's guide: guide/index.html, offline; slides of each lab [LEARNERS=40] [HOMES=folder]
	@$(PY) -m authoring guide $(if $(LEARNERS),--learners $(LEARNERS)) $(if $(HOMES),--homes "$(HOMES)")

release: setup ## archives of the last commit, for learners and instructors: release/*.tar.gz [KEEP_ANSWERS=1]
	@$(PY) -m authoring release $(if $(KEEP_ANSWERS),--keep-answers)

# Podman, docker or buildah builds it; OPTIONS are more words for that program.
container: ## the labs as a container image: make container [EDITION=instructors] [ARCHIVE=labs.tar.gz] [BASE=image] [TORCH_INDEX=…]
	@$(BOOT) -m env.container $(if $(call typed,EDITION),--edition "$(EDITION)") $(if $(call typed,BASE),--base "$(BASE)") \
		$(if $(call typed,ARCHIVE),--archive "$(ARCHIVE)") $(if $(call typed,OPTIONS),--options="$(OPTIONS)")

# Brought along for a machine without a network: BUNDLE, else build/gpu-bundle where nothing is set up.
BROUGHT := $(if $(wildcard .venv/setup-stamp.json),,$(patsubst %/,%,$(dir $(wildcard build/gpu-bundle/bundle.json))))
GPU_BUNDLE = $(or $(call typed,BUNDLE),$(BROUGHT))

gpu-check: ## all that needs a GPU, in ten minutes: tests, labs, proofs, flop/s [BUNDLE=folder] [LABS=40,46] [MINUTES=10]
	@$(BOOT) -m env.gpu_check $(if $(GPU_BUNDLE),--bundle "$(GPU_BUNDLE)") $(if $(LABS),--labs $(LABS)) \
		$(if $(MINUTES),--minutes $(MINUTES)) $(if $(call typed,DEVICE),--device $(call typed,DEVICE))

gpu-bundle: ## what gpu-check needs on a machine without a network: make gpu-bundle PYTHON=3.12 [WITHOUT="torch numpy"]
	@env -u PYTHON $(BOOT) env/setup.py
	@$(PY) -m env.bundle $(if $(PYTHON),--python "$(PYTHON)") $(if $(call typed,WITHOUT),--without "$(call typed,WITHOUT)")

tabletop: setup ## a real Slurm cluster here: make tabletop [NODES=2] [BANDWIDTH=200mbit] [LATENCY=1ms] [GPUS=2]
	@$(TABLETOP) up $(if $(NODES),--nodes "$(NODES)") $(if $(BANDWIDTH),--bandwidth "$(BANDWIDTH)") $(if $(LATENCY),--latency "$(LATENCY)") $(if $(GPUS),--gpus "$(GPUS)") $(TABLE)

tabletop-status: setup ## its nodes and jobs (all of these take NAME=table)
	@$(TABLETOP) status $(TABLE)

tabletop-down: setup ## end it, and everything in it
	@$(TABLETOP) down $(TABLE)

tabletop-fail: setup ## pull a node's plug: make tabletop-fail NODE=2
	@$(TABLETOP) fail --node "$(NODE)" $(TABLE)

tabletop-heal: setup ## mend a node that failed or was slowed: make tabletop-heal NODE=2
	@$(TABLETOP) heal --node "$(NODE)" $(TABLE)

tabletop-slow: setup ## hold a node's link to less: make tabletop-slow NODE=2 BANDWIDTH=50mbit
	@$(TABLETOP) slow --node "$(NODE)" --bandwidth "$(BANDWIDTH)" $(TABLE)

hub: setup ## JupyterHub for a class, on the tabletop: make hub [LEARNERS=40] [NAMES="ada grace"] [SITE=x] [PLAIN=1] [PORT=8000]
	@$(PY) -m env.jupyterhub && $(PY) -m slurm.hub up $(if $(LEARNERS),--learners "$(LEARNERS)") \
		$(if $(call typed,NAMES),--names "$(call typed,NAMES)") $(if $(call typed,SITE),--site "$(SITE)") \
		$(if $(PLAIN),--plain) $(if $(PORT),--port "$(PORT)") $(TABLE)

hub-status: setup ## does it answer, and where is its log?
	@$(PY) -m slurm.hub status

hub-stop: setup ## end it, all notebook servers and their jobs
	@$(PY) -m slurm.hub down

hub-forget: setup ## as root: remove the users that it has made, with their homes
	@$(PY) -m slurm.hub forget

# Some tests at a time; then, alone, those that measure times. Both parts run, whatever the first one finds.
# Three on two cores: with two, cores were idle, while tests waited for Slurm or for ranks that hang.
WORKERS := 3
SOME_AT_A_TIME := -n $(WORKERS) --dist loadscope --no-loadscope-reorder

test: setup-tests lint ## set up, then every test: all labs, on real ranks, in a real browser
	@status=0; $(PY) -m pytest $(SOME_AT_A_TIME) -m "not alone" || status=$$?; \
	$(PY) -m pytest -m alone || status=$$?; exit $$status

test-fast: setup-tests lint ## the tests that take a moment (under 2 minutes)
	@status=0; $(PY) -m pytest $(SOME_AT_A_TIME) -m "not slow and not alone" || status=$$?; \
	$(PY) -m pytest -m "alone and not slow" || status=$$?; exit $$status

lint: setup
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(PY) -m authoring labs --check

clean: ## remove .venv, the report and caches; your notebooks and .labkit/ stay
	rm -rf $(VENV) report guide .pytest_cache .ruff_cache labs/*.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

# For a goal that there is none of.
.DEFAULT:
	@echo "There is no goal '$@'. make help lists those that there are." >&2; exit 2
