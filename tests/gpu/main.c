// Every CUDA op against the CPU's plain loops, over a table of shapes around the edges of tiles, chunks and warps,
// then the whole engine (engine_tests.h):
//
//   test-gpu PLUGIN [--golden FOLDER] [--model FILE] [--part I/N] [NAME]
//
// NAME: cases whose name has it, or one of flat, rows, delta, ways, sums, caches, sample, golden, heads, text, ahead, snapshot,
// divided, memory, cards (two of them), fault; or attend-speed, delta-speed, sample-speed, snapshot-speed, which measure.
// --part: every N-th case and group of them, from the I-th on, counted from 0, so that N processes share the work; memory,
// which takes all that the card has and counts what is left, is then left out.
// Inputs are the CPU's at every op, so that errors do not add up; outputs are poisoned and have sentinels behind them.
// One closing line: N passed, N failed.
#include "engine/backend.h"
#include "kernels/cpu/loops/quant.h"
#include "kernels/dispatch_table.h"
#include "kernels/tuning.h"
#include "tests/support/model/golden_model.h"
#include "tests/gpu/attention/bases.h"
#include "tests/gpu/cases/cases.h"
#include "tests/gpu/delta/delta.h"
#include "tests/gpu/engine/engine_tests.h"
#include "tests/gpu/rows/narrow.h"
#include "tests/gpu/model/side.h"
#include "engine/cache/kv_cache.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Run {
    const Case *c;
    Side cpu, cuda;
    int n_slots,
        n_indexes; // of the cache; of what the step looks at, index i in slot pages[i / page_size] + …
    int page_size, n_pages;
    int32_t *pages;
    int32_t *positions; // [n_slots]
    double bound;       // of one op in the operand type
    double few_bound;   // of one for at most DISPATCH_GEMV_MOST rows
} Run;

// `type`: what the CUDA side holds; the CPU's values are float32.
typedef struct Compared {
    const char *what;
    void *cpu, *cuda;
    DType type;
    int64_t n;
    double bound;
} Compared;

// Compares what both sides hold at the same place, then gives the CUDA side the CPU's values.
static void compare(Run *r, const Compared *c) {
    if (r->cuda.several && (c->cuda == r->cuda.q || c->cuda == r->cuda.g)) return; // what comes of them tells
    float *right = get(&r->cpu, c->cpu, DTYPE_F32, c->n), *ours = get(&r->cuda, c->cuda, c->type, c->n);
    report(r->c->name, c->what, distance(ours, right, c->n), c->bound);
    put(&r->cuda, c->cuda, c->type, right, c->n);
    free(right);
    free(ours);
}

static int32_t slot_of(const Run *r, int index) {
    return r->pages[index / r->page_size] + index % r->page_size;
}

// Pages in disorder, and the positions of a past with a gap at every ninth index. Where something is gone, positions
// jump behind the kept ones, and some slots still hold what was discarded.
static void lay_out_cache(Run *r) {
    const Case *c = r->c;
    r->n_indexes = c->past + c->n_tokens + 4;
    r->page_size = c->page_size ? c->page_size : r->n_indexes;
    r->n_pages = (r->n_indexes + r->page_size - 1) / r->page_size;
    r->n_slots = r->n_pages * r->page_size;
    r->pages = calloc((size_t)r->n_pages, sizeof *r->pages);
    r->positions = malloc((size_t)r->n_slots * sizeof *r->positions);
    for (int p = 0; p < r->n_pages; p++) r->pages[p] = (p ^ 1) < r->n_pages ? (p ^ 1) : p;
    for (int p = 0; p < r->n_pages / 3; p++) { // far apart
        int32_t far = r->pages[r->n_pages - 1 - p];
        r->pages[r->n_pages - 1 - p] = r->pages[p], r->pages[p] = far;
    }
    for (int p = 0; p < r->n_pages; p++) r->pages[p] *= r->page_size;
    for (int i = 0; i < r->n_slots; i++) r->positions[i] = -1;
    for (int i = 0, position = 0; i < c->past; i++) {
        bool front = c->n_evicted == 0 || i < c->n_sinks;
        if (!front && position < c->n_sinks + c->n_evicted) position = c->n_sinks + c->n_evicted;
        if (front && c->n_evicted)
            r->positions[slot_of(r, i)] = i, position = i + 1;
        else if (!front && i % 7 == 3)
            r->positions[slot_of(r, i)] = c->n_sinks + i % c->n_evicted;
        else if (i % 9 != 4)
            r->positions[slot_of(r, i)] = position++;
    }
}

// The same random past in both caches.
static void fill_cache(Run *r) {
    Error error;
    fill_caches(&r->cpu, &r->cuda, r->positions, 99);
    for (int i = 0; i < 2; i++) {
        Side *s = i ? &r->cuda : &r->cpu;
        must(s->ops->write(s->backend, s->slot_positions, r->positions, (size_t)r->n_slots * 4, &error),
             &error);
    }
}

// Compares what the caches hold of a layer, then gives the CUDA side the CPU's.
static void compare_cache(Run *r, int l) {
    DType type = r->c->kv;
    double bound = type == DTYPE_INT4 ? 6e-2 : type == DTYPE_INT8 ? 2e-2 : type == DTYPE_BF16 ? 1.2e-2 : 0;
    int32_t *positions = malloc((size_t)r->n_slots * sizeof *positions);
    Error error;
    must(r->cpu.ops->read(r->cpu.backend, positions, r->cpu.slot_positions, (size_t)r->n_slots * 4, &error),
         &error);
    for (int keys = 0; keys < 2; keys++) {
        int64_t n;
        float *right = cache_floats(&r->cpu, l, keys, positions, &n);
        float *ours = cache_floats(&r->cuda, l, keys, positions, &n);
        report(r->c->name, keys ? "keys" : "values", distance(ours, right, n),
               keys && r->c->feed_back ? 0.3 // one key that was rounded otherwise changes those behind it
               : bound > r->bound      ? bound
                                       : r->bound);
        free(right);
        free(ours);
    }
    free(positions);
    copy_cache(&r->cpu, &r->cuda);
    if (r->cuda.several) return; // whose parts have nothing behind them
    check_sentinel(r->c->name, r->cuda.ops, r->cuda.backend, r->cuda.cache,
                   (size_t)kv_layout_bytes(&r->cuda.layout));
    if (r->cuda.scale)
        check_sentinel(r->c->name, r->cuda.ops, r->cuda.backend, r->cuda.scale,
                       (size_t)kv_layout_scale_bytes(&r->cuda.layout));
}

static void compare_gate_up(Run *r, int l) {
    Side *a = &r->cpu, *b = &r->cuda;
    Error error;
    must(a->ops->gate_up(a->backend, a->layers[l], a->x, a->g, &error), &error);
    must(b->ops->gate_up(b->backend, b->layers[l], b->x, b->g, &error), &error);
    if (r->c->n_experts) return; // in a form of each backend's own: down tells
    compare(r, &(Compared){"gate_up", a->g, b->g, b->operand, (int64_t)r->c->n_tokens * r->c->intermediate,
                           2 * r->bound});
}

static void test_ops(Run *r, const Step *steps[2]) {
    const Case *c = r->c;
    Side *a = &r->cpu, *b = &r->cuda;
    Error error;
    int64_t n = c->n_tokens;
    must(a->ops->begin(a->backend, steps[0], a->kv, &error), &error);
    must(b->ops->begin(b->backend, steps[1], b->kv, &error), &error);
    must(a->ops->embed(a->backend, a->head, a->x, &error), &error);
    must(b->ops->embed(b->backend, b->head, b->x, &error), &error);
    compare(r, &(Compared){"embed", a->x, b->x, DTYPE_F32, n * c->hidden, 1e-3});
    for (int l = 0; l < TEST_LAYERS; l++) {
        const int64_t of_q = n * c->n_heads * layer_heads(a->shape, l).head_dim;
        must(a->ops->qkv(a->backend, a->layers[l], a->x, &a->kv[l], a->q, &error), &error);
        must(b->ops->qkv(b->backend, b->layers[l], b->x, &b->kv[l], b->q, &error), &error);
        compare(r, &(Compared){"qkv", a->q, b->q, b->operand, of_q, r->bound});
        compare_cache(r, l);
        if (!b->several && !c->wide_kv)
            compare_bases(&(BasesCase){b, c->name, l, l ? 0 : c->window, c->n_tokens, r->positions});
        copy_cache(a, b);
        must(a->ops->attend(a->backend, a->q, &a->kv[l], l ? 0 : c->window, a->q, &error), &error);
        must(b->ops->attend(b->backend, b->q, &b->kv[l], l ? 0 : c->window, b->q, &error), &error);
        compare(r, &(Compared){"attend", a->q, b->q, b->operand, of_q, r->bound});
        if (c->parallel) compare_gate_up(r, l);
        must(a->ops->out(a->backend, a->layers[l], a->q, a->x, &error), &error);
        must(b->ops->out(b->backend, b->layers[l], b->q, b->x, &error), &error);
        compare(r, &(Compared){"out", a->x, b->x, DTYPE_F32, n * c->hidden, r->bound});
        if (!c->parallel) compare_gate_up(r, l);
        must(a->ops->down(a->backend, a->layers[l], a->g, a->x, &error), &error);
        must(b->ops->down(b->backend, b->layers[l], b->g, b->x, &error), &error);
        compare(r, &(Compared){"down", a->x, b->x, DTYPE_F32, n * c->hidden, r->bound});
    }
    int32_t rows[] = {c->n_tokens - 1, 0, c->n_tokens / 2};
    must(a->ops->logits(a->backend, a->head, a->x, &(LogitRows){rows, 3}, a->logits, &error), &error);
    must(b->ops->logits(b->backend, b->head, b->x, &(LogitRows){rows, 3}, b->logits, &error), &error);
    compare(r, &(Compared){"logits", a->logits, b->logits, DTYPE_F32, 3 * (int64_t)c->vocab, r->few_bound});
    check_sentinel(c->name, b->ops, b->backend, b->x, b->sizes[0]);
    check_sentinel(c->name, b->ops, b->backend, b->q, b->sizes[1]);
    check_sentinel(c->name, b->ops, b->backend, b->g, b->sizes[2]);
    check_sentinel(c->name, b->ops, b->backend, b->logits, b->sizes[3]);
}

// The bound of logits where sums of halves (e4m3) go into a cache of int8. Halves round by 2e-4 of a number, root mean
// square: the inputs, and the sums of one to eight products, √(28/8) times as much; together 4.2e-4 of a product's size.
// An element of the token's own key or value, of size 1, becomes a multiple of about 2.2/127. A mean error of 0.8·4.2e-4
// takes 2 in 100 of them to the other neighbour: √(2.2/127 · 0.8 · 4.2e-4) = 2.4e-3 of the row. They are few, so that
// four times that happens: of the same roundings done by the CPU's loops, in 193 tokens of 60 models, the median is
// 2.1e-3, and the largest 8.6e-3; of the case's own model they are 2.2e-3, 4.8e-3 and 2.1e-3.
static double halves_beside_int8(void) {
    const double product = 4.2e-4, neighbour = sqrt(2.2 / 127 * 0.8 * product);
    return product + 4 * neighbour;
}

// One token at a time through decode(), against the CPU's ops; the keys and values it leaves too.
static void test_decode(Run *r, int index, int position) {
    const Case *c = r->c;
    Side *a = &r->cpu, *b = &r->cuda;
    Error error = {0};
    if (!b->ops->decode) return;
    for (int i = 0; i < 3; i++, index++, position++) {
        int32_t id = (i * 37 + 11) % c->vocab, slots = slot_of(r, index), positions = position;
        StepSequence sequence = {0,     1, r->n_indexes, r->pages, c->n_sinks, c->n_evicted, 0, c->prefix,
                                 false, 0, {0},          -1,       -1};
        Step step = {1, 1, &id, &positions, &slots, &sequence, r->page_size, a->slot_positions, STEP_ANY};
        int windows[TEST_LAYERS] = {c->window, 0};
        Pass pass = side_pass(a, &step, windows);
        must(a->ops->begin(a->backend, &step, a->kv, &error), &error);
        must(forward_pass_in(&pass, &pass.buffers, &error), &error);

        pass = side_pass(b, &step, windows);
        step.slot_positions = b->slot_positions;
        DecodeStep decode = side_decode(b, &step, &pass);
        Status status = b->ops->decode(b->backend, &decode, &error);
        bool paged = c->page_size > 0 || c->n_evicted > 0; // what the kernel must take
        bool kernel = c->kv == DTYPE_F16 || c->kv == DTYPE_INT8 || c->kv == DTYPE_INT4;
        if (status == STATUS_UNSUPPORTED && paged && kernel && c->page_size % 64 == 0 && !c->alibi)
            report(c->name, "decode refused", NAN, 0);
        if (status == STATUS_UNSUPPORTED) return;
        must(status, &error);
        // Quantised weights meet activations of 8 bits here.
        bool integers = quant_is_type(c->type) || (c->expert_type && quant_is_type(c->expert_type)) ||
                        c->type == DTYPE_NF4 || c->type == DTYPE_W8;
        double bound = integers ? 6e-2 : c->type == DTYPE_F32 && c->kv == DTYPE_F32 ? 1e-4 : 4e-3;
        if (c->type == DTYPE_BF16 && !integers) bound = 1.5e-2;
        if (c->kv == DTYPE_INT4) bound += 3e-2; // a key rounded to its other neighbour
        if (c->type == DTYPE_E4M3 && c->kv == DTYPE_INT8) bound = halves_beside_int8();
        if (!b->several) compare_decode_bases(b, &decode, c->name, bound);
        compare(r, &(Compared){"decode", a->logits, b->logits, DTYPE_F32, c->vocab, bound});
        check_sentinel(c->name, b->ops, b->backend, b->logits, b->sizes[3]);
        double saved = r->bound;
        r->bound = bound;
        for (int l = 0; l < TEST_LAYERS; l++) compare_cache(r, l);
        r->bound = saved;
    }
}

// One sequence; of more than two tokens two, of which the second sees the later pages only, unless it is to be whole;
// or n_rows sequences of a token each, every one longer than the one before. Returns their number.
static int cut_sequences(Run *r, StepSequence *sequences, int32_t *slots) {
    const Case *c = r->c;
    int n = c->n_tokens;
    for (int i = 0; i < n; i++) {
        int index = c->n_rows ? (int)((int64_t)(i + 1) * (c->past + n) / n) - 1 : c->past + i;
        slots[i] = slot_of(r, index);
        if (c->n_rows)
            sequences[i] = (StepSequence){i,     1, index + 1, r->pages, c->n_sinks, c->n_evicted, 0, 0,
                                          false, 0, {0},       -1,       -1};
    }
    if (c->n_rows) return n;
    sequences[0] = (StepSequence){0,     n, r->n_indexes, r->pages, c->n_sinks, c->n_evicted, 0, c->prefix,
                                  false, 0, {0},          -1,       -1};
    if (n < 3 || c->whole) return 1;
    int half = r->n_pages / 2;
    sequences[0].n_tokens = n / 3;
    sequences[1] = (StepSequence){
        n / 3, n - n / 3, r->n_indexes - half * r->page_size, r->pages + half, 0, 0, 0, 0, false, 0, {0},
        -1,    -1};
    return 2;
}

// A card that does not keeps inputs in 16 bits: nearer to the model by every bound, but for what a fixed scale saturates.
static bool multiplies_fp8(const Side *s) {
    const TuningOps *tuning = s->ops->tuning;
    return !tuning || !strcmp(tuning->built_in(s->backend), "Hopper");
}

static void test_on(const Ops *cuda, const char *devices, const Case *c) {
    TestModel model;
    model_fill(&model, c, 1234);
    Run r = {.c = c};
    r.bound = c->type == DTYPE_F32    ? (c->kv == DTYPE_F32 ? 1e-4 : 2e-3)
              : c->type == DTYPE_BF16 ? 1.2e-2
              : c->fp8                ? 4e-2 // likewise, in three bits of fraction
              : c->type == DTYPE_W8   ? 1e-2 // of activations whose rounding to 16 bits shows in 8
                                      : 3e-3;
    // Queries and gates of several cards are not looked at by themselves, so that errors of two ops add up; and a card's
    // share of a row of W8 has a scale of its own.
    if (devices) r.bound *= 2;
    // Of few rows a GEMV may round the inputs of quantised weights to 8 bits; the logits' rows are always few.
    r.few_bound = quant_is_type(c->type) || c->type == DTYPE_NF4 ? 1.5e-2 : r.bound;
    if (c->n_tokens <= DISPATCH_GEMV_MOST || c->n_experts)
        r.bound = devices ? 2 * r.few_bound : r.few_bound; // an expert has few rows of many
    lay_out_cache(&r);
    if (!devices) {
        side_open(&r.cuda, cuda, "cuda", c, &model, r.n_slots);
    } else if (!side_open_cards(&r.cuda, cuda, devices, c, &model, r.n_slots)) {
        model_free(&model);
        free(r.pages);
        free(r.positions);
        return;
    }
    TestModel reference = model;
    if (c->input_scale && !multiplies_fp8(&r.cuda)) reference.shape.fp8_inputs = FP8_INPUTS_KEPT;
    side_open(&r.cpu, ops_cpu(), "cpu:reference", c, &reference, r.n_slots);
    fill_cache(&r);

    int n = c->n_tokens, past = 0;
    for (int i = 0; i < r.n_slots; i++)
        if (r.positions[i] >= past) past = r.positions[i] + 1;
    int32_t *ids = malloc((size_t)n * 12), *at = ids + n, *slots = at + n;
    for (int i = 0; i < n; i++) ids[i] = (i * 7919 + 3) % c->vocab, at[i] = past + i;
    StepSequence *sequences = malloc((size_t)(n + 2) * sizeof *sequences);
    int n_sequences = cut_sequences(&r, sequences, slots);
    Step step = {n, n_sequences, ids, at, slots, sequences, r.page_size, r.cpu.slot_positions, STEP_ANY},
         other = step;
    other.slot_positions = r.cuda.slot_positions;
    test_ops(&r, (const Step *[2]){&step, &other});
    const int windows[TEST_LAYERS] = {c->window, 0};
    if (!c->feed_back && !c->fp8)
        test_narrow(&(NarrowCase){&r.cuda, c->name, &other, windows, c->vocab, 4 * r.few_bound});
    copy_cache(&r.cpu, &r.cuda);
    if (!c->fp8) test_decode(&r, c->past + n, past + n); // whose inputs keep 16 bits here, not on the CPU

    side_close(&r.cpu);
    side_close(&r.cuda);
    model_free(&model);
    free(sequences);
    free(ids);
    free(r.pages);
    free(r.positions);
}

static void test_case(const Ops *cuda, const Case *c) {
    test_on(cuda, NULL, c);
}

typedef struct Wish {
    const char *plugin, *golden, *model, *only;
    int part, parts;
} Wish;

static bool in_part(const Wish *w, int number) {
    return number % w->parts == w->part;
}

// Groups of tests, in the order in which parts take them: long ones apart.
static const char *const GROUPS[] = {"golden", "flat",    "ways",    "rows",   "sample",   "sums",
                                     "caches", "refused", "ahead",   "drafts", "snapshot", "text",
                                     "fault",  "heads",   "divided", "cards",  "delta"};
static bool group_in_part(const Wish *w, const char *name) {
    const int n = sizeof GROUPS / sizeof *GROUPS;
    int i = 0;
    if (!strcmp(name, "memory")) return w->parts == 1;
    while (i < n && strcmp(GROUPS[i], name) != 0) i++;
    if (i == n) printf("FAILED the group %s is in no part\n", name), exit(1);
    return in_part(w, i);
}

static bool wanted(const Wish *w, const char *name) {
    return w->only ? !strcmp(w->only, name) : group_in_part(w, name);
}
static bool begins(const Wish *w, const char *name) {
    if (wanted(w, name)) printf("== %s\n", name);
    return wanted(w, name);
}

static void read_wishes(int argc, char **argv, Wish *w) {
    *w = (Wish){.plugin = "./libpalaver-cuda.so", .parts = 1};
    for (int i = 1; i < argc; i++) {
        if (i == 1 && argv[i][0] != '-')
            w->plugin = argv[i];
        else if (!strcmp(argv[i], "--golden") && i + 1 < argc)
            w->golden = argv[++i];
        else if (!strcmp(argv[i], "--model") && i + 1 < argc)
            w->model = argv[++i];
        else if (!strcmp(argv[i], "--part") && i + 1 < argc)
            w->part = atoi(argv[i + 1]),
            w->parts = strchr(argv[i + 1], '/') ? atoi(strchr(argv[i + 1], '/') + 1) : 0, i++;
        else
            w->only = argv[i];
    }
    if (w->parts < 1 || w->part < 0 || w->part >= w->parts) {
        fprintf(stderr, "--part I/N: I from 0, less than N\n");
        exit(2);
    }
    side_share_cores(w->parts);
    // In the tree, or in a bundle.
    if (!w->golden) w->golden = access(GOLDEN, R_OK) ? "golden" : GOLDEN;
}

static void test_engine(const Ops *cuda, const Wish *w) {
    const Ops *beside;
    Error error;
    if (!wanted(w, "golden") && !wanted(w, "memory") && !wanted(w, "text") && !wanted(w, "ahead") &&
        !wanted(w, "snapshot") && !wanted(w, "heads") && !wanted(w, "divided") && !wanted(w, "fault") &&
        !wanted(w, "cards") && !wanted(w, "drafts"))
        return;
    if (backend_cuda_ops(&beside, &error) || beside != cuda) {
        printf("FAILED the engine: %s is not the plug-in beside this program\n", w->plugin);
        return report("engine", "plug-in", NAN, 0);
    }
    if (begins(w, "golden")) test_golden_logits(w->golden, report);
    if (begins(w, "heads")) test_layer_heads(w->golden, report);
    char models[400];
    snprintf(models, sizeof models, "%s/models", w->golden);
    if (begins(w, "ahead")) test_steps_ahead(w->golden, report);
    if (begins(w, "drafts")) test_drafts(w->golden, report);
    if (begins(w, "snapshot")) test_snapshots(w->golden, report);
    if (begins(w, "divided")) test_splits(w->golden, report);
    if (begins(w, "memory")) test_memory(cuda, models, report), test_small_cards(report);
    if (begins(w, "text") && w->model) test_greedy_text(w->model, report);
    if (begins(w, "cards") && cards_are_there(cuda))
        test_cards(&(CardsWish){cuda, w->golden, test_on, w->part, w->parts});
    if (begins(w, "fault")) test_fault(w->plugin, report);
}

int main(int argc, char **argv) {
    Wish w;
    setvbuf(stdout, NULL, _IOLBF, 0); // what ends by a signal has said what it was at
    read_wishes(argc, argv, &w);
    void *library = dlopen(w.plugin, RTLD_NOW | RTLD_LOCAL);
    OpsPlugin plugin = NULL;
    if (library) *(void **)&plugin = dlsym(library, "palaver_cuda_ops");
    const Ops *cuda = plugin ? plugin(OPS_ABI) : NULL;
    if (!cuda) {
        printf("%s: %s\n", w.plugin, library ? "no plug-in of this version" : dlerror());
        return 1;
    }
    if (w.only && !strcmp(w.only, "--fault-child")) return fault_child(cuda);
    if (w.only && !strcmp(w.only, "attend-speed")) return attend_speed(cuda), 0;
    if (w.only && !strcmp(w.only, "delta-speed")) return delta_speed(cuda), 0;
    if (w.only && !strcmp(w.only, "sample-speed")) return sample_speed(cuda), 0;
    if (w.only && !strcmp(w.only, "snapshot-speed")) return snapshot_speed(), 0;
    for (int i = 0; i < cases_n(); i++)
        if (w.only ? strstr(cases_at(i)->name, w.only) != NULL : in_part(&w, i)) test_case(cuda, cases_at(i));
    if (!w.only) report_bases();
    if (w.only || group_in_part(&w, "flat")) test_flat(cuda, w.only, test_case);
    if (wanted(&w, "rows") || (w.only && !strncmp(w.only, "rows: ", 6))) test_independent(cuda, w.only);
    if (wanted(&w, "delta") || (w.only && !strncmp(w.only, "delta: ", 7))) test_delta(cuda, w.only);
    if (begins(&w, "sums")) test_w8_sums(cuda);
    if (begins(&w, "ways")) test_ways(cuda);
    if (begins(&w, "refused")) test_refused(cuda);
    if (begins(&w, "caches")) test_caches(cuda);
    if (begins(&w, "sample")) test_sampling(cuda, report);
    test_engine(cuda, &w);
    return failures();
}
