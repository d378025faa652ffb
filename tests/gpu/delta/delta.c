// Layers that recur: the models that are tested, op by op (delta_ops.c) and as a whole (delta_models.c), and their texts.
#include "tests/gpu/delta/delta.h"

#include "kernels/cpu/loops/quant.h"
#include "tests/gpu/delta/delta_internal.h"

#include <stdio.h>
#include <string.h>

// ---- texts ---------------------------------------------------------------------------------------------------------

void texts_begin(Texts *t) {
    int32_t none[TEXTS * PAGE];
    Error error;
    for (int i = 0; i < TEXTS; i++) t->places[i] = (Place){0, -1};
    memset(none, 0xff, sizeof none);
    must(t->side.ops->write(t->side.backend, t->side.slot_positions, none, sizeof none, &error), &error);
}

void texts_open(Texts *t, const Ops *ops, const char *device, const DeltaCase *d, const TestModel *model) {
    *t = (Texts){.d = d};
    side_open(&t->side, ops, device, &d->c, model, TEXTS * PAGE);
    for (t->layer = 0; !(d->c.recurs >> t->layer & 1);) t->layer++;
    texts_begin(t);
}

void texts_make_step(Texts *t, const int n[TEXTS], StepKind kind, TextStep *to) {
    int tokens = 0, some = 0;
    for (int i = 0; i < TEXTS; i++) {
        Place *p = &t->places[i];
        if (n[i] == 0) continue;
        const int32_t next = 2 * i + (p->state == 2 * i);
        to->pages[i] = i * PAGE, to->text_of[some] = i;
        to->sequences[some++] = (StepSequence){.first_token = tokens,
                                               .n_tokens = n[i],
                                               .n_slots = p->done + n[i],
                                               .pages = &to->pages[i],
                                               .in_order = true,
                                               .state_from = p->state,
                                               .state_to = next};
        for (int k = 0; k < n[i]; k++, tokens++) {
            const int at = p->done + k;
            to->ids[tokens] = (i * 7919 + at * 104729 + 3) % t->d->c.vocab;
            to->positions[tokens] = at, to->slots[tokens] = i * PAGE + at;
        }
        p->state = next;
    }
    to->step = (Step){
        tokens, some, to->ids, to->positions, to->slots, to->sequences, PAGE, t->side.slot_positions, kind};
}

void texts_end_step(Texts *t, const int n[TEXTS]) {
    for (int i = 0; i < TEXTS; i++) t->places[i].done += n[i];
}

Bounds delta_bounds(const Case *c) {
    const bool integers = quant_is_type(c->type) || c->type == DTYPE_NF4;
    if (c->type == DTYPE_W8) return (Bounds){2e-2, 2e-2, 6e-2};
    if (c->type == DTYPE_F32) return (Bounds){2e-4, 2e-4, 4e-4};
    if (c->type == DTYPE_BF16) return (Bounds){1.2e-2, 1.2e-2, 2e-2};
    return integers ? (Bounds){3e-3, 3e-2, 6e-2} : (Bounds){3e-3, 3e-3, 6e-3};
}

// ---- the cases -----------------------------------------------------------------------------------------------------

#define MODEL .n_tokens = STEP_MOST, .qk_norm = true, .gate = true
static const DeltaCase CASES[] = {
    {{"delta: f32, heads of 8", DTYPE_F32, 64, 4, 2, 16, 96, 257, MODEL, .recurs = 1, .kv = DTYPE_F32},
     {2, 2, 8, 8, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: f32, in turns, last", DTYPE_F32, 64, 4, 2, 16, 96, 257, MODEL, .recurs = 2, .kv = DTYPE_F32},
     {2, 4, 16, 24, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: f32, four for a key", DTYPE_F32, 64, 4, 2, 16, 96, 257, MODEL, .recurs = 3, .kv = DTYPE_F32},
     {1, 4, 32, 16, 3, false, false, 3e-3f, 0, 0}},
    {{"delta: f32, one tap", DTYPE_F32, 64, 4, 2, 16, 96, 257, MODEL, .recurs = 1, .kv = DTYPE_F32},
     {2, 4, 24, 32, 1, true, false, 3e-3f, 0, 0}},
    {{"delta: f32, eight taps", DTYPE_F32, 72, 4, 2, 16, 96, 257, MODEL, .recurs = 1, .kv = DTYPE_F32},
     {3, 6, 40, 40, 8, false, false, 3e-3f, 0, 0}},
    {{"delta: f32, heads of 128", DTYPE_F32, 128, 4, 2, 32, 96, 257, MODEL, .recurs = 1, .kv = DTYPE_F32},
     {2, 4, 128, 128, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: f32, heads of 64", DTYPE_F32, 128, 4, 2, 32, 96, 257, MODEL, .recurs = 3, .kv = DTYPE_F32},
     {2, 8, 64, 64, 2, false, false, 3e-3f, 0, 0}},
    {{"delta: f32, heads of 256", DTYPE_F32, 128, 4, 2, 32, 96, 257, MODEL, .recurs = 2, .kv = DTYPE_F32},
     {1, 2, 256, 136, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: f32, adds", DTYPE_F32, 64, 4, 2, 16, 96, 257, MODEL, .recurs = 1, .kv = DTYPE_F32},
     {2, 6, 32, 24, 4, false, true, 3e-3f, 0, 0}},
    {{"delta: f32, adds, last", DTYPE_F32, 128, 4, 2, 32, 96, 257, MODEL, .recurs = 2, .kv = DTYPE_F32},
     {1, 12, 128, 64, 4, false, true, 3e-3f, 0.6f, 0.7f}},
    {{"delta: bf16, adds, rates in f32", DTYPE_BF16, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 3,
      .kv = DTYPE_F16, .float_rates = true},
     {2, 8, 128, 64, 4, false, true, 3e-3f, 0, 0}},
    {{"delta: q8_0, adds", DTYPE_Q8_0, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 1, .kv = DTYPE_F16},
     {1, 8, 64, 64, 4, false, true, 3e-3f, 0, 0}},
    {{"delta: f16", DTYPE_F16, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 1, .kv = DTYPE_F16},
     {4, 8, 64, 64, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: bf16, six taps", DTYPE_BF16, 256, 4, 1, 64, 320, 301, MODEL, .recurs = 1, .kv = DTYPE_F16},
     {2, 4, 64, 64, 6, false, false, 3e-3f, 0, 0}},
    {{"delta: bf16, three for a key", DTYPE_BF16, 256, 4, 1, 64, 320, 301, MODEL, .recurs = 3,
      .kv = DTYPE_F16},
     {2, 6, 128, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: bf16, last", DTYPE_BF16, 256, 4, 1, 64, 320, 301, MODEL, .recurs = 2, .kv = DTYPE_F16},
     {4, 8, 128, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: bf16, rates in f32", DTYPE_BF16, 256, 4, 1, 64, 320, 301, MODEL, .recurs = 1, .kv = DTYPE_F16,
      .float_rates = true},
     {2, 4, 32, 32, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: f16, experts", DTYPE_F16, 256, 4, 1, 64, 96, 301, MODEL, .recurs = 3, .kv = DTYPE_F16,
      .n_experts = 8, .n_active = 2, .router = 1, .shared = 96, .routed = true},
     {2, 4, 64, 64, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: q4_0", DTYPE_Q4_0, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 1, .kv = DTYPE_F16},
     {2, 4, 64, 64, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: q8_0, rates in f16, last", DTYPE_Q8_0, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 2,
      .kv = DTYPE_F16, .rate_type = DTYPE_F16},
     {2, 6, 64, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: q4_k and q6_k, rates in f32", DTYPE_Q4_K, 512, 4, 2, 64, 512, 301, MODEL, .recurs = 1,
      .kv = DTYPE_F16, .v_type = DTYPE_Q6_K, .float_rates = true},
     {4, 8, 128, 128, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: e4m3, rates in bf16", DTYPE_E4M3, 512, 4, 2, 64, 512, 301, MODEL, .recurs = 1, .kv = DTYPE_F16,
      .rate_type = DTYPE_BF16},
     {2, 4, 128, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: bf16, attending heads of 256", DTYPE_BF16, 512, 4, 1, 256, 640, 301, MODEL, .recurs = 1,
      .kv = DTYPE_F16},
     {2, 4, 128, 128, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: q4_0, attending heads of 256, last", DTYPE_Q4_0, 512, 4, 2, 256, 640, 301, MODEL, .recurs = 2,
      .kv = DTYPE_F16},
     {2, 8, 64, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: f16, adds, one head of keys", DTYPE_F16, 256, 4, 1, 64, 320, 301, MODEL, .recurs = 1,
      .kv = DTYPE_F16},
     {1, 16, 128, 32, 4, false, true, 3e-3f, 0, 0}},
    {{"delta: w8, adds", DTYPE_W8, 256, 4, 1, 64, 320, 301, MODEL, .recurs = 2, .kv = DTYPE_F16},
     {1, 8, 128, 64, 4, false, true, 3e-3f, 0, 0}},
    {{"delta: bf16, more heads than blocks", DTYPE_BF16, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 1,
      .kv = DTYPE_F16},
     {2, 148, 16, 16, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: w8", DTYPE_W8, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 1, .kv = DTYPE_F16},
     {2, 4, 64, 64, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: w8, rates in f16, last", DTYPE_W8, 256, 4, 2, 64, 320, 301, MODEL, .recurs = 2, .kv = DTYPE_F16,
      .rate_type = DTYPE_F16},
     {3, 6, 64, 64, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: bf16, experts, attending heads of 256", DTYPE_BF16, 512, 4, 1, 256, 96, 301, MODEL, .recurs = 1,
      .kv = DTYPE_F16, .n_experts = 12, .n_active = 3, .router = 1, .shared = 96, .routed = true},
     {2, 4, 128, 128, 4, true, false, 3e-3f, 0, 0}},
    {{"delta: q4_0, experts, attending heads of 256, last", DTYPE_Q4_0, 512, 4, 2, 256, 160, 301, MODEL,
      .recurs = 2, .kv = DTYPE_F16, .n_experts = 40, .n_active = 8, .router = 1, .rate_type = DTYPE_F16},
     {2, 8, 64, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: q8_0, 512 experts, attending heads of 256", DTYPE_Q8_0, 512, 8, 2, 256, 64, 301, MODEL,
      .recurs = 1, .kv = DTYPE_F16, .n_experts = 512, .n_active = 10, .router = 1, .shared = 64,
      .routed = true},
     {4, 8, 128, 128, 4, false, false, 3e-3f, 0, 0}},
    {{"delta: q4_k and q6_k, 256 experts, attending heads of 256", DTYPE_Q4_K, 512, 16, 2, 256, 256, 301,
      MODEL, .recurs = 1, .kv = DTYPE_F16, .v_type = DTYPE_Q6_K, .down_type = DTYPE_Q6_K, .n_experts = 256,
      .n_active = 8, .router = 1, .shared = 256, .routed = true, .float_rates = true},
     {4, 8, 128, 128, 4, false, false, 3e-3f, 0, 0}},
};

void test_delta(const Ops *cuda, const char *only) {
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        if (only && strcmp(only, "delta") != 0 && !strstr(CASES[i].c.name, only)) continue;
        DeltaCase d = CASES[i];
        TestModel model;
        d.c.delta = &d.rule;
        model_fill(&model, &d.c, 1234);
        delta_test_ops(cuda, &d, &model);
        delta_test_model(cuda, &d, &model);
        model_free(&model);
        fflush(stdout);
    }
}
