// Runs a fuzz target where libFuzzer is not at hand: `fuzz_x SECONDS [FILE|FOLDER]…` gives it every seed as it is,
// then mutations of them until the time is over. The random numbers are fixed, so a failure comes again; the input
// in hand is kept in fuzz-last.bin beside the program when a sanitizer ends it.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_set_death_callback(void (*callback)(void));

enum { MAX_SEEDS = 256, MAX_SIZE = 1 << 20 };

typedef struct Seed {
    uint8_t *data;
    size_t size;
} Seed;

static Seed seeds[MAX_SEEDS];
static int n_seeds;
static uint8_t input[MAX_SIZE];
static size_t input_size;
static const char *program;
static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t random_u64(void) { // xorshift64*
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}
static size_t below(size_t n) {
    return n ? (size_t)(random_u64() % n) : 0;
}

static void keep_input(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s-last.bin", program);
    FILE *file = fopen(path, "wb");
    if (!file) return;
    fwrite(input, 1, input_size, file);
    fclose(file);
    fprintf(stderr, "fuzz: the input is in %s\n", path);
}

static void add_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || n_seeds == MAX_SEEDS) {
        if (file) fclose(file);
        return;
    }
    uint8_t *data = malloc(MAX_SIZE);
    size_t size = data ? fread(data, 1, MAX_SIZE, file) : 0;
    fclose(file);
    if (data) seeds[n_seeds++] = (Seed){data, size};
    // cppcheck-suppress memleak; seeds[] holds it
}

static void add(const char *path) {
    struct stat st;
    if (stat(path, &st)) return;
    if (!S_ISDIR(st.st_mode)) {
        add_file(path);
        return;
    }
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char child[4096];
        if (entries[i]->d_name[0] != '.' &&
            snprintf(child, sizeof child, "%s/%s", path, entries[i]->d_name) < (int)sizeof child)
            add_file(child);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

static void mutate_once(void) {
    static const uint64_t odd[] = {0,          1,           0x7f,        0x80,       0xff,
                                   0x7fffffff, 0x80000000u, 0xffffffffu, 1ull << 63, ~0ull};
    size_t at = below(input_size + 1), n = 1 + below(16);
    switch (below(8)) {
    case 0: // flip a bit
        if (input_size) input[below(input_size)] ^= (uint8_t)(1u << below(8));
        break;
    case 1: // any byte
        if (input_size) input[below(input_size)] = (uint8_t)random_u64();
        break;
    case 2: { // an interesting number of 1, 2, 4 or 8 bytes
        uint64_t value = odd[below(sizeof odd / sizeof *odd)];
        size_t width = (size_t)1 << below(4);
        if (at + width <= input_size) memcpy(input + at, &value, width);
        break;
    }
    case 3: // cut the end
        input_size = at;
        break;
    case 4: // remove
        if (at + n <= input_size) memmove(input + at, input + at + n, input_size - at - n), input_size -= n;
        break;
    case 5: // repeat a piece
        if (at + n <= input_size && input_size + n <= MAX_SIZE)
            memmove(input + at + n, input + at, input_size - at), input_size += n;
        break;
    case 6: // copy a piece elsewhere
        if (at + n <= input_size && n < input_size) memmove(input + below(input_size - n), input + at, n);
        break;
    default: { // a piece of another seed
        const Seed *other = &seeds[below((size_t)n_seeds)];
        size_t from = below(other->size + 1), take = below(64);
        if (take > other->size - from) take = other->size - from;
        if (at + take <= input_size) memcpy(input + at, other->data + from, take);
    }
    }
}

int main(int argc, char **argv) {
    program = argv[0];
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    for (int i = 2; i < argc; i++) add(argv[i]);
    if (n_seeds == 0) seeds[n_seeds++] = (Seed){calloc(1, 1), 0};
    __sanitizer_set_death_callback(keep_input);

    long runs = 0;
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;; runs++) {
        const Seed *seed = runs < n_seeds ? &seeds[runs] : &seeds[below((size_t)n_seeds)];
        memcpy(input, seed->data, seed->size);
        input_size = seed->size;
        if (runs >= n_seeds)
            for (size_t i = 0, n = 1 + below(8); i < n; i++) mutate_once();
        LLVMFuzzerTestOneInput(input, input_size);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec) >= seconds &&
            runs + 1 >= n_seeds)
            break;
    }
    const char *name = strrchr(program, '/');
    printf("== %s: %ld inputs from %d seeds\n", name ? name + 1 : program, runs + 1, n_seeds);
    for (int i = 0; i < n_seeds; i++) free(seeds[i].data);
    return 0;
}
