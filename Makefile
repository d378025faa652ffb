# palaver: a terminal chat with a language model on your own GPU.
# `make help` lists what can be asked for. Everything that is built goes to $(BUILD).

BUILD   ?= build
PREFIX  ?= /usr/local
CC      ?= cc
CXX     ?= c++
PYTHON  ?= python3
VERSION := 0.1.0

# ---- what `make deps` installs: Debian package names --------------------------------------------
DEPS := build-essential pkg-config python3 python3-pip ca-certificates libsentencepiece-dev \
        libtomlplusplus-dev libedit-dev libpcre2-dev libjansson-dev libcmocka-dev

# ---- sources, room by room, lowest first -----------------------------------------------------------
C_SRC   := $(wildcard kernels/*.c kernels/cpu/*.c tokenizer/*.c config/*.c engine/*.c)
CXX_SRC := $(wildcard tokenizer/*.cc config/*.cc)
APP_SRC := $(filter-out app/main.c,$(wildcard app/*.c))
TESTS   := $(patsubst tests/%.c,%,$(wildcard tests/test_*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
TEST_SUPPORT := $(filter-out $(wildcard tests/test_*.c),$(wildcard tests/*.c))
TOML    := $(wildcard config/*.toml config/chat/*.toml)

# ---- flags --------------------------------------------------------------------------------------------
LIBS     := sentencepiece libedit libpcre2-8 jansson
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
$(BUILD)/palaver: $(BUILD)/obj/app/main.c.o $(call objects,$(BUILD)/obj)
	@echo "  link  $@"; $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(ALL_LDLIBS)
$(BUILD)/san/palaver: $(BUILD)/san/app/main.c.o $(call objects,$(BUILD)/san)
	@echo "  link  $@"; $(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(ALL_LDLIBS)

# AVX2 kernels are compiled for it and chosen at run time; everything else runs on any x86-64.
simd = $(if $(findstring _avx2,$(1)),-mavx2 -mfma -mf16c)

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

# ---- tests ---------------------------------------------------------------------------------------------
.PHONY: test check
test: deps ## run every test, with sanitizers
	@$(MAKE) --no-print-directory check
check: $(patsubst %,$(BUILD)/san/tests/%,$(TESTS)) $(BUILD)/san/palaver
	@set -e; for t in $(TESTS); do echo "== $$t"; PALAVER=$(BUILD)/san/palaver $(BUILD)/san/tests/$$t; done
$(BUILD)/san/tests/%: $(BUILD)/san/tests/%.c.o $(patsubst %,$(BUILD)/san/%.o,$(TEST_SUPPORT)) $(call objects,$(BUILD)/san)
	@echo "  link  $@"; $(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(ALL_LDLIBS) -lcmocka
.PRECIOUS: $(BUILD)/san/%.c.o $(BUILD)/obj/%.c.o

.PHONY: clean
clean: ## remove everything that was built
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
