# What a person types: make GOAL [NAME=value]. Each goal sets up what it needs; `make help` lists them.
# What stands behind a goal is in labs/labkit/make.py.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help

# Any Python begins; the set-up then looks for one that it can use, or says what to install.
BOOT = $(or $(shell for name in python3 python3.1{0..9}; do \
	"$$name" -c "" >/dev/null 2>&1 && echo "$$name" && break; done),$(error There is no python3 here: install it))
RUN = @$(BOOT) labs/labkit/make.py
PY := .venv/bin/python

# What was typed reaches the programs in MAKEFLAGS, as it was typed: in the environment make would expand it.
unexport $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))

##@ To learn
help: ## this list
	$(RUN) $@

setup: ## make .venv: packages, MPI, Horovod, labkit; verified on two ranks [GPU_OPERATIONS=NCCL] [MPI_HOME=…] [VERIFY=job]
	$(RUN) setup $(filter-out setup,$(MAKECMDGOALS))
setup-tests: # what only the tests need on top: a browser
	$(RUN) setup-tests $(filter-out setup-tests,$(MAKECMDGOALS))

lab: ## JupyterLab, opened at the first lab [PORT=8888]
run: ## run a lab's script: make run LAB=40 NP=4 [SET="epochs=1"] [SOLVED=1] [HOROVOD=nccl] [MPI=mvapich2]
reset: ## start a lab again; your copy is set aside: make reset LAB=40
solve: ## put one answer into your notebook: make solve LAB=40 EX=40.1
progress: ## what you have solved so far
share: ## let your instructor's class board show where you are [NAMED=1 or HIDDEN=1] [UNTIL=2026-12-31]
unshare: ## take that back, and delete what was shared
doctor: ## what this machine has, and which lab runs here; SITE=x: check a cluster [NODES=2] [PATIENCE=120]
trace: ## open a trace in Perfetto's viewer, offline: make trace FILE=trace.json [PORT=9001]
verdict: ## is this bandwidth normal? make verdict FILE=out.txt MACHINE=h100_ndr, or [LINK=25GB/s] [NIC=200Gb/s] [NICS=4] [NODES=2] [GPUS=8]
report: ## check the report of lab 80, then render it as one page [FILE=report.md] [SOLVED=1]

##@ On a cluster
tabletop: ## a real Slurm cluster here: make tabletop [NODES=2] [BANDWIDTH=200mbit] [LATENCY=1ms] [GPUS=2] [NAME=table]
tabletop-status: ## its nodes and jobs (all of these take NAME=table)
tabletop-down: ## end it, and everything in it
tabletop-fail: ## take a node down: make tabletop-fail NODE=2
tabletop-heal: ## repair a node that failed or was slowed: make tabletop-heal NODE=2
tabletop-slow: ## limit a node's bandwidth: make tabletop-slow NODE=2 BANDWIDTH=50mbit
submit: ## a lab as a batch job: make submit LAB=40 NODES=2 [RANKS=4 a node] [SITE=x] [WAIT=1 or DRY=1] [ENV="A=1"], and what run takes
results: ## your batch jobs, their state and their records [LAB=40]
scaling: ## one job for each size: make scaling LAB=50 NODES=1,2,4,8; without NODES: the table of the last study
kernel: ## these labs in an existing JupyterHub or Open OnDemand: for you, or for all [PREFIX=/opt/jupyter]
site: ## slurm/sites/NAME.sh for a new cluster, from what Slurm says on its login node
mvapich2: ## MVAPICH2 2.3.7 beside this MPI, from source [SOURCE=file] [DEVICE=nemesis, sock or mrail]

##@ To teach
hub: ## JupyterHub for a class, on the tabletop: make hub [LEARNERS=40] [NAMES="ada grace"] [SITE=x] [PLAIN=1] [PORT=8000]
hub-status: ## does it answer, and where is its log?
hub-stop: ## end it and all notebook servers; learners' batch jobs go on
hub-forget: ## as root: remove the users that it created, with their homes
board: ## where those of the class who share are stuck: make board DIR=folder [HTML=page.html] [CSV=scores.csv] [HIDDEN=1] [WATCH=1] [NEW=1]
guide: ## the instructor's guide: guide/index.html, offline; slides of each lab [TRACK=half_day] [LEARNERS=40]
rehearse: ## the jobs of the track "PPoPP hands-on", before a class does them [SITE=x] [NODES=2] [LABS=40,46] [PATIENCE=1800]
tour: ## run every solved lab, then write report/index.html [LABS=10,20] [SMALL=1]
book: ## the labs of a tour as a web book, offline: book/index.html
release: ## archives of the last commit, for learners and instructors: release/*.tar.gz [KEEP_ANSWERS=1]
container: ## the labs as a container image [EDITION=instructors] [ARCHIVE=labs.tar.gz] [BASE=image] [OPTIONS=…]

##@ To change the kit
new: ## begin a new lab: make new LAB=81_my_topic
labs: ## write the learner's files and the README's table from solutions/

GOALS := lab run reset solve progress share unshare doctor trace verdict report tabletop tabletop-status tabletop-down \
	tabletop-fail tabletop-heal tabletop-slow submit results scaling kernel site mvapich2 hub hub-status hub-stop \
	hub-forget board guide rehearse tour book release new labs container
$(GOALS):
	$(RUN) $@
$(filter-out container,$(GOALS)): setup

# Some tests at a time; then, alone, those that measure times. Both parts run, whatever the first one finds.
# One more than there are cores: some tests wait, for Slurm or for ranks that hang.
SOME_AT_A_TIME = -n $$(($$(nproc) + 1)) --no-loadscope-reorder

test: setup-tests lint ## set up, then every test: all labs, on real ranks, in a real browser
	@$(PY) -m slurm.hub.install || true # where that fails, the hub's tests say why
	@status=0; $(PY) -m pytest $(SOME_AT_A_TIME) -m "not alone" || status=$$?; \
	$(PY) -m pytest -m alone || status=$$?; exit $$status
test-fast: setup-tests lint ## the tests that take a moment (under 2 minutes)
	@$(PY) -m pytest $(SOME_AT_A_TIME) -m "not alone and not slow"

test-gpu: setup ## what needs a GPU: where tensors are, flop/s, the labs about GPUs [GPU_OPERATIONS=NCCL]
	@$(PY) -m tests.gpu

lint: setup
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && $(PY) -m authoring labs --check

clean: ## remove .venv, the report and caches; your notebooks and .labkit/ stay
	rm -rf .venv report book guide .pytest_cache .ruff_cache labs/*.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help setup setup-tests $(GOALS) test test-fast test-gpu lint clean

.DEFAULT: # any other word
	@echo "There is no goal '$@'. make help lists those that there are." >&2; exit 2
