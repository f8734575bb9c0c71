# Short names for the common jobs. The build itself is in CMakeLists.txt and CMakePresets.json.

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 600
EVALUATE_SECONDS ?= 2400
SECONDS ?= 600
SCALE ?= 0.125
RESULTS ?= $(wildcard docs/evaluation/results/*)
# Debian's own interpreter is the one that sees Debian's matplotlib.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build demo check test sweep checkers test-mpich test-page sanitize fuzz soak bench bench-mpi bench-mpich bench-transfer bench-files bench-machine bench-simgrid nodes-table bench-cuda test-cuda compare-xla planner-table evaluate pictures docs report evaluation-page build-bench wheel test-wheel release python test-python test-torch bench-python bench-torch lint format fresh install-dependencies clean

help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 30

build: build/release/build.ninja ## build the command: build/release/retile
	cmake --build --preset release --target retile_command --parallel $(JOBS)

demo: build ## build, then show what retile does
	tools/demo.sh

check: build/release/configured build/clang/configured ## build, test and lint what changed
	@tools/install-dependencies.sh clang-format clang-tidy
	JOBS=$(JOBS) tools/check.sh

test: checkers test-release test-python ## all tests

# The test programs of the folders that ask is_sweep() (tests/support/problems.h), without the time limit of ctest. MPI's
# are jobs that ctest starts: RETILE_SWEEP=1 ctest --preset release -L mpi.
SWEPT = $(sort $(shell grep -rl 'is_sweep()' tests --include=*_test.cpp | cut -d/ -f2))
sweep: build-release ## the tests that have larger sweeps, with them
	@set -e; for folder in $(SWEPT); do RETILE_SWEEP=1 build/release/tests/retile_$${folder}_tests; done

checkers: # of the code that is emitted for others, and of plans
	@tools/install-dependencies.sh mlir-19-tools python3-numpy

sanitize: test-asan test-tsan ## the tests under the address, undefined-behaviour and thread sanitizers

test-mpich: build/mpich/configured ## the MPI tests on few ranks, with MPICH
	cmake --build --preset mpich --parallel $(JOBS)
	ctest --preset mpich --parallel 1

test-cuda: build-release ## the tests of the CUDA engine, on a machine with a GPU; lists what it skipped
	ctest --preset release --label-regex 'cuda|gpu' --parallel 1

test-page: build-release ## the page of retile draw in headless Chromium; elsewhere these tests are skipped without it
	@tools/install-dependencies.sh chromium
	build/release/tests/retile_drawing_tests

fuzz: build-fuzz ## fuzz for FUZZ_SECONDS (600) in all, in an instrumented build; test-fuzz: for seconds
	@set -e; \
	set -- build/fuzz/fuzzers/fuzz_*; \
	for fuzzer; do tests/fuzz/run.sh "$$fuzzer" $$(( $(FUZZ_SECONDS) / $$# )); done

soak: build ## random problems of every kind against NumPy, for SECONDS (600); make test has the first 10 seconds
	@tools/install-dependencies.sh python3-numpy
	$(PYTHON) tests/soak/soak.py --seconds $(SECONDS)

bench: build-bench ## run the benchmarks
	@set -e; for benchmark in build/release/bench/*_benchmark; do "$$benchmark"; done

MPI_RUN = $(if $(CLUSTER),bench/cluster/run.sh,bench/mpi/run.sh)
MPI_BENCH = build/release/bench/mpi
bench-mpi: build-bench ## the MPI engine against MPI's calls and what programs do by hand, on 8 ranks; on 4 hosts with CLUSTER=1
	$(MPI_RUN) $(MPI_BENCH)/mpi_benchmark $(MPI_BENCH_OPTIONS)
	$(MPI_RUN) $(MPI_BENCH)/exchange_benchmark $(EXCHANGE_BENCH_OPTIONS)
	$(MPI_RUN) $(MPI_BENCH)/halo_benchmark $(HALO_BENCH_OPTIONS)
	@if [ -x $(MPI_BENCH)/matrix_benchmark ]; then $(MPI_RUN) $(MPI_BENCH)/matrix_benchmark $(MATRIX_BENCH_OPTIONS); \
	else echo "pdgemr2d is left out: it takes Open MPI and libscalapack-openmpi-dev"; fi

# MPICH does not yield where ranks outnumber cores, and the problems of mpi_benchmark are for 8.
MPICH_RUN = MPIRUN=mpirun.mpich RANKS=$(if $(filter 1 2 3 4 5 6 7,$(JOBS)),$(JOBS),8) bench/mpi/run.sh build/mpich/bench/mpi
bench-mpich: build/mpich/configured ## the same with MPICH, on 8 ranks or as many as there are cores
	cmake --build --preset mpich --target mpi_benchmark exchange_benchmark halo_benchmark --parallel $(JOBS)
	$(MPICH_RUN)/exchange_benchmark $(EXCHANGE_BENCH_OPTIONS)
	$(MPICH_RUN)/halo_benchmark $(HALO_BENCH_OPTIONS)
	@if [ $(JOBS) -ge 8 ]; then $(MPICH_RUN)/mpi_benchmark $(MPI_BENCH_OPTIONS); \
	else echo "MPI_Alltoallw is left out: its problems take 8 ranks, and there are $(JOBS) cores"; fi

bench-transfer: build-bench ## transfers against other ways to move a model, on threads and on 8 ranks
	build/release/bench/mpi/transfer_benchmark $(TRANSFER_BENCH_OPTIONS)
	$(if $(CLUSTER),bench/cluster/run.sh,bench/mpi/run.sh) build/release/bench/mpi/transfer_benchmark $(TRANSFER_BENCH_OPTIONS)

bench-files: build ## retile rechunk against a plain loop, cp and packaged tools, or as FILES_BENCH_OPTIONS say; reshard against cp
	tools/python-package.sh python bench/files/rechunk.py $(FILES_BENCH_OPTIONS)
	tools/python-package.sh python bench/files/capped.py
	tools/python-package.sh python bench/files/reshard.py

bench-machine: build-bench build ## how well plans are chosen and predicted for a machine, within SECONDS (600): threads, ranks, hosts, JAX, gloo
	bench/machine.sh build/release build/machine $(SECONDS)

bench-simgrid: build-bench ## predicted times against those that SimGrid simulates, on up to 1,024 devices
	@if [ -x build/release/bench/simgrid/simgrid_replay ]; then bench/simgrid/judge.sh build/release; \
	else echo "there is no SimGrid: install libsimgrid-dev"; fi

nodes-table: build-bench ## predict and simulate plans on 64 nodes of eight GPUs, and write the table of docs/machines.md
	bench/simgrid/nodes_table.sh build/release docs/machines.md

bench-cuda: build-bench ## the CUDA engine against copies of the same bytes, and on 8 ranks, on a machine with a GPU
	build/release/bench/cuda/cuda_benchmark $(CUDA_BENCH_OPTIONS)
	bench/mpi/run.sh build/release/bench/cuda/cuda_ranks_benchmark $(CUDA_BENCH_OPTIONS)

compare-xla: build-bench ## our plans against those of the XLA compiler
	build/release/bench/compare_xla

planner-table: build-bench ## measure planning anew and write the tables of docs/planner-times.md
	bench/planner_tables.sh build/release/bench docs/planner-times.md

evaluate: build build-bench ## measure for EVALUATE_SECONDS (2400) at SCALE (0.125) of the arrays' sizes, PARTS of it, then report
	bench/evaluate.sh build/release build/evaluation $(EVALUATE_SECONDS) $(SCALE)
	$(MAKE) report RESULTS="$$(echo build/evaluation/*.jsonl)"

pictures: build ## draw the pictures of documents anew
	tools/pictures.sh

docs: python ## make a site of the documents, with a reference of the interfaces of all languages: build/docs/site
	tools/docs.sh

report: ## write build/report/evaluation.md and its plots from RESULTS (those of docs/evaluation)
	@tools/install-dependencies.sh python3-matplotlib
	$(PYTHON) bench/report.py $(RESULTS)

evaluation-page: ## write the tables and plots of docs/evaluation.md, and the tables of other pages, from its results
	@tools/install-dependencies.sh python3-matplotlib
	$(PYTHON) bench/report.py $(RESULTS) --page docs/evaluation.md
	$(PYTHON) bench/report.py $(RESULTS) --page README.md --no-plots
	$(PYTHON) bench/report.py $(RESULTS) --page docs/train-then-serve.md --no-plots

wheel: ## build a wheel that needs nothing outside it: build/wheel/*.whl
	tools/wheel.sh

release: ## make tarball, sdist, wheel and checksums of this version, from a clean tree: build/dist
	tools/release.sh

python: build ## build the Python package: build/python/*.whl
	tools/python-package.sh

test-python: build ## the tests of the Python package; PYTEST_OPTIONS=--all-problems for all of the paper's family
	tools/python-package.sh python -m pytest tests/python --numprocesses $(JOBS) --maxprocesses 8 $(PYTEST_OPTIONS)

test-torch: build ## the tests of the Python package with PyTorch, which is large
	FRAMEWORK=torch tools/python-package.sh python -m pytest tests/python/test_torch.py tests/python/test_torch_transfer.py tests/python/test_transfer.py tests/python/test_record.py tests/python/test_scales.py tests/python/test_transformers.py tests/python/test_manifest.py tests/python/test_checkpoint.py tests/python/test_adapters.py tests/python/test_compare_torch.py $(PYTEST_OPTIONS)

bench-python: build ## our reshard in JAX against XLA's own, on every tenth problem or as PYTHON_BENCH_OPTIONS say
	tools/python-package.sh python bench/python/reshard.py $(PYTHON_BENCH_OPTIONS)

bench-torch: build ## our redistribute of DTensors against PyTorch's own, in 8 processes, likewise; then whole models
	FRAMEWORK=torch tools/python-package.sh python bench/python/redistribute_torch.py $(PYTHON_BENCH_OPTIONS)
	FRAMEWORK=torch tools/python-package.sh python bench/python/transfer_torch.py $(TRANSFER_BENCH_OPTIONS)
	FRAMEWORK=torch tools/python-package.sh python bench/python/transfer_mpi.py

# Kernels (.cu) are left to their compiler: clang-tidy does not know the options of nvcc.
lint: build/clang/configured ## check format (clang-format, ruff) and code (clang-tidy, ruff)
	@tools/install-dependencies.sh clang-format clang-tidy
	@tools/lint-python.sh
	@$(FORMATTED_FILES) | xargs -0 clang-format --dry-run -Werror
	run-clang-tidy -quiet -j $(JOBS) -p build/clang '^$(CURDIR)/(retile|c|evaluation|tools|bench)/.*\.cpp$$'

format: ## format all sources in place
	@tools/install-dependencies.sh clang-format
	@$(FORMATTED_FILES) | xargs -0 clang-format -i
	@tools/lint-python.sh format

fresh: ## run demo and test on a fresh system in a chroot (needs root)
	@tools/install-dependencies.sh debootstrap
	tools/fresh-system.sh

test-wheel: wheel ## the wheel on a fresh system in a chroot, without a compiler (needs root)
	@tools/install-dependencies.sh --command debootstrap
	tools/fresh-system.sh --wheel build/wheel/*.whl

install-dependencies: ## install the Debian packages that are missing
	@tools/install-dependencies.sh

clean: ## remove everything built
	rm -rf build

# --- The command alone: fewer packages are installed, and less is configured.

build/release/build.ninja: CMakePresets.json
	@tools/install-dependencies.sh --command
	cmake --preset release $(if $(wildcard build/release/configured),,$(COMMAND_ALONE))
	@touch $@
COMMAND_ALONE = -D RETILE_BUILD_TESTS=OFF -D RETILE_BUILD_BENCH=OFF -D RETILE_BUILD_C=OFF -D RETILE_WITH_MPI=OFF -D RETILE_WITH_CUDA=OFF

# --- One build per preset: build-release, test-release, build-asan and so on. build/PRESET/configured is there when all of it
# is configured. ninja configures again by itself when a CMakeLists.txt changes, but does not know of the presets.

build/%/configured: CMakePresets.json | install-dependencies
	cmake --preset $*
	@touch build/$*/build.ninja $@

# libclang-rt-dev holds libFuzzer and the sanitizers.
build/fuzz/configured build/clang/configured: build/%/configured: CMakePresets.json | install-dependencies
	@tools/install-dependencies.sh clang libclang-rt-dev
	cmake --preset $*
	@touch $@

build/mpich/configured: CMakePresets.json | install-dependencies
	@tools/install-dependencies.sh libmpich-dev mpich
	cmake --preset mpich
	@touch $@

build-bench: build/release/configured
	cmake --build --preset release --target retile_bench --parallel $(JOBS)

build-%: build/%/configured
	cmake --build --preset $* --parallel $(JOBS)

test-%: build-%
	ctest --preset $* --parallel $(JOBS)

# Kept, although make sees them as intermediate.
.PRECIOUS: build/%/configured build-%

FORMATTED_FILES = find retile c evaluation python tools tests bench examples \( -name '*.h' -o -name '*.cpp' \) -print0 2>/dev/null
