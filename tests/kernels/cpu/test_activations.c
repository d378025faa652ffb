// Norms and activations: every set of loops, all sizes, and values everywhere.
#include "kernels/cpu/loops/loops.h"
#include "tests/support/kernels/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Loops *loops_at(int i) {
    return i == 0 ? loops_reference() : loops_fast();
}
static int n_loops(void) {
    return loops_fast() ? 2 : 1;
}

static void norms_of_all_sizes(void **state) {
    (void)state;
    static const int SIZES[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 64, 576, 577, 4096};
    for (int set = 0; set < n_loops(); set++)
        for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++) {
            int n = SIZES[s];
            float *x = random_floats(1, n), *w = random_floats(2, n), *b = random_floats(4, n),
                  *y = random_floats(3, n + 1);
            double sum = 0, squares = 0, variance = 0;
            y[n] = GUARD;
            for (int i = 0; i < n; i++) sum += x[i], squares += (double)x[i] * x[i];
            for (int i = 0; i < n; i++) variance += (x[i] - sum / n) * (x[i] - sum / n) / n;
            loops_at(set)->rms_norm(x, w, n, 1e-5f, y);
            for (int i = 0; i < n; i++) {
                double expected = x[i] / sqrt(squares / n + 1e-5f) * w[i];
                assert_near("RMS norm", i, y[i], expected, 1e-6 * fabs(expected) + 1e-12);
            }
            for (int biased = 0; biased < 2; biased++) {
                loops_at(set)->layer_norm(x, w, biased ? b : NULL, n, 1e-5f, y);
                for (int i = 0; i < n; i++) {
                    double expected = (x[i] - sum / n) / sqrt(variance + 1e-5f) * w[i] + (biased ? b[i] : 0);
                    assert_near("layer norm", i, y[i], expected, 1e-6);
                }
            }
            assert_true(y[n] == GUARD);
            memcpy(y, x, (size_t)n * sizeof *x);
            loops_at(set)->rms_norm(x, w, n, 1e-5f, b);
            loops_at(set)->rms_norm(y, w, n, 1e-5f, y);
            assert_memory_equal(b, y, (size_t)n * sizeof *x); // in place
            memcpy(y, x, (size_t)n * sizeof *x);
            loops_at(set)->layer_norm(x, w, NULL, n, 1e-5f, b);
            loops_at(set)->layer_norm(y, w, NULL, n, 1e-5f, y);
            assert_memory_equal(b, y, (size_t)n * sizeof *x);
            free(x), free(w), free(b), free(y);
        }
}

static double expected_activation(Activation activation, double x) {
    if (activation == ACTIVATION_SILU) return x / (1 + exp(-x));
    if (activation == ACTIVATION_GELU) return 0.5 * x * erfc(-x / sqrt(2));
    if (activation == ACTIVATION_RELU) return fmax(x, 0);
    if (activation == ACTIVATION_RELU2) return fmax(x, 0) * fmax(x, 0);
    double z = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1 + tanh(z));
}

// Over all that a float can be; relative to the result, and to x where the result all but vanishes.
static void activations_everywhere(void **state) {
    (void)state;
    for (int set = 0; set < n_loops(); set++)
        for (Activation a = ACTIVATION_SILU; a <= ACTIVATION_RELU2; a++) {
            const int n = 20001;
            float *x = malloc((size_t)n * sizeof *x), *g = malloc((size_t)n * sizeof *g),
                  *u = random_floats(5, n);
            for (int i = 0; i < n; i++) x[i] = g[i] = (float)(i - 10000) * 0.01f;
            loops_at(set)->activate(a, g, u, n);
            for (int i = 0; i < n; i++) {
                double expected = expected_activation(a, x[i]) * u[i], tolerance = 1e-6 * fabs(expected);
                if (a == ACTIVATION_GELU_TANH || a == ACTIVATION_GELU || x[i] < -80)
                    tolerance += 3e-7 * fabs((double)x[i] * u[i]);
                assert_near("activation", i, g[i], expected, tolerance);
            }
            float special[] = {NAN, INFINITY, 1e30f, -1e30f, 0, -0.0f}, ones[] = {1, 1, 1, 1, 1, 1};
            loops_at(set)->activate(a, special, ones, 6);
            assert_true(isnan(special[0]));
            assert_true(special[1] == INFINITY && special[2] == (a == ACTIVATION_RELU2 ? INFINITY : 1e30f));
            assert_true(special[3] == 0 && special[4] == 0 && special[5] == 0);
            for (int i = 0; i < n; i++) u[i] = 1, g[i] = x[i];
            loops_at(set)->activate(a, g, u, n);
            loops_at(set)->activate(a, x, NULL, n);
            assert_memory_equal(g, x, (size_t)n * sizeof *x); // nothing to multiply with
            free(x), free(g), free(u);
        }
}

// Where both sides meet, where eps cuts, near 0, where terms cancel, and far out.
static void xielu_everywhere(void **state) {
    (void)state;
    static const Xielu CASES[] = {{0.8f, 0.8f, 0.5f, -1e-6f},
                                  {3.5f, 1.25f, 0.5f, -1e-6f},
                                  {0.05f, 0.55f, 0.4f, -0.1f},
                                  {1, 2, 0.5f, 0}};
    enum { N = 20003 };
    for (int set = 0; set < n_loops(); set++)
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
            const Xielu *by = &CASES[i];
            static float x[N], g[N];
            for (int j = 0; j < N; j++) {
                const int offset = j - N / 2;
                const float at = (float)offset;
                x[j] = g[j] = j % 3 == 0 ? at * 0.01f : j % 3 == 1 ? at * 1e-5f : at * 1e-9f;
            }
            loops_at(set)->xielu(by, g, N);
            for (int j = 0; j < N; j++) {
                const double v = x[j], m = fmin(v, by->eps), linear = (double)by->beta * v;
                const double expected = v > 0 ? (double)by->alpha_p * v * v + linear
                                              : (double)by->alpha_n * (expm1(m) - v) + linear;
                // Two numbers of one size with other signs.
                assert_near("xielu", j, g[j], expected,
                            1e-6 * fabs(expected) + 3e-7 * (fabs(linear) + fabs((double)by->alpha_n * m)));
            }
            float special[] = {NAN, INFINITY, 1e30f, -1e30f, 0};
            loops_at(set)->xielu(by, special, 5);
            assert_true(isnan(special[0]) && special[1] == INFINITY && special[2] == INFINITY);
            assert_near("xielu", 3, special[3], (double)(by->alpha_n - by->beta) * 1e30, 1e24);
            assert_near("xielu", 4, special[4], (double)by->alpha_n * expm1((double)by->eps), 1e-8);
        }
}

static void halves_are_rounded_alike(void **state) {
    (void)state;
    enum { N = 5003 };
    static float x[N];
    static uint16_t a[N], b[N];
    uint64_t seed = 8;
    for (int i = 0; i < N; i++) x[i] = random_float(&seed) * powf(2, (float)(i % 60 - 40));
    x[0] = INFINITY, x[1] = 65520, x[2] = 0x1p-25f, x[3] = 0x1.002p-25f;
    for (int set = 0; set < n_loops(); set++) {
        loops_at(set)->to_half(x, N, set == 0 ? a : b);
        assert_memory_equal(a, set == 0 ? a : b, sizeof a);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_of_all_sizes),
        cmocka_unit_test(activations_everywhere),
        cmocka_unit_test(xielu_everywhere),
        cmocka_unit_test(halves_are_rounded_alike),
    };
    return test_main("activations", argc, argv, tests);
}
