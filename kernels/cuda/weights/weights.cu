// Layers' weights on the device: laid out in one allocation a layer, brought there by upload.cu.
#include "kernels/cuda/weights/layout.cuh"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- layout ------------------------------------------------------------------------------------------------------

// The form in which rows of both types can lie in one matrix without a loss. False: there is none.
static bool common_format(DType a, DType b, Format *format) {
    Format fa = format_of(a), fb = format_of(b);
    *format = fa;
    if (fa == fb) return true;
    if (!format_grouped(fa) || !format_grouped(fb)) return false;
    if (fa == FORMAT_E4M3 || fb == FORMAT_E4M3) return false; // whose numbers are no integers
    if (fa == FORMAT_NF4 || fb == FORMAT_NF4) return false;
    if (fa == FORMAT_Q2 || fb == FORMAT_Q2) return false; // minimums of 16 elements
    bool fine = fa == FORMAT_Q6 || fb == FORMAT_Q6 || fa == FORMAT_Q3 || fb == FORMAT_Q3;
    bool with_min = fa == FORMAT_Q4M || fb == FORMAT_Q4M || fa == FORMAT_Q5M || fb == FORMAT_Q5M;
    *format = fine ? FORMAT_Q8S : with_min ? FORMAT_Q8M : FORMAT_Q8;
    return !(fine && with_min);
}

enum { LAYER_VECTORS = 30 };

// Experts one below the other in the matrices of a layer's feed-forward part, and its intermediate size.
static int64_t experts_of(const DecoderShape *s, const LayerWeights *h) {
    return h->router.data ? s->experts.n : 1;
}
static int64_t width_of(const DecoderShape *s, const LayerWeights *h) {
    const bool own = s->heads_of_layers || h->part == LAYER_WITHOUT_EXPERTS;
    return h->router.data ? s->experts.size : own ? h->w_up.rows : s->intermediate_size;
}
// Whether there is a part that mixes tokens, attention or what stands in its place.
static bool mixes(const DecoderShape *s, const LayerWeights *h) {
    return h->part != LAYER_EXPERTS && !layer_heads(s, h->index).no_mixer;
}
// Whether there is a feed-forward part.
static bool rests(const DecoderShape *s, const LayerWeights *h) {
    return (h->part != LAYER_WITHOUT_EXPERTS || h->w_up.data) && !layer_heads(s, h->index).no_ffn;
}
// What a layer has of a part that it lacks; NULL: nothing.
static const char *layer_excess(const DecoderShape *s, const LayerWeights *h) {
    const LayerHeads heads = layer_heads(s, h->index);
    if (heads.no_mixer && (h->wq.data || h->wk.data || h->wv.data || h->wo.data || h->attn_norm.data))
        return "attention in a layer without it";
    if (heads.no_ffn && (h->w_up.data || h->w_down.data || h->router.data || h->ffn_norm.data))
        return "a feed-forward part in a layer without it";
    return NULL;
}

static void vectors_of_layer(const DecoderShape *s, const LayerWeights *h, Layer *l,
                             Vector out[LAYER_VECTORS]) {
    const int64_t n = experts_of(s, h), hidden = s->hidden_size, wide = n * width_of(s, h);
    const LayerHeads heads = layer_heads(s, h->index);
    const int64_t head = heads.head_dim;
    const float of_router = s->experts.beside ? 1 / sqrtf((float)hidden) : 1;
    const bool rows = layer_norms_rows(s, h), apart = rows || s->head_layer_norms;
    const bool latent = mixes(s, h) && s->latent.rank > 0, recurs = mixes(s, h) && heads.recurs;
    const int64_t taps = recurs ? delta_channels(&s->delta) * s->delta.taps : hidden * s->convolution.taps,
                  values = s->delta.n_value_heads, taken = recurs ? delta_channels(&s->delta) : hidden,
                  normed = s->delta.adds ? delta_width(&s->delta) : s->delta.value_dim;
    float offset = s->norm_offset;
    l->row_norms = rows;
    const Vector all[LAYER_VECTORS] = {
        {"attn_norm", &h->attn_norm, hidden, offset, 1, false, &l->attn_norm.weight},
        {"attn_norm_bias", &h->attn_norm_bias, hidden, 0, 1, false, &l->attn_norm.bias},
        {"ffn_norm", &h->ffn_norm, hidden, offset, 1, false, &l->ffn_norm.weight},
        {"ffn_norm_bias", &h->ffn_norm_bias, hidden, 0, 1, false, &l->ffn_norm.bias},
        {"attn_post_norm", &h->attn_post_norm, hidden, offset, 1, false, &l->attn_post_norm.weight},
        {"ffn_post_norm", &h->ffn_post_norm, hidden, offset, 1, false, &l->ffn_post_norm.weight},
        {"q_norm", &h->q_norm, apart ? head * s->n_heads : head, offset, 1, false, &l->q_norm},
        {"k_norm", &h->k_norm, apart ? head * heads.n_kv_heads : head, offset, 1, false, &l->k_norm},
        {"v_norm", &h->v_norm, head, 0, 1, false, &l->v_norm},
        {"conv", &h->conv, taps, 0, 1, recurs || (mixes(s, h) && heads.convolves), &l->conv},
        {"conv_bias", &h->conv_bias, taken, 0, 1, false, &l->conv_bias},
        {"attn_gate_bias", &h->attn_gate_bias, (s->head_gates ? 1 : head) * s->n_heads, 0, 1, false,
         &l->attn_gate_bias},
        {"decay_rate", &h->decay_rate, values, 0, 1, recurs, &l->decay_rate},
        {"decay_bias", &h->decay_bias, values, 0, 1, recurs, &l->decay_bias},
        {"state_norm", &h->state_norm, normed, 0, 1, recurs && !s->delta.adds, &l->state_norm},
        {"skip", &h->skip, values, 0, 1, recurs && s->delta.adds, &l->skip},
        {"bo", &h->bo, hidden, 0, 1, false, &l->bo},
        {"b_gate", &h->b_gate, wide, 0, 1, false, &l->b_gate},
        {"b_up", &h->b_up, wide, 0, 1, false, &l->b_up},
        {"b_down", &h->b_down, n * hidden, 0, 1, false, &l->b_down},
        {"router_bias", &h->router_bias, s->experts.n, 0, 1, false, &l->router_bias},
        {"choice_bias", &h->choice_bias, s->experts.n, 0, 1, false, &l->choice_bias},
        {"router_norm", &h->router_norm, hidden, offset, of_router, false, &l->router_norm.weight},
        {"expert_norm", &h->expert_norm, hidden, offset, 1, false, &l->expert_norm.weight},
        {"shared_post_norm", &h->shared_post_norm, hidden, offset, 1, false, &l->shared_post_norm.weight},
        {"expert_post_norm", &h->expert_post_norm, hidden, offset, 1, false, &l->expert_post_norm.weight},
        {"expert_scale", &h->expert_scale, s->experts.n, 0, 1, false, &l->expert_scale},
        {"token_norm", &h->token_norm, hidden, offset, 1, s->token_size > 0, &l->token_norm.weight},
        {"q_down_norm", &h->q_down_norm, s->latent.q_rank, 0, 1, latent && s->latent.q_rank > 0,
         &l->q_down_norm},
        {"latent_norm", &h->latent_norm, s->latent.rank, 0, 1, latent, &l->latent_norm},
    };
    memcpy(out, all, sizeof all);
}

// The largest of the fixed scales of what enters matrices that have one input; 0: there is none.
static float input_scale(const Matrix *a, const Matrix *b, const Matrix *c) {
    const Matrix *all[] = {a, b, c};
    float most = 0;
    for (const Matrix *m : all)
        if (m->data && m->input_scale > most) most = m->input_scale;
    return most;
}

static Linear lay_out_gate_up(const Matrix *gate, const Matrix *up, int64_t units, Arena *a) {
    const int64_t rows = (gate->data ? 2 : 1) * units;
    Format format = format_of(up->type);
    if (gate->data) common_format(gate->type, up->type, &format);
    return Linear{{a->weight_as(format, up, rows)}, 1, (int)rows, (int)up->cols};
}

static void lay_out_layer(const DecoderShape *s, const LayerWeights *h, Layer *layer, Arena *a) {
    const int64_t hidden = s->hidden_size;
    Vector vectors[LAYER_VECTORS];
    vectors_of_layer(s, h, layer, vectors);
    vectors_lay_out(vectors, LAYER_VECTORS, a);
    orders_lay_out(h, layer, a);
    layer->index = h->index, layer->x_scale = h->x_scale != 0 ? h->x_scale : 1;
    layer->xielu = h->xielu;
    if (mixes(s, h)) {
        heads_lay_out(s, h, layer, a);
        gates_lay_out(s, h, layer, a);
        layer->qkv.input_scale = input_scale(&h->wq, &h->wk, &h->wv);
        layer->out = Linear{{a->weight(&h->wo, hidden)}, 1, (int)hidden, (int)h->wo.cols};
        layer->out.input_scale = h->wo.input_scale;
    }
    if (!rests(s, h)) return;
    const int64_t n = experts_of(s, h), wide = width_of(s, h);
    layer->gated = h->w_gate.data != NULL;
    layer->gate_up = lay_out_gate_up(&h->w_gate, &h->w_up, n * wide, a);
    // The shared expert lies behind the others: one more of them, where it is as they are.
    const bool shares = h->router.data && h->shared_up.data;
    if (shares)
        layer->shared_gate_up = lay_out_gate_up(&h->shared_gate, &h->shared_up, s->experts.shared_size, a);
    layer->down = Linear{{a->weight(&h->w_down, n * hidden)}, 1, (int)(n * hidden), (int)wide};
    if (shares)
        layer->shared_down =
            Linear{{a->weight(&h->shared_down, hidden)}, 1, (int)hidden, s->experts.shared_size};
    layer->token_gate = a->linear(&h->token_gate), layer->token_up = a->linear(&h->token_up);
    layer->gate_up.input_scale = input_scale(&h->w_gate, &h->w_up, &h->w_up);
    layer->down.input_scale = h->w_down.input_scale;
    if (!h->router.data) return;
    layer->shared_routed = h->shared_router.data != NULL;
    layer->router = (float *)a->take((size_t)((n + (layer->shared_routed ? 1 : 0)) * hidden) * 4);
}

static Status upload_gate_up(CudaBackend *cuda, const Matrix *gate, const Matrix *up, const Weight *to,
                             Error *error) {
    const int stride = gate->data ? 2 : 1;
    Status status = gate->data ? upload_rows(cuda, gate, to, 0, stride, error) : STATUS_OK;
    return status ? status : upload_rows(cuda, up, to, stride - 1, stride, error);
}

// As float32: a token's choice is to be as near to the model's own as its input allows.
static Status upload_router(CudaBackend *cuda, const LayerWeights *h, Layer *layer, Error *error) {
    const int64_t hidden = h->router.cols;
    if (cuda->random_weights) {
        const int64_t n = h->router.rows + (layer->shared_routed ? 1 : 0);
        const Matrix made_up = {DTYPE_F32, n, hidden, h->router.data, NULL, 0, 0, NULL, NULL};
        const Weight to = {(char *)layer->router, hidden * 4, (int)n, (int)hidden, FORMAT_F32, 0, NULL};
        return upload_rows(cuda, &made_up, &to, 0, 1, error);
    }
    const Matrix *rows[] = {&h->router, &h->shared_router};
    const int64_t sizes[] = {h->router.rows * hidden, hidden};
    return upload_vectors(cuda, VectorList{rows, sizes, layer->shared_routed ? 2 : 1}, 0, layer->router,
                          error);
}

static Status upload_layer(CudaBackend *cuda, const LayerWeights *h, Layer *layer, Error *error) {
    const DecoderShape *s = cuda->shape;
    Status status = upload_begin(cuda, error);
    if (status) return status;
    Vector vectors[LAYER_VECTORS];
    vectors_of_layer(s, h, layer, vectors);
    status = vectors_upload(cuda, vectors, LAYER_VECTORS, error);
    if (!status) status = orders_upload(cuda, h, layer, error);
    if (!status && mixes(s, h)) status = heads_upload(cuda, h, layer, error);
    if (!status && mixes(s, h)) status = gates_upload(cuda, h, layer, error);
    if (!status && mixes(s, h)) status = upload_rows(cuda, &h->wo, &layer->out.part[0], 0, 1, error);
    if (status || !rests(s, h)) return status;
    status = upload_gate_up(cuda, &h->w_gate, &h->w_up, &layer->gate_up.part[0], error);
    if (!status) status = upload_rows(cuda, &h->w_down, &layer->down.part[0], 0, 1, error);
    if (!status && layer->token_gate.rows)
        status = upload_rows(cuda, &h->token_gate, &layer->token_gate.part[0], 0, 1, error);
    if (!status && layer->token_up.rows)
        status = upload_rows(cuda, &h->token_up, &layer->token_up.part[0], 0, 1, error);
    if (!status && layer->router) status = upload_router(cuda, h, layer, error);
    if (!status && h->shared_up.data)
        status = upload_gate_up(cuda, &h->shared_gate, &h->shared_up, &layer->shared_gate_up.part[0], error);
    if (!status && h->shared_up.data)
        status = upload_rows(cuda, &h->shared_down, &layer->shared_down.part[0], 0, 1, error);
    return status;
}

// ---- the ops -----------------------------------------------------------------------------------------------------

Status layout_check_matrix(const char *name, const Matrix *m, int64_t rows, int64_t cols, Error *error) {
    if (!m->data) return error_set(error, STATUS_UNSUPPORTED, "cuda: %s is missing", name);
    bool groups = m->type > DTYPE_BF16 && m->type != DTYPE_W8;
    if (m->rows != rows || m->cols != cols || m->cols % 8 || (groups && m->cols % 32))
        return error_set(error, STATUS_UNSUPPORTED, "cuda: %s: expected [%lld, %lld], got [%lld, %lld] %s",
                         name, (long long)rows, (long long)cols, (long long)m->rows, (long long)m->cols,
                         dtype_name(m->type));
    return STATUS_OK;
}

static Status check_experts(const DecoderShape *s, const LayerWeights *h, Error *error) {
    const int64_t hidden = s->hidden_size, shared = s->experts.shared_size;
    Status status = layout_check_matrix("router", &h->router, s->experts.n, hidden, error);
    const bool norms_beside = h->router_norm.data && h->expert_norm.data && h->shared_post_norm.data &&
                              h->expert_post_norm.data && h->ffn_post_norm.data && h->shared_up.data;
    if (!status && (!h->ffn_norm.data || (s->experts.beside && !norms_beside)))
        status = error_set(error, STATUS_UNSUPPORTED,
                           "cuda: experts without a norm before them, or beside a dense part without all of "
                           "theirs");
    const bool gated = h->w_gate.data;
    if (!status && !gated && (h->b_up.data || h->b_down.data || s->experts.size % 2))
        status = error_set(error, STATUS_UNSUPPORTED, "cuda: biases of experts without gates");
    if (!status && (h->w_up.type == DTYPE_W8 || h->w_down.type == DTYPE_W8))
        status = error_set(error, STATUS_UNSUPPORTED, "cuda: experts in %s", dtype_name(DTYPE_W8));
    Format format;
    const bool has_shared = shared > 0 && (h->part == LAYER_WHOLE || h->shared_up.data);
    if (!status && has_shared && (h->shared_gate.data != NULL) != gated)
        return error_set(error, STATUS_UNSUPPORTED, "cuda: gates of experts, or of the shared one, alone");
    if (!status && has_shared && gated && !common_format(h->shared_gate.type, h->shared_up.type, &format))
        return error_set(error, STATUS_UNSUPPORTED, "cuda: shared_gate is %s and shared_up %s",
                         dtype_name(h->shared_gate.type), dtype_name(h->shared_up.type));
    if (!status && (h->shared_up.type == DTYPE_W8 || h->shared_down.type == DTYPE_W8))
        status = error_set(error, STATUS_UNSUPPORTED, "cuda: a shared expert in %s", dtype_name(DTYPE_W8));
    if (!status && (size_t)hidden * 4 > (128 << 10))
        status = error_set(error, STATUS_UNSUPPORTED, "cuda: a router over %lld elements", (long long)hidden);
    if (status || !has_shared) return status;
    if (gated) status = layout_check_matrix("shared_gate", &h->shared_gate, shared, hidden, error);
    if (!status) status = layout_check_matrix("shared_up", &h->shared_up, shared, hidden, error);
    return status ? status : layout_check_matrix("shared_down", &h->shared_down, hidden, shared, error);
}

static Status check_layer(const DecoderShape *s, const LayerWeights *h, Layer *layer, Error *error) {
    const int64_t hidden = s->hidden_size,
                  attended = layer_heads(s, h->index).recurs ? delta_width(&s->delta)
                             : s->latent.rank > 0            ? decoder_attended_width(s)
                                                  : (int64_t)s->n_heads * layer_heads(s, h->index).head_dim;
    Vector vectors[LAYER_VECTORS];
    vectors_of_layer(s, h, layer, vectors);
    Status status = vectors_check(vectors, LAYER_VECTORS, error);
    const char *fault = layer_xielu_fault(s, h);
    if (!fault) fault = layer_excess(s, h);
    if (!status && fault) status = error_set(error, STATUS_UNSUPPORTED, "cuda: %s", fault);
    if (!status && mixes(s, h)) status = heads_check(s, h, error);
    if (!status && mixes(s, h)) status = gates_check(s, h, error);
    if (!status && mixes(s, h)) status = layout_check_matrix("wo", &h->wo, hidden, attended, error);
    if (status || !rests(s, h)) return status;
    if (s->token_size)
        status = layout_check_matrix("token_gate", &h->token_gate, s->token_size, hidden, error);
    if (!status && s->token_size)
        status = layout_check_matrix("token_up", &h->token_up, hidden, s->token_size, error);
    const int64_t n = experts_of(s, h), wide = width_of(s, h);
    if (!status && h->w_gate.data)
        status = layout_check_matrix("w_gate", &h->w_gate, n * wide, hidden, error);
    if (!status) status = layout_check_matrix("w_up", &h->w_up, n * wide, hidden, error);
    if (!status) status = layout_check_matrix("w_down", &h->w_down, n * hidden, wide, error);
    if (!status && h->router.data) status = check_experts(s, h, error);
    Format format;
    if (!status && h->w_gate.data && !common_format(h->w_gate.type, h->w_up.type, &format))
        return error_set(error, STATUS_UNSUPPORTED, "cuda: w_gate is %s and w_up %s",
                         dtype_name(h->w_gate.type), dtype_name(h->w_up.type));
    return status;
}

size_t layer_bytes(const DecoderShape *shape, const LayerWeights *host) {
    Layer layer = {};
    Arena arena = {};
    lay_out_layer(shape, host, &layer, &arena);
    return arena.used;
}

Status layer_check(const CudaBackend *cuda, const LayerWeights *host, Error *error) {
    Layer layer = {};
    const Status status = check_layer(cuda->shape, host, &layer, error);
    if (status || host->attn_gate.rows <= cuda->scratch.gate_width) return status;
    return error_set(error, STATUS_UNSUPPORTED, "cuda: attn_gate of %lld rows, of which open() was not told",
                     (long long)host->attn_gate.rows);
}

Status layer_load(CudaBackend *cuda, const LayerWeights *host, char *memory, Layer *layer, Error *error) {
    Arena arena = {memory, 0};
    lay_out_layer(cuda->shape, host, layer, &arena);
    return upload_layer(cuda, host, layer, error);
}

Status cuda_load_layer(Backend *backend, const LayerWeights *host, Layer **out, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    *out = NULL;
    Layer *layer = (Layer *)calloc(1, sizeof *layer);
    if (!layer) return error_set(error, STATUS_MEMORY, "no memory for a layer");
    Status status = layer_check(cuda, host, error);
    if (!status) {
        const size_t bytes = layer_bytes(cuda->shape, host);
        status = cuda_check(device_allocate(&cuda->device, &layer->memory, bytes), error,
                            "%zu bytes for a layer", bytes);
    }
    if (!status) status = layer_load(cuda, host, layer->memory, layer, error);
    if (status) {
        if (layer->memory) cudaFree(layer->memory);
        free(layer);
        return status;
    }
    const DType type = layer_heads(cuda->shape, host->index).no_mixer ? host->w_up.type : host->wq.type;
    if (type != DTYPE_W8) settle_operand(cuda, type, false);
    layer->next = cuda->layers;
    cuda->layers = layer;
    *out = layer;
    return STATUS_OK;
}

// By the first layer that is not W8; where all are, by the head: its GEMM takes operands of its own type best.
void settle_operand(CudaBackend *cuda, DType type, bool of_head) {
    if (cuda->operand_known) return;
    cuda->operand = type == DTYPE_F32 || type == DTYPE_BF16 ? type : DTYPE_F16;
    cuda->operand_known = !of_head;
}

// What cudaMalloc takes for an allocation: large ones are whole pages of 2 MB.
static int64_t allocated_bytes(size_t bytes) {
    const size_t page = 2 << 20;
    return (int64_t)(bytes < page / 2 ? bytes : (bytes + page - 1) / page * page);
}

int64_t cuda_weight_bytes(const Backend *backend, const LayerWeights *layers, const HeadWeights *host) {
    const DecoderShape *s = ((const CudaBackend *)backend)->shape;
    int64_t bytes = allocated_bytes(head_bytes(s, host));
    for (int l = 0; l < s->n_layers; l++) bytes += allocated_bytes(layer_bytes(s, &layers[l]));
    return bytes;
}

void cuda_free_weights(CudaBackend *cuda) {
    cuda_end_upload(cuda);
    for (Layer *l = cuda->layers, *next; l; l = next) {
        next = l->next;
        cudaFree(l->memory);
        free(l);
    }
    for (Head *h = cuda->heads, *next; h; h = next) {
        next = h->next;
        cudaFree(h->memory);
        free(h);
    }
}
