#include "app/tools/inspect.h"

#include "app/loading/load.h"
#include "app/loading/plan_shown.h"
#include "app/terminal/text_shown.h"
#include "engine/cache/kv_cache.h"
#include "engine/files/tokenizer_source.h"
#include "engine/model/weights/conversion.h"
#include "kernels/base/text/format.h"
#include "tokenizer/chat/chat_template.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double mega(int64_t bytes) {
    return (double)bytes / 1e6;
}

static const char *scaling_name(RopeScaling scaling) {
    static const char *const names[] = {"none",       "linear",      "llama3",   "YaRN",
                                        "by factors", "dynamic NTK", "LongRoPE", "of a part"};
    return names[scaling];
}

static void print_positions(const Model *m, FILE *out) {
    const DecoderShape *s = &m->shape;
    if (s->rope.rotary_dim == 0) {
        if (s->alibi)
            fputs("positions     by ALiBi\n", out);
        else if (decoder_attending(s) == 0)
            fputs("positions     by the order in which states take tokens in\n", out);
        else
            fprintf(out, "positions     %d, learned\n", s->n_positions);
        return;
    }
    fprintf(out, "rope          base %g, %d of %d dimensions, %s, scaling %s", m->rope_base,
            s->rope.rotary_dim, decoder_most_head_dim(s),
            s->rope.kind == ROPE_INTERLEAVED ? "interleaved" : "half-split", scaling_name(m->rope_scaling));
    if (m->rope_scaling != ROPE_SCALING_NONE && !isnan(m->rope_factor)) fprintf(out, " x%g", m->rope_factor);
    int still = 0;
    for (int l = 0; l < s->n_layers && m->layer_ropes; l++) still += m->layer_ropes[l] < 0;
    if (s->rope.n_tables > 1) fprintf(out, "; base %g behind windows", m->window_base);
    if (still) fprintf(out, "; none in %d layer%s", still, text_plural(still));
    fputc('\n', out);
}

// Norms in other places than before a part, caps and scales.
static void print_further(const Model *m, FILE *out) {
    const DecoderShape *s = &m->shape;
    const LayerWeights *w = &m->layers[0];
    if (w->attn_post_norm.data) fprintf(out, "norms %s parts, ", w->attn_norm.data ? "around" : "behind");
    if (s->activation == ACTIVATION_XIELU) fputs("xIELU, ", out);
    if (s->attention_cap > 0) fprintf(out, "scores capped at %g, ", (double)s->attention_cap);
    if (s->logit_cap > 0) fprintf(out, "logits at %g, ", (double)s->logit_cap);
    const double scales[] = {(double)s->embedding_scale * m->residual_scale, m->residual_scale,
                             (double)s->logit_scale};
    static const char *const NAMES[] = {"embeddings", "residuals", "logits"};
    for (int i = 0; i < 3; i++)
        if (scales[i] != 1 && scales[i] != 0) fprintf(out, "%s x%.4g, ", NAMES[i], scales[i]);
}

static void print_experts(const Model *m, FILE *out) {
    const Experts *e = &m->shape.experts;
    if (e->n == 0) return;
    int layers = 0;
    for (int l = 0; l < m->shape.n_layers; l++) layers += m->layers[l].router.data != NULL;
    fprintf(out, "experts       %d of %d in %d layer%s, %d for a token, by %s%s", e->n, e->size, layers,
            text_plural(layers), e->n_active,
            e->score == ROUTER_SIGMOID       ? "sigmoids"
            : e->score == ROUTER_SPARSEMIXER ? "SparseMixer"
                                             : "softmax",
            e->renormalise ? ", renormalised" : "");
    if (e->shared_size) fprintf(out, ", one of %d for all", e->shared_size);
    fprintf(out, "; %.1f M of %.1f M parameters a token, %.1f MB read\n",
            (double)m->n_active_parameters / 1e6, (double)m->n_parameters / 1e6,
            mega(m->weight_bytes - model_idle_bytes(m)));
}

static void print_convolutions(const DecoderShape *s, FILE *out) {
    int n = 0;
    for (int l = 0; l < s->n_layers; l++) n += s->heads_of_layers[l].convolves;
    fprintf(out, "layers        %d of %d convolve over %d tokens instead of attending\n", n, s->n_layers,
            s->convolution.taps);
}

static void print_recurring(const DecoderShape *s, FILE *out) {
    const DeltaRule *d = &s->delta;
    const char *what = d->adds ? "as a state space" : "by the delta rule";
    if (layer_has_beside(s, 0)) // one of the files is two here
        fprintf(out, "layers        all recur %s beside attending", what);
    else
        fprintf(out, "layers        %d of %d recur %s instead of attending", decoder_recurring(s),
                s->n_layers, what);
    fprintf(out, ": %d heads of %d for queries and keys, %d of %d for values, taps over %d tokens\n",
            d->n_key_heads, d->key_dim, d->n_value_heads, d->value_dim, d->taps);
}

// Of layers that are one part alone.
static void print_parts(const DecoderShape *s, FILE *out) {
    const int recur = decoder_recurring(s), feed = decoder_without_mixer(s);
    fprintf(out, "layers        of one part each: %d attend, %d recur, %d are feed-forward parts\n",
            s->n_layers - recur - feed, recur, feed);
}

// Where layers differ.
static void print_layer_heads(const Model *m, FILE *out) {
    const DecoderShape *s = &m->shape;
    int borrowed = 0;
    if (!s->heads_of_layers) return;
    if (s->convolution.taps > 0) return print_convolutions(s, out);
    if (decoder_without_mixer(s) > 0) print_parts(s, out);
    if (s->delta.n_value_heads > 0) return print_recurring(s, out);
    if (decoder_without_mixer(s) > 0) return;
    const LayerHeads *last = &s->heads_of_layers[s->n_layers - 1]; // it has no window
    for (int l = 0; l < s->n_layers; l++) borrowed += s->heads_of_layers[l].lender != l;
    fprintf(out, "layers        without a window: heads of %d (%d for keys and values%s)", last->head_dim,
            last->n_kv_heads, m->same_values ? ", which are the same" : "");
    if (borrowed)
        fprintf(out, "; the last %d have no keys of their own, and feed-forward %d (others %d)", borrowed,
                s->intermediate_size, m->usual_intermediate);
    if (s->token_size) fprintf(out, "; %d elements of each token for each layer", s->token_size);
    fputc('\n', out);
}

static void print_architecture(const Model *m, FILE *out) {
    const DecoderShape *s = &m->shape;
    const Latent *l = &s->latent;
    const int n_layers = layer_of_files(s, s->n_layers - 1) + 1;
    fprintf(out, "architecture  %s: %d layer%s, hidden %d, ", m->architecture, n_layers,
            text_plural(n_layers), s->hidden_size);
    if (l->rank > 0)
        fprintf(out, "%d heads of %d, values of %d, from latents of %d, feed-forward %d\n", s->n_heads,
                l->plain_dim + s->rope.rotary_dim, l->value_dim, l->rank, s->intermediate_size);
    else if (decoder_attending(s) > 0)
        fprintf(out, "%d heads of %d (%d for keys and values), feed-forward %d\n", s->n_heads, s->head_dim,
                s->n_kv_heads, s->intermediate_size);
    else if (!layer_heads(s, 0).no_ffn)
        fprintf(out, "none attends, feed-forward %d\n", s->intermediate_size);
    else
        fputs("none attends or has a feed-forward part\n", out);
    print_layer_heads(m, out);
    print_experts(m, out);
    fprintf(out, "vocabulary    %d%s\n", s->vocab_size, m->tied_head ? ", head tied to the embedding" : "");
    fprintf(out, "context       %" PRId64 " tokens", m->context_length);
    int windowed = 0;
    for (int l = 0; l < s->n_layers; l++) windowed += m->attention_windows[l] > 0;
    if (windowed)
        fprintf(out, ", sliding window of %d in %d layer%s", m->sliding_window, windowed,
                text_plural(windowed));
    if (m->chunk > 0) fprintf(out, ", layers that turn see chunks of %d", m->chunk);
    fputc('\n', out);
    print_positions(m, out);
    fprintf(out, "extras        ");
    print_further(m, out);
    fprintf(out, "%s%s%s%s%s%s%s%s norm eps %g\n", m->seen_both_ways ? "prompt seen both ways, " : "",
            m->qkv_bias     ? "QKV bias, "
            : m->state_bias ? "biases of products, "
                            : "",
            m->o_bias ? "output bias, " : "", m->ffn_bias ? "feed-forward bias, " : "",
            m->output_bias ? "head bias, " : "", m->qk_norm ? "QK norm, " : "",
            s->parallel_residual ? "parallel residual, " : "", s->norm == NORM_LAYER ? "layer" : "RMS",
            (double)s->norm_eps * m->residual_scale * m->residual_scale);
    if (m->other_parts[0] != '\0') fprintf(out, "left alone    %s\n", m->other_parts);
}

// What a quantised folder's weights are made of: each way once, with how many there are and what they become.
static void print_methods(const Checkpoint *c, FILE *out) {
    const CheckpointTensor *shown[8];
    int n = 0, others = 0;
    for (int64_t i = 0; i < checkpoint_n_tensors(c); i++) {
        const CheckpointTensor *t = checkpoint_tensor(c, i);
        bool known = !t->method;
        for (int k = 0; k < n && !known; k++)
            known = strcmp(shown[k]->method, t->method) == 0 && shown[k]->type == t->type;
        others += !known && n == 8;
        if (known || n == 8) continue;
        shown[n++] = t;
        int64_t count = 0;
        for (int64_t j = i; j < checkpoint_n_tensors(c); j++) {
            const CheckpointTensor *u = checkpoint_tensor(c, j);
            count += u->method && strcmp(u->method, t->method) == 0 && u->type == t->type;
        }
        fprintf(out, "quantised     %" PRId64 " x %s, held as %s\n", count, t->method, t->type_name);
    }
    if (others) fprintf(out, "quantised     %d in other ways\n", others);
    if (checkpoint_notice(c)) fprintf(out, "              %s\n", checkpoint_notice(c));
}

static void print_types(const Model *m, FILE *out) {
    int64_t bytes[DTYPE_COUNT] = {0}, count[DTYPE_COUNT] = {0};
    const Checkpoint *c = m->checkpoint;
    for (int64_t i = 0; i < checkpoint_n_tensors(c); i++) {
        const CheckpointTensor *t = checkpoint_tensor(c, i);
        if (!t->supported) continue;
        bytes[t->type] += (int64_t)t->bytes;
        count[t->type]++;
    }
    fprintf(out, "weights       %.1f M parameters, %.1f MB:", (double)m->n_parameters / 1e6,
            mega(m->weight_bytes));
    const char *separator = " ";
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (count[t]) {
            fprintf(out, "%s%" PRId64 " x %s %.1f MB", separator, count[t], dtype_name((DType)t),
                    mega(bytes[t]));
            separator = ", ";
        }
    fputc('\n', out);
    print_methods(c, out);
}

// What all weights take, with linear layers in every type that suits them, and the head's output by itself.
static void print_held(const Model *m, FILE *out) {
    int64_t own = conversion_bytes(m, WEIGHTS_OWN, WEIGHTS_OWN),
            head = conversion_bytes(m, WEIGHTS_OWN, WEIGHTS_INT8);
    fprintf(out, "--weights     own %.1f MB", mega(own));
    for (WeightType type = WEIGHTS_F16; type <= WEIGHTS_INT4; type++) {
        int64_t bytes = conversion_bytes(m, type, WEIGHTS_OWN);
        if (bytes >= 0) fprintf(out, ", %s %.1f MB", conversion_name(type), mega(bytes));
    }
    if (head >= 0) fprintf(out, "; --head int8 %.1f MB", mega(head));
    fputc('\n', out);
}

// What states take that a cache for one conversation keeps of its text, where layers recur.
static void print_states(const KvLayout *layout, FILE *out) {
    char one[FORMAT_ROOM], all[FORMAT_ROOM];
    format_bytes((double)kv_layout_state_bytes(layout), one);
    format_bytes((double)(kv_layout_states_bytes(layout) * layout->n_recurring), all);
    fprintf(out, "states        %s each, %d of them in a cache: %s\n", one, layout->n_states, all);
}

// What the keys and values of one token and of some contexts take, in every type that suits the model's heads, states
// included.
static void print_memory(const Model *m, FILE *out) {
    static const DType types[] = {DTYPE_F16, DTYPE_INT8, DTYPE_INT4};
    for (int i = 0; i < 3; i++) {
        CacheOptions options = cache_options(types[i]);
        KvLayout layout;
        if (kv_cache_layout(&options, &m->shape, 2048, &layout, NULL)) continue;
        const int64_t states = kv_layout_states_bytes(&layout) * layout.n_recurring;
        if (states > 0 && i == 0) print_states(&layout, out);
        if (layout.n_layers == 0) { // of whichever type
            fputs("cache         positions alone, 4 B a token\n", out);
            return;
        }
        fprintf(out, "%-13s %s %.1f KB a token", i ? "" : "cache", dtype_name(types[i]),
                (double)(kv_cache_bytes(&layout) - states) / 2048 / 1e3);
        for (int64_t size = 2048; size <= m->context_length && size <= 131072; size *= 4)
            if (!kv_cache_layout(&options, &m->shape, (int)size, &layout, NULL))
                fprintf(out, "%s %.0f MB at %" PRId64, size == 2048 ? ":" : ",",
                        mega(kv_cache_bytes(&layout)), size);
        fputc('\n', out);
    }
}

static Status print_words(const Model *m, const Tokenizer *tokenizer, FILE *out, Error *error) {
    fprintf(out, "tokenizer     %s, %" PRId64 " pieces", tokenizer_describe(tokenizer),
            tokenizer_size(tokenizer));
    const int32_t ids[] = {tokenizer_bos(tokenizer), tokenizer_eos(tokenizer)};
    for (int i = 0; i < 2; i++) {
        if (ids[i] < 0) continue;
        size_t size;
        const char *piece = tokenizer_piece(tokenizer, ids[i], &size);
        fprintf(out, ", %s %d ", i ? "eos" : "bos", ids[i]);
        text_print_escaped(out, piece, size);
    }
    fputc('\n', out);
    if (tokenizer_notice(tokenizer)) fprintf(out, "              %s\n", tokenizer_notice(tokenizer));

    char *jinja = NULL;
    ChatTemplate *chat = NULL;
    Status status = checkpoint_chat_template(m->checkpoint, &jinja, error);
    if (!status) status = chat_template_recognise(jinja, tokenizer, &chat, error);
    if (!status) {
        const char *notice = chat_template_notice(chat), *name = chat_template_name(chat);
        fprintf(out, "template      %s%s\n", name,
                strcmp(name, "jinja") ? ""
                : jinja               ? " (the model's own, executed)"
                                      : " (of its makers' code, executed)");
        if (notice) fprintf(out, "              %s\n", notice);
    }
    chat_template_close(chat);
    free(jinja);
    return status;
}

static void print_tensors(const Checkpoint *c, FILE *out) {
    fprintf(out, "tensors       %" PRId64 "\n", checkpoint_n_tensors(c));
    for (int64_t i = 0; i < checkpoint_n_tensors(c); i++) {
        const CheckpointTensor *t = checkpoint_tensor(c, i);
        fputs("  ", out);
        text_print_escaped(out, t->name, strlen(t->name));
        fputs(" [", out);
        for (int d = 0; d < t->n_dims; d++) fprintf(out, "%s%" PRId64, d ? ", " : "", t->shape[d]);
        fprintf(out, "] %s %.3f MB", t->type_name, mega((int64_t)t->bytes));
        if (t->method) fprintf(out, ", of %s", t->method);
        fputc('\n', out);
    }
}

static void print_file(const Checkpoint *c, FILE *out) {
    fprintf(out, "file          %s (%s, %d file%s)\n", text_path(checkpoint_path(c)).text,
            checkpoint_format(c) == CHECKPOINT_GGUF ? "GGUF" : "safetensors", checkpoint_n_files(c),
            text_plural(checkpoint_n_files(c)));
}

// What can be said of a file that holds no model palaver knows.
static void print_unknown(const char *path, FILE *out) {
    Checkpoint *c;
    Error error;
    if (checkpoint_open(path, &c, &error)) return;
    print_file(c, out);
    print_tensors(c, out);
    checkpoint_close(c);
}

// Architecture, rope, tokenizer, template, bytes by type, memory at a few context sizes, then every tensor.
static Status print_model(const char *path, FILE *out, Error *error) {
    Model *model = NULL;
    Tokenizer *tokenizer = NULL;
    Status status = model_open(path, &model, error);
    if (status) {
        print_unknown(path, out);
        return status;
    }
    const Checkpoint *c = model->checkpoint;
    print_file(c, out);
    if (*model->name) fprintf(out, "name          %s\n", text_name(model->name).text);
    print_architecture(model, out);
    print_types(model, out);
    print_held(model, out);
    print_memory(model, out);
    status = tokenizer_open_for(c, &tokenizer, error);
    if (!status) status = print_words(model, tokenizer, out, error);
    if (!status) print_tensors(c, out);
    tokenizer_close(tokenizer);
    model_close(model);
    return status;
}

// Where it would run and what it would take there, with the settings as they are: nothing is loaded for it.
static Status print_plan(Program *program, FILE *out, Error *error) {
    EngineOptions options = program->settings.engine;
    Engine *engine;
    char backend[256], plan[PLAN_ROOM];
    options.model = program->model;
    options.cache = load_cache_options(program->screen, &program->settings, program_room(program));
    options.plans_only = true;
    Status status = engine_open(&options, &engine, error);
    if (status) return status;
    const char *note = engine_backend_note(engine);
    engine_describe_backend(engine, backend, sizeof backend);
    plan_shown(engine, plan);
    fprintf(out, "plan          %s; context %d tokens (%s)\n%s\n", backend, engine_context_size(engine),
            dtype_name(engine_cache_type(engine)), plan);
    if (*note) fprintf(out, "              not on the GPU: %s\n", note);
    engine_close(engine);
    return STATUS_OK;
}

// Who says where, or what there shall be room for.
static bool asks_for_plan(const Options *o) {
    bool asks = false;
    for (int i = 0; i < o->n_settings; i++) {
        const char *section = o->settings[i].key->section;
        asks =
            asks || !strcmp(section, "backend") || !strcmp(section, "cache") || !strcmp(section, "context");
    }
    return asks;
}

int inspect_main(Program *program) {
    Error error;
    if (program_find_model(program, NULL, &error)) return program_fail(program, &error, EXIT_MODEL);
    Status status = print_model(program->model, stdout, &error);
    if (!status && asks_for_plan(&program->options)) status = print_plan(program, stdout, &error);
    return program_finish(program, status, &error);
}
