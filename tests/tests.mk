# Tests, fuzzers, the GPU's tests, lint: part of the Makefile.

.PHONY: test check fuzz run-fuzzers test-gpu lint lint-format lint-includes lint-cppcheck lint-tidy format
TESTS    := $(patsubst %.c,%,$(call in_rooms,tests,test_*.c))
FUZZERS  := $(patsubst %.c,%,$(wildcard tests/fuzz/fuzz_*.c))
THREADED := tests/engine/talk/test_item_queue tests/app/modes/test_line_reader
SUPPORT  := $(call in_rooms,tests/support,*.c)
test: deps ## run every test, with sanitizers
	$(AGAIN) $(JOBS) check
TEST_PROGRAMS := $(TESTS:%=$(BUILD)/san/%) $(THREADED:%=$(BUILD)/tsan/%)
# A program's run is a target of its own: as many run at once as make has jobs, the first while others are still being
# compiled. What one says comes in one piece, when it has ended; what became of it is left in FILE.ran for the sum.
RUNS := $(TEST_PROGRAMS:%=%.ran) $(FUZZERS:%=$(BUILD)/san/%.ran)
PALAVER_OF_RUNS = $(BUILD)/san/palaver
$(RUNS): %.ran: % always | $(BUILD)/san/palaver $(BUILD)/san/faulty/palaver
	$(run_test)
define run_test
	@export PALAVER=$(PALAVER_OF_RUNS); said=passed; \
	$< $(if $(findstring /fuzz_,$<),$(FUZZ_SECONDS) tests/fuzz/corpus/$(notdir $<)) </dev/null >$@ 2>&1 || said=failed; \
	echo "== $<"; cat $@; echo $$said >$@
endef
# $(call sum_of_runs,files): the last words, and the exit.
sum_of_runs = @failed=$$(grep -lx failed $(1) | sed 's,.ran$$,,'); set -- $$failed; [ $$\# = 0 ] || echo "failed: $$*"; \
	echo "programs: $$(grep -lx passed $(1) | wc -l) passed, $$\# failed"; [ $$\# = 0 ]
check: $(RUNS)
	$(call sum_of_runs,$^)
$(TESTS:%=$(BUILD)/san/%): $(BUILD)/san/%: $(BUILD)/san/%.c.o $(SUPPORT:%=$(BUILD)/san/%.o) $(BUILD)/san/libpalaver.a
	$(call link,$(CC) $(SANITIZE),$(ALL_LIBS) -lcmocka)
$(BUILD)/san/tests/app/markdown/test_commonmark: LDLIBS += -lcmark
# What threads share, once more with the thread sanitizer.
$(BUILD)/tsan/tests/app/modes/test_line_reader: $(BUILD)/tsan/app/modes/line_reader.c.o
$(THREADED:%=$(BUILD)/tsan/%): $(BUILD)/tsan/%: $(patsubst %,$(BUILD)/tsan/%.o,%.c engine/talk/scheduler/item_queue.c kernels/base/status.c kernels/base/text/utf8.c)
	$(call link,$(CC) -fsanitize=thread,-lcmocka -lpthread)
# A palaver with a GPU that is none, which fails as a test wants: see tests/plugin/faulty.c.
$(BUILD)/san/faulty/palaver: $(BUILD)/san/app/main.c.o $(BUILD)/san/libpalaver.a | $(BUILD)/san/faulty/libpalaver-cuda.so
	$(call link,$(CC) $(SANITIZE) -rdynamic,$(ALL_LIBS))
$(BUILD)/san/faulty/libpalaver-cuda.so: tests/plugin/faulty.c kernels/cuda/devices.c kernels/cuda/devices.h kernels/ops.h
	@mkdir -p $(@D); echo "  cc    $< (plug-in)"; $(CC) $(C_FLAGS) $(SANITIZE) -fPIC -shared -o $@ $(filter %.c,$^)
$(BUILD)/san/tests/kernels/test_devices $(BUILD)/san/tests/app/tools/test_tune: | $(BUILD)/san/faulty/palaver
# Libraries that are almost NCCL: see tests/plugin/nccl_stub.c.
NCCL_STUBS := $(patsubst %,$(BUILD)/san/nccl/%.so,whole lacks mute v2804 v20906 v21003)
$(NCCL_STUBS): tests/plugin/nccl_stub.c
	@mkdir -p $(@D); echo "  cc    $< ($(@F))"; $(CC) $(C_FLAGS) -fPIC -shared $(if $(filter lacks,$(basename $(@F))),-DSTUB_LACKS) \
	    -DSTUB_VERSION=$(if $(filter mute,$(basename $(@F))),0,$(or $(patsubst v%,%,$(filter v%,$(basename $(@F)))),22803)) -o $@ $<
$(BUILD)/san/tests/kernels/test_nccl: | $(NCCL_STUBS)
# What is none by itself: NCCL of which one sum fails, on a machine with two cards (tests/plugin/nccl_failing.c).
$(BUILD)/nccl-failing.so: tests/plugin/nccl_failing.c
	@mkdir -p $(@D); $(CC) $(C_FLAGS) -fPIC -shared -o $@ $< -ldl
# A palaver whose n-th allocation, write, … fails: see tests/faults/inject.c, which is called before sanitizers are ready.
FAULTS := $(BUILD)/san/tests/faults/inject.c.o $(BUILD)/san/tests/faults/inject_new.cc.o
$(FAULTS): SANITIZE := -O1 -fno-omit-frame-pointer
$(BUILD)/san/faults/palaver: $(BUILD)/san/app/main.c.o $(FAULTS) $(BUILD)/san/libpalaver.a
	$(call link,$(CC) -fsanitize=address$(,)undefined -rdynamic,$(ALL_LIBS))
$(BUILD)/san/tests/app/test_faults: | $(BUILD)/san/faults/palaver

# The same tests for 64-bit Arm: cross-built, without sanitizers, each under qemu-user. Development packages of two
# machines exclude each other, so that those for arm64 are unpacked under ARM_ROOT, and not installed. Nobody can execute
# a program for Arm here, so that each has a script under under-qemu/ in its place there, which starts it under qemu and
# gives it the script's name for its own: who starts it, or itself again, starts the script.
ARM      := aarch64-linux-gnu
ARM_ROOT ?= $(abspath $(BUILD))/arm-root
ARM_LIB   = $(ARM_ROOT)/usr/lib/$(ARM)
ARM_DEPS := libc6 libstdc++6 libgcc-s1 libsentencepiece-dev libsentencepiece0 libprotobuf-lite32 \
    libgoogle-perftools4 libtcmalloc-minimal4 libunwind8 liblzma5 libtomlplusplus-dev libedit-dev libedit2 libbsd-dev \
    libbsd0 libmd-dev libmd0 libncurses-dev libncurses6 libtinfo6 libpcre2-dev libpcre2-8-0 libpcre2-posix3 \
    libjansson-dev libjansson4 libutf8proc-dev libutf8proc2 libcmark-dev libcmark0.30.2 libcmocka-dev libcmocka0 zlib1g \
    libcurl4 libnghttp2-14 libidn2-0 librtmp1 libssh2-1 libpsl5 libssl3 libgssapi-krb5-2 libkrb5-3 libk5crypto3 \
    libkrb5support0 libcom-err2 libkeyutils1 libldap-2.5-0 libsasl2-2 libzstd1 libbrotli1 libunistring2 libgnutls30 \
    libnettle8 libhogweed6 libgmp10 libp11-kit0 libtasn1-6 libffi8
# A processor with sdot and without SVE: with qemu's most capable one (max) a test took 6.2 seconds
# instead of 5.4.
QEMU_ARM  = qemu-aarch64 -cpu neoverse-n1 -L $(abspath $(ARM_ROOT)) -E LD_LIBRARY_PATH=$(abspath $(ARM_LIB))
ARM_MAKE  = PKG_CONFIG_LIBDIR=$(ARM_LIB)/pkgconfig PKG_CONFIG_SYSROOT_DIR=$(ARM_ROOT) $(MAKE) --no-print-directory \
    CC=$(ARM)-gcc CXX=$(ARM)-g++ AR=$(ARM)-ar LD=$(ARM)-ld NVCC= BUILD=$(BUILD)/arm SANITIZE=-O1 \
    CFLAGS='-g -I$(ARM_ROOT)/usr/include' CXXFLAGS='-g -I$(ARM_ROOT)/usr/include' \
    LDFLAGS='-L$(ARM_LIB) -Wl,-rpath-link,$(ARM_LIB):$(ARM_ROOT)/lib/$(ARM)' ARM_ROOT=$(ARM_ROOT) QEMU='$(QEMU_ARM)'
.PHONY: test-arm deps-arm check-arm
test-arm: ## run the tests as a program for 64-bit Arm, under qemu
	@for t in $(ARM)-gcc $(ARM)-g++ qemu-aarch64; do command -v $$t >/dev/null || \
	    { echo "test-arm: $$t is missing: apt-get install gcc-$(ARM) g++-$(ARM) qemu-user"; exit 1; }; done
	@[ -e $(ARM_LIB)/libcmocka.so ] || \
	    { echo "test-arm: no libraries for arm64 under $(ARM_ROOT): make deps-arm unpacks them"; exit 1; }
	@$(ARM_MAKE) $(JOBS) check-arm
deps-arm: ## unpack the libraries for arm64 that test-arm needs
	@dpkg --print-foreign-architectures | grep -q arm64 || \
	    { echo "deps-arm: apt knows no arm64: dpkg --add-architecture arm64 && apt-get update"; exit 1; }
	@mkdir -p $(ARM_ROOT)/packages; cd $(ARM_ROOT)/packages; apt-get download -qq $(ARM_DEPS:%=%:arm64); \
	for p in *.deb; do dpkg -x $$p .. || exit 1; done
# Those that take longest come first: two cores should end together.
ARM_SLOW  := $(addprefix tests/,engine/cache/test_sinks app/modes/test_fits engine/talk/test_long_talk app/test_kills \
    engine/talk/test_scheduler engine/test_parley engine/cache/test_shift engine/talk/test_stream app/chat/test_snapshots)
ARM_TESTS := $(ARM_SLOW) $(filter-out $(ARM_SLOW) tests/app/test_faults,$(TESTS)) # test_faults needs a sanitizer
ARM_RUNS  := $(ARM_TESTS:%=$(BUILD)/under-qemu/%.ran)
check-arm: PALAVER_OF_RUNS = $(BUILD)/under-qemu/palaver
check-arm: export TEST_PATIENCE = 10
check-arm: $(ARM_RUNS)
	$(call sum_of_runs,$^)
$(ARM_RUNS): %.ran: % always | $(BUILD)/under-qemu/palaver $(BUILD)/under-qemu/faulty/palaver $(BUILD)/under-qemu/nccl
	$(run_test)
$(BUILD)/under-qemu/%: $(BUILD)/san/% tests/tests.mk
	@mkdir -p $(@D); printf '#!/bin/sh\nexec %s -0 "$$0" %s "$$@"\n' '$(QEMU)' $(abspath $<) >$@; chmod +x $@
$(BUILD)/under-qemu/nccl: $(NCCL_STUBS)
	@mkdir -p $(@D); ln -sfn ../san/nccl $@

# What AVX-512 does, on an emulated processor that has it, without sanitizers. Not what else test_activations has: Bochs
# 2.7 rounds 2^-25 up, which as a half is even at 0.
AVX512_TESTS := $(addprefix kernels/cpu/,test_activations test_w8_products test_float_products test_attend_bases test_attend \
    test_fixed_products) engine/weights/test_fixed engine/test_parley
.PHONY: test-avx512 check-avx512
test-avx512: deps ## run the tests of AVX-512 under Bochs (half an hour)
	$(AGAIN) $(JOBS) check-avx512 NVCC= BUILD=$(BUILD)/avx512 SANITIZE=-O2
check-avx512: $(AVX512_TESTS:%=$(BUILD)/san/tests/%)
	@tests/under_bochs.sh $(BUILD)/guest $(subst test_activations,test_activations:activations_everywhere,$^)

# Fuzzers: seconds of them in every test run with our own driver, longer in `make fuzz`. Each starts from the files
# in tests/fuzz/corpus/NAME and mutates them.
FUZZ_SECONDS ?= 3
fuzz: deps ## run the fuzzers for FUZZ_SECONDS each (default here: 60)
	$(AGAIN) $(JOBS) run-fuzzers FUZZ_SECONDS=$(if $(filter file,$(origin FUZZ_SECONDS)),60,$(FUZZ_SECONDS))
run-fuzzers: $(FUZZERS:%=$(BUILD)/san/%.ran)
	$(call sum_of_runs,$^)
$(BUILD)/san/tests/fuzz/fuzz_config_json: $(BUILD)/san/tests/support/model/model_config.c.o
$(FUZZERS:%=$(BUILD)/san/%): $(BUILD)/san/%: $(BUILD)/san/%.c.o $(BUILD)/san/tests/fuzz/driver.c.o $(BUILD)/san/libpalaver.a
	$(call link,$(CC) $(SANITIZE),$(ALL_LIBS))

# What grammars cost a token: build/time-masks FOLDER.
$(BUILD)/time-masks: $(BUILD)/obj/tests/engine/grammar/time_masks.c.o $(BUILD)/obj/libpalaver.a
	$(call link,$(CC) $(CFLAGS),$(ALL_LIBS))

# Compares every CUDA op with the CPU's, golden logits, and the default model's text if it is there; in a bundle:
# ./test-gpu ./libpalaver-cuda.so [--model FILE]. SANITIZE_GPU=1 runs the small cases under compute-sanitizer besides.
# PALAVER_CUDA_LIMITS=compute=86,smem=99k,sms=46 has the card decide as a smaller one (kernels/cuda/limits.h; on Hopper with a
# plug-in of CUDA_ARCH='-gencode arch=compute_80,code=sm_90').
GPU_TEST := $(patsubst %,$(BUILD)/obj/%.o,$(call in_rooms,tests/gpu,*.c) tests/support/model/golden_model.c tests/support/acts.c) $(BUILD)/obj/libpalaver.a
test-gpu: $(PLUGIN) $(BUILD)/test-gpu $(if $(SANITIZE_GPU),$(CHECKED)) ## compare the CUDA ops with the CPU's on this machine's GPU
	@$(BUILD)/test-gpu $(PLUGIN) $(if $(wildcard $(MODEL)),--model '$(MODEL)')
	@if [ -n "$(SANITIZE_GPU)" ]; then for tool in memcheck racecheck initcheck; do echo "== $$tool"; \
	    compute-sanitizer --tool $$tool --error-exitcode 1 $(BUILD)/test-gpu $(CHECKED) small || exit 1; done; fi
$(BUILD)/test-gpu: $(GPU_TEST)
	$(call link,$(CC) $(CFLAGS),$(ALL_LIBS))
# What compute-sanitizer does not follow, for the next version of it to be asked again.
$(BUILD)/sanitizer-probe: tests/gpu/sanitizer_probe.cu
	@mkdir -p $(@D); echo "  nvcc  $<"; $(NVCC) -gencode arch=compute_90a,code=sm_90a -o $@ $< -lcublasLt

# ---- lint, format: the files that git knows or will be asked to take, without those that are gone -----------------------
CODE   = $(wildcard $(shell git ls-files -co --exclude-standard '*.c' '*.h' '*.cc' '*.cu' '*.cuh' 2>/dev/null))
LINTED = $(filter %.c %.cc,$(CODE))
lint: ## clang-format, clang-tidy, cppcheck, who includes whom: what they find is an error
	@for t in clang-format clang-tidy cppcheck; do command -v $$t >/dev/null || \
	    { echo "lint: $$t is missing: apt-get install clang-format clang-tidy cppcheck"; exit 1; }; done
	@[ -n "$(LINTED)" ] || { echo "lint: no list of files; it needs git, and a clone"; exit 1; }
	$(AGAIN) -j2 -k -Otarget lint-format lint-includes lint-cppcheck lint-tidy
lint-format:
	@echo "  clang-format"; clang-format --dry-run -Werror $(CODE)
lint-includes:
	@echo "  includes"; $(PYTHON) tests/includes.py
# Left out: varFuncNullUB, for POSIX wants NULL to be (void *)0, which may end a list of pointers; legacyUninitvar, which
# takes the rows of an array for values, where uninitvar is left.
lint-cppcheck:
	@echo "  cppcheck"; cppcheck --quiet --std=c11 --std=c++17 --enable=warning,performance,portability --inline-suppr \
	    --error-exitcode=1 --suppress=missingIncludeSystem --suppress=varFuncNullUB --suppress=legacyUninitvar \
	    -I. $(DEFINES) $(LINTED)
# clang-tidy again only for what has changed. It says on stderr how many remarks it kept to itself.
lint-tidy: $(LINTED:%=$(BUILD)/lint/%.tidy)
$(BUILD)/lint/%.tidy: % .clang-tidy tests/.clang-tidy
	@mkdir -p $(@D); echo "  clang-tidy  $<"; \
	set -- $(if $(filter %.cc,$<),-std=c++17,-std=c11) -I. $(DEFINES) $(call simd,$<) $(LIB_FLAGS); \
	found=$$(clang-tidy --quiet $< -- "$$@" 2>&1) || \
	    { echo "$$found" | grep -av '^[0-9]* warnings\? .*generated\.$$'; exit 1; }; \
	$(CC) "$$@" -MM -MP -MT $@ -MF $(@:.tidy=.d) $< && touch $@
format: ## clang-format in place
	clang-format -i $(CODE)

