# Entry points only; what they do is in CMakePresets.json and tools/. PRESET=release builds with -O3 instead.
PYTHON ?= python3
PRESET ?= dev
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)
# The tests of a file stay in one process, which has imported torch once.
PYTEST = .venv/bin/python -m pytest -q -n $(CMAKE_BUILD_PARALLEL_LEVEL) --maxprocesses 4 --dist loadfile

.PHONY: build demo test test-full bench std asan tsan format lint clean

build:
	PYTHON=$(PYTHON) tools/prepare.sh
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) --target product
	cmake --install build/$(PRESET)

demo: build
	tools/debian_package.sh dataset-fashion-mnist
	.venv/bin/python examples/demo.py

# The benchmarks are compiled, too.
test: build
	cmake --build --preset $(PRESET) --target all bench_modules
	ctest --preset $(PRESET)
	$(PYTEST)

# With the tests marked or labelled slow, the contract under the rebinding binding too, with a second version of torch,
# and the static analyzer.
test-full: build
	cmake --build --preset $(PRESET) --target all bench_modules
	ctest --preset $(PRESET)-full
	$(PYTEST) -m ""
	TENSORPAGER_BINDING=rebinding $(PYTEST) test/contract
	tools/test_other_torch.sh
	tools/clang_tidy.sh '-*,clang-analyzer-core.*,clang-analyzer-cplusplus.*,clang-analyzer-deadcode.*'

bench: build
	cmake --build --preset $(PRESET) --target bench_modules
	.venv/bin/python bench/run.py

# The std-only folders, without torch; asan and tsan under sanitizers.
std asan tsan:
	tools/test_std_only.sh $@

format:
	PYTHON=$(PYTHON) tools/prepare.sh
	tools/format.sh

lint:
	PYTHON=$(PYTHON) tools/prepare.sh
	tools/lint.sh

clean:
	rm -rf build .venv .deps
