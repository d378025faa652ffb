// qkv of a layer that recurs, for any number of tokens of any sequences: see delta.cuh.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/recurring/delta.cuh"

enum { DELTA_WARPS = 4, DELTA_THREADS = 32 * DELTA_WARPS };
enum { DELTA_FEW = 96 }; // tokens, up to which latency counts more than instructions

// ---- the convolution ---------------------------------------------------------------------------------------------

// A warp a head of keys and its queries, or a head of values, of a token; the warps of a block have neighbouring tokens, which
// read each other's c. Grid: [n_tokens / 4, n_key_heads + n_value_heads], block: 128.
template <bool AT_ONCE>
__global__ void __launch_bounds__(DELTA_THREADS) delta_mix_kernel(const __grid_constant__ DeltaArguments a) {
    const DeltaRule &rule = a.rule;
    const int token = blockIdx.x * DELTA_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32,
              head = (int)blockIdx.y - rule.n_key_heads; // of values
    let_next_begin();
    kernels_before();
    if (token >= a.n_tokens || a.sequence_of[token] < 0) return;
    const RecurringSequence s = a.sequences[a.sequence_of[token]];
    const int t = token - s.first_token;
    const bool last = t == s.n_tokens - 1;
    float *mixed = a.between.mixed + (int64_t)token * a.channels;
    if (head >= 0) {
        const int first = 2 * rule.n_key_heads * rule.key_dim + head * rule.value_dim + lane,
                  end = first - lane + rule.value_dim;
        if constexpr (AT_ONCE) {
            float v[DELTA_LANE]; // before anything is stored, so that nothing is waited for in between
#pragma unroll
            for (int e = 0; e < DELTA_LANE; e++)
                v[e] = first + 32 * e < end ? delta_mixed<AT_ONCE>(a, s, t, first + 32 * e) : 0;
#pragma unroll
            for (int e = 0; e < DELTA_LANE; e++)
                if (first + 32 * e < end) mixed[first + 32 * e] = v[e];
        } else {
            for (int i = first; i < end; i += 32) mixed[i] = delta_mixed<AT_ONCE>(a, s, t, i);
        }
        for (int i = first; i < end && last; i += 32) delta_leave_c<AT_ONCE>(a, s, i);
        if (lane == 0)
            a.between.rates[(int64_t)token * rule.n_value_heads + head] = delta_rates(a, token, head);
        return;
    }
    const int of_q = blockIdx.y * rule.key_dim, of_k = of_q + rule.n_key_heads * rule.key_dim;
    float q[DELTA_LANE], k[DELTA_LANE];
#pragma unroll
    for (int e = 0; e < DELTA_LANE; e++) {
        const int i = lane + 32 * e;
        q[e] = k[e] = 0;
        if (i >= rule.key_dim) continue;
        q[e] = delta_mixed<AT_ONCE>(a, s, t, of_q + i), k[e] = delta_mixed<AT_ONCE>(a, s, t, of_k + i);
    }
    for (int i = lane; i < rule.key_dim && last; i += 32)
        delta_leave_c<AT_ONCE>(a, s, of_q + i), delta_leave_c<AT_ONCE>(a, s, of_k + i);
    const float dot = delta_scale_keys(rule, q, k);
#pragma unroll
    for (int e = 0; e < DELTA_LANE; e++)
        if (lane + 32 * e < rule.key_dim)
            mixed[of_q + lane + 32 * e] = q[e], mixed[of_k + lane + 32 * e] = k[e];
    if (lane == 0) a.between.dots[(int64_t)token * rule.n_key_heads + blockIdx.y] = dot;
}

// ---- the recurrence ----------------------------------------------------------------------------------------------

enum { DELTA_COLUMNS = 8 * DELTA_WARPS, DELTA_STAGES = 3 };

// What a block needs of some tokens. Of rows and columns that a head has not, and of tokens beyond the last: zeros.
template <int J> struct DeltaTokens {
    static constexpr int N = J == 8 ? 4 : 8;
    float q[N][32 * J], k[N][32 * J], v[N][DELTA_COLUMNS];
    float2 rates[N];
    float dots[N];
};

// A lane's vectors of a token's k and q, out of shared memory in one go.
template <int J> struct DeltaKeys {
    float4 own_q[J], own_k[J];
    __device__ DeltaKeys(const DeltaTokens<J> &tokens, int t) {
#pragma unroll
        for (int j = 0; j < J; j++) {
            own_q[j] = *(const float4 *)&tokens.q[t][DeltaState<J>::row(j, 0)];
            own_k[j] = *(const float4 *)&tokens.k[t][DeltaState<J>::row(j, 0)];
        }
    }
    __device__ float4 q(int j) const {
        return own_q[j];
    }
    __device__ float4 k(int j) const {
        return own_k[j];
    }
};

// Asks for tokens first, first + 1, … of a sequence, for a head's columns from `column` on, in pieces of 16 bytes: a warp a
// token, and then another.
template <int J>
__device__ inline void delta_ask(const DeltaArguments &a, const RecurringSequence &s, int first, int head,
                                 int column, DeltaTokens<J> *to) {
    const DeltaRule &rule = a.rule;
    const int lane = threadIdx.x % 32, key = delta_key_head(rule, head),
              keys = rule.n_key_heads * rule.key_dim;
#pragma unroll
    for (int t = threadIdx.x / 32; t < DeltaTokens<J>::N; t += DELTA_WARPS) {
        const bool there = first + t < s.n_tokens;
        const int64_t token = there ? s.first_token + first + t : s.first_token;
        const float *q = a.between.mixed + token * a.channels + key * rule.key_dim, *k = q + keys,
                    *v = a.between.mixed + token * a.channels + 2 * keys + head * rule.value_dim + column;
#pragma unroll
        for (int i = lane * 4; i < 32 * J; i += 128) {
            copy_piece<16>(shared_at(&to->q[t][i]), q + i, there && i < rule.key_dim);
            copy_piece<16>(shared_at(&to->k[t][i]), k + i, there && i < rule.key_dim);
        }
        if (lane < DELTA_COLUMNS / 4)
            copy_piece<16>(shared_at(&to->v[t][lane * 4]), v + lane * 4,
                           there && column + lane * 4 < rule.value_dim);
        else if (lane == DELTA_COLUMNS / 4)
            copy_piece<8>(shared_at(&to->rates[t]), a.between.rates + token * rule.n_value_heads + head,
                          there);
        else if (lane == DELTA_COLUMNS / 4 + 1)
            copy_piece<4>(shared_at(&to->dots[t]), a.between.dots + token * rule.n_key_heads + key, there);
    }
}

// A block 32 columns of a head's S, of a sequence: a warp 8 of them, as DeltaState says, through all of its tokens, of which
// DELTA_STAGES - 1 stages are on their way. No warp needs another's sums. Grid: [value_dim / 32, n_value_heads, sequences],
// block: 128.
template <int J, bool ADDS>
__global__ void __launch_bounds__(DELTA_THREADS) delta_rule_kernel(const __grid_constant__ DeltaArguments a) {
    constexpr int N = DeltaTokens<J>::N;
    __shared__ __align__(16) DeltaTokens<J> stages[DELTA_STAGES];
    const DeltaRule &rule = a.rule;
    const int head = blockIdx.y, first_column = blockIdx.x * DELTA_COLUMNS, of_warp = threadIdx.x / 32 * 8,
              column = first_column + of_warp; // of the warp
    const bool there = column < rule.value_dim;
    const RecurringSequence s = delta_sequence(a, blockIdx.z);
    DeltaState<J> state;
    let_next_begin();
    if (s.to < 0) return;
    const int own = column + DeltaState<J>::columns();
    state.load(there && s.from >= 0 ? delta_head(a, s.from, head) + own : NULL, rule.key_dim, rule.value_dim);
    kernels_before();
    const int n_stages = (s.n_tokens + N - 1) / N;
    for (int i = 0; i < DELTA_STAGES - 1; i++) {
        if (i < n_stages) delta_ask<J>(a, s, i * N, head, first_column, &stages[i]);
        end_copies();
    }
    const int values = of_warp + DeltaState<J>::columns();
    float *raw = a.raw + (int64_t)s.first_token * a.width + head * rule.value_dim + first_column + of_warp +
                 DeltaState<J>::own_column();
    for (int i = 0; i < n_stages; i++) {
        await_copies<DELTA_STAGES - 2>();
        __syncthreads(); // all have asked for this stage's, and are done with the one before, whose place is free
        const int ahead = i + DELTA_STAGES - 1;
        if (ahead < n_stages)
            delta_ask<J>(a, s, ahead * N, head, first_column, &stages[ahead % DELTA_STAGES]);
        end_copies();
        const DeltaTokens<J> &tokens = stages[i % DELTA_STAGES];
        const int n = min(N, s.n_tokens - i * N);
        DeltaKeys<J> keys(tokens, 0);
#pragma unroll 2
        for (int t = 0; t < n; t++) {
            const DeltaKeys<J> next(tokens, min(t + 1, N - 1));
            const float y = state.template step<ADDS>(tokens.rates[t], tokens.dots[t],
                                                      *(const float2 *)&tokens.v[t][values], keys);
            if (there && DeltaState<J>::stores_column()) *raw = y;
            raw += a.width, keys = next;
        }
    }
    if (there) state.store(delta_head(a, s.to, head) + own, rule.key_dim, rule.value_dim);
}

// ---- the end -----------------------------------------------------------------------------------------------------

// A warp a head of values of a token. Grid: [n_tokens / 4, n_value_heads], block: 128.
template <class T>
__global__ void __launch_bounds__(DELTA_THREADS)
    delta_end_kernel(const __grid_constant__ DeltaArguments a, T *y) {
    const int token = blockIdx.x * DELTA_WARPS + threadIdx.x / 32, head = blockIdx.y;
    let_next_begin();
    kernels_before();
    if (token >= a.n_tokens || a.sequence_of[token] < 0) return;
    const int64_t at = (int64_t)token * a.width + head * a.rule.value_dim;
    delta_end_head(
        a, a.raw + at, [&](int i) { return a.norm[i]; }, [&](int i) { return delta_gate(a, token, head, i); },
        y + at);
}

enum { ADDED_AT_ONCE = 4 };

// A block a head of keys' heads of values, of a token, that are normed together: y = scale·norm((raw + skip·v)·silu(z)), the
// middle in the place of raw. Grid: [n_tokens, n_key_heads], block: 256.
template <class T>
__global__ void __launch_bounds__(256) delta_added_kernel(const __grid_constant__ DeltaArguments a, T *y) {
    __shared__ float sums[8];
    const int token = blockIdx.x, n = a.width / a.rule.n_key_heads, dim = a.rule.value_dim,
              first = blockIdx.y * n;
    let_next_begin();
    kernels_before();
    if (a.sequence_of[token] < 0) return;
    float *raw = a.raw + (int64_t)token * a.width;
    const float *v = a.between.mixed + (int64_t)token * a.channels + a.channels - a.width;
    float squares = 0;
    for (int from = first + threadIdx.x; from < first + n; from += ADDED_AT_ONCE * 256) {
        float own[ADDED_AT_ONCE];
#pragma unroll
        for (int e = 0; e < ADDED_AT_ONCE; e++) {
            const int i = from + e * 256;
            own[e] = i < first + n
                         ? fmaf(a.skip[i / dim], v[i], raw[i]) * delta_gate(a, token, i / dim, i % dim)
                         : 0;
        }
#pragma unroll
        for (int e = 0; e < ADDED_AT_ONCE; e++) {
            if (from + e * 256 < first + n) raw[from + e * 256] = own[e];
            squares = fmaf(own[e], own[e], squares);
        }
    }
    float scale = a.norm ? rsqrtf(block_sum<256>(squares, sums) / n + a.eps) : 1;
    if (a.rule.scale != 0) scale *= a.rule.scale;
    for (int i = first + threadIdx.x; i < first + n; i += 256) // its own
        y[(int64_t)token * a.width + i] = from_float<T>(raw[i] * scale * (a.norm ? a.norm[i] : 1));
}

// ---- the op ------------------------------------------------------------------------------------------------------

template <int J> static cudaError_t launch_rule(const CudaBackend *cuda, const DeltaArguments &a, dim3 grid) {
    return a.rule.adds ? launch_dependent(cuda, delta_rule_kernel<J, true>, grid, DELTA_THREADS, 0, a)
                       : launch_dependent(cuda, delta_rule_kernel<J, false>, grid, DELTA_THREADS, 0, a);
}

static cudaError_t launch_rules(const CudaBackend *cuda, const DeltaArguments &a, int n_rows) {
    const DeltaRule *rule = &a.rule;
    const dim3 grid((rule->value_dim + DELTA_COLUMNS - 1) / DELTA_COLUMNS, rule->n_value_heads, n_rows);
    return rule->key_dim <= 32    ? launch_rule<1>(cuda, a, grid)
           : rule->key_dim <= 64  ? launch_rule<2>(cuda, a, grid)
           : rule->key_dim <= 128 ? launch_rule<4>(cuda, a, grid)
                                  : launch_rule<8>(cuda, a, grid);
}

// A prompt whose results nobody compares with those of other cuts, in 16 bits, where TF32 is fine enough.
static bool goes_in_chunks(const CudaBackend *cuda, const DeltaArguments &a) {
    const CudaStep *step = &cuda->step;
    return step->kind == STEP_ANY && !step->padded && step->n_sequences == 1 && cuda->operand != DTYPE_F32 &&
           delta_chunks_fit(a);
}

// n_rows of a.sequences.
static cudaError_t launch_all(const CudaBackend *cuda, const DeltaArguments &a, int n_rows, void *y) {
    const DeltaRule *rule = &a.rule;
    const unsigned tokens = (unsigned)(a.n_tokens + DELTA_WARPS - 1) / DELTA_WARPS;
    const bool few = a.c_type == DTYPE_F32 && a.n_tokens <= DELTA_FEW;
    const auto mix = few ? delta_mix_kernel<true> : delta_mix_kernel<false>;
    const bool chunks = goes_in_chunks(cuda, a);
    cudaError_t code =
        chunks ? delta_chunks(cuda, a)
               : launch_dependent(cuda, mix, dim3(tokens, rule->n_key_heads + rule->n_value_heads),
                                  DELTA_THREADS, 0, a);
    if (code == cudaSuccess && !chunks) code = launch_rules(cuda, a, n_rows);
    if (code != cudaSuccess) return code;
    if (rule->adds)
        WITH_OPERAND(cuda, (code = launch_dependent(cuda, delta_added_kernel<T>,
                                                    dim3(a.n_tokens, rule->n_key_heads), 256, 0, a, (T *)y)));
    else
        WITH_OPERAND(cuda,
                     (code = launch_dependent(cuda, delta_end_kernel<T>, dim3(tokens, rule->n_value_heads),
                                              DELTA_THREADS, 0, a, (T *)y)));
    return code;
}

static DeltaArguments delta_arguments(const CudaBackend *cuda, const Layer *layer, const KvLayer *kv) {
    DeltaArguments a = {};
    a.rule = cuda->shape->delta;
    a.n_tokens = cuda->step.n_tokens;
    a.channels = (int)delta_channels(&a.rule), a.width = (int)delta_width(&a.rule);
    a.sequence_of = cuda->step.sequence_of, a.sequences = cuda->step.sequences;
    a.conv = layer->conv, a.decay_rate = layer->decay_rate, a.decay_bias = layer->decay_bias;
    a.conv_bias = layer->conv_bias, a.norm = layer->state_norm, a.skip = layer->skip;
    a.eps = a.rule.norm_eps;
    a.states = kv->states, a.state_floats = delta_state_floats(&a.rule);
    a.between = cuda->scratch.recurring;
    a.raw = (float *)cuda->scratch.wide;
    a.turns = dispatch_chunks_by_wgmma(&cuda->device.card);
    return a;
}

// Expanding rates that no tensor cores take as they are, and the library's product, stand by themselves in a step. Where a row's bits
// may tell of the step, and where that pays: a flat GEMM of so few rows of W takes longer for 17 to 64 of x.
static bool takes_rounded_rates(const CudaBackend *cuda, const Layer *layer) {
    const int n = cuda->step.n_tokens;
    return cuda->step.kind == STEP_ANY && layer->rounded_rates.rows > 0 && ((n > 1 && n <= 16) || n > 64);
}

// The products that the kernels go on from.
static Status multiply(CudaBackend *cuda, const Layer *layer, const float *x, DeltaArguments *a,
                       Error *error) {
    LayerInput input = {x, layer->attn_norm, layer->orders.qkv, {}};
    input.taken.chosen = &cuda->step.chosen.qkv;
    a->c = cuda->scratch.wide, a->z = cuda->scratch.gates;
    a->z_stride = layer->attn_gate.rows;
    Status status = input_products(cuda, &layer->qkv, &input, cuda->scratch.wide, &a->c_type, error);
    if (!status)
        status = input_products(cuda, &layer->attn_gate, &input, cuda->scratch.gates, &a->z_type, error);
    if (status) return status;
    if (layer->rates.rows) {
        const bool rounded = takes_rounded_rates(cuda, layer);
        a->rate_rows = cuda->scratch.recurring.rows, a->rates_stride = layer->rates.rows;
        return input_products(cuda, rounded ? &layer->rounded_rates : &layer->rates, &input,
                              cuda->scratch.recurring.rows, &a->rates_type, error);
    }
    a->rate_rows = (const char *)a->z + (size_t)a->width * operand_bytes(a->z_type);
    a->rates_stride = a->z_stride, a->rates_type = a->z_type;
    return STATUS_OK;
}

Status delta_qkv(CudaBackend *cuda, const Layer *layer, const float *x, const KvLayer *kv, void *y,
                 Error *error) {
    const CudaStep *step = &cuda->step;
    DeltaArguments a = delta_arguments(cuda, layer, kv);
    if (!kv->recurs || !kv->states)
        return error_set(error, STATUS_USAGE, "a layer that recurs, and no states of sequences");
    Status status = multiply(cuda, layer, x, &a, error);
    if (status) return status;
    // padded: what decodes.
    const bool alone = step->padded || (step->kind != STEP_READING && step->n_sequences == step->n_tokens);
    const bool at_once = alone && delta_one_fits(&a.rule);
    const int n_rows = step->padded ? step->n_tokens : step->n_sequences;
    cuda->step.chosen.heads = at_once                   ? "delta rule of one"
                              : goes_in_chunks(cuda, a) ? "delta rule in chunks"
                                                        : "delta rule";
    return cuda_check(at_once ? delta_one(cuda, a, n_rows, y) : launch_all(cuda, a, n_rows, y), error,
                      "a delta rule of [%d, %d heads of %d by %d]", a.n_tokens, a.rule.n_value_heads,
                      a.rule.key_dim, a.rule.value_dim);
}
