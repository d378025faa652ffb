// What a session has cached comes back from a file bit by bit, for every kind of cache; what is another's, damaged, or
// cut short by whatever happened while it was written is never taken.
#include "tests/support/files.h"
#include "tests/support/test.h"
#include "engine/session/snapshot_internal.h"
#include "kernels/base/checksum.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VOCAB = 384, CONTEXT = 160, WORDS = 77 };

typedef struct Kind {
    DType type;
    int layout;
    bool paged;
} Kind;

static const Kind USUAL = {DTYPE_F16, 3, true};

static Engine *open_engine(const char *model, Kind kind, int context) {
    Error error = {0};
    Engine *engine = NULL;
    EngineOptions options = {.model = model,
                             .device = "cpu",
                             .n_threads = 1,
                             .context_size = context,
                             .cache = cache_options(kind.type),
                             .chunk = 32};
    options.cache.layout = kind.layout;
    options.cache.paged = kind.paged;
    options.cache.page_size = 16;
    if (engine_open(&options, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

typedef struct Talk {
    Engine *engine;
    Session *session;
} Talk;

static Talk talk_open(const char *model, Kind kind, int context) {
    Error error = {0};
    Talk talk = {open_engine(model, kind, context), NULL};
    if (session_open(talk.engine, &talk.session, &error)) fail_msg("%s", error.message);
    return talk;
}

static Talk babbler(Kind kind) {
    return talk_open("tests/golden/babbler", kind, CONTEXT);
}

static void talk_close(Talk *talk) {
    session_close(talk->session);
    engine_close(talk->engine);
}

static const int32_t *ids(void) {
    static int32_t all[4 * CONTEXT];
    for (int i = 0; i < 4 * CONTEXT; i++) all[i] = (i * 7919 + 13) % VOCAB;
    return all;
}

static void must(Status status, const Error *error) {
    if (status) fail_msg("%s", error->message);
}

static SyncReport read_in(const Talk *talk, const int32_t *tokens, int64_t n) {
    Error error = {0};
    SyncReport report = {0};
    must(session_sync(talk->session, tokens, n, &report, &error), &error);
    return report;
}

static void keep(const Talk *talk, const char *path) {
    Error error = {0};
    Snapshot *snapshot;
    must(snapshot_take(talk->session, WORDS, &snapshot, &error), &error);
    assert_non_null(snapshot);
    must(snapshot_write(snapshot, path, NULL, &error), &error);
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_size, snapshot_bytes(snapshot));
    assert_int_equal(facts.st_mode & 0777, 0600);
    snapshot_free(snapshot);
}

static int64_t bring_back(const Talk *talk, const char *path) {
    Error error = {0};
    SnapshotRestored restored;
    must(snapshot_restore(talk->session, WORDS, path, &restored, &error), &error);
    return restored.n_tokens;
}

// The same tokens behind both give the same logits, bit by bit.
static void go_on_alike(const Talk *a, const Talk *b, int64_t cached) {
    float logits[2][VOCAB];
    Error error = {0};
    int32_t all[CONTEXT];
    int64_t n = session_length(a->session);
    assert_int_equal(session_length(b->session), n);
    assert_int_equal(session_cached(b->session), cached);
    assert_memory_equal(session_tokens(a->session), session_tokens(b->session), (size_t)n * sizeof *all);
    memcpy(all, session_tokens(a->session), (size_t)n * sizeof *all);
    for (int i = 0; i < 21; i++) all[n + i] = (i * 31 + 5) % VOCAB;
    assert_int_equal(read_in(a, all, n + 21).evaluated, 21);
    assert_int_equal(read_in(b, all, n + 21).evaluated, 21);
    must(session_logits(a->session, logits[0], &error), &error);
    must(session_logits(b->session, logits[1], &error), &error);
    assert_memory_equal(logits[0], logits[1], sizeof *logits);
}

static char *file_in(char *folder) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/talk.kv", folder);
    return path;
}

// ---- the same again -----------------------------------------------------------------------------------------------

static void test_every_cache(void **state) {
    static const DType types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_INT8, DTYPE_INT4};
    for (int i = 0; i < 5 * 4 * 2; i++) {
        const Kind kind = {types[i / 8], i / 2 % 4, i % 2};
        Talk before = babbler(kind), after = babbler(kind);
        read_in(&before, ids(), 100);
        keep(&before, file_in(*state));
        assert_int_equal(bring_back(&after, file_in(*state)), 100);
        go_on_alike(&before, &after, 100);
        talk_close(&before);
        talk_close(&after);
    }
}

// Several times more tokens than the context has room for: the ring has gone round, and what lies where is not the
// order of the text.
static void test_after_shifts(void **state) {
    static const OverflowPolicy policies[] = {OVERFLOW_SHIFT, OVERFLOW_SHIFT_INPLACE};
    Error error = {0};
    for (int i = 0; i < 8; i++) {
        const OverflowSettings settings = {.policy = policies[i % 2], .keep = 5, .discard = i / 4 ? 0.5 : 11};
        const Kind kind = {i / 2 % 2 ? DTYPE_INT8 : DTYPE_F16, 3, true};
        Talk before = babbler(kind), after = babbler(kind);
        must(session_stream(before.session, ids(), 3 * CONTEXT + 17, &settings, NULL, &error), &error);
        int64_t n = session_length(before.session) - 40; // room for what go_on_alike() adds
        int32_t log[CONTEXT];
        memcpy(log, session_tokens(before.session), sizeof log / CONTEXT * (size_t)n);
        read_in(&before, log, n);
        keep(&before, file_in(*state));
        assert_int_equal(bring_back(&after, file_in(*state)), session_cached(before.session));
        assert_int_equal(session_sinks(after.session), session_sinks(before.session));
        go_on_alike(&before, &after, n);
        talk_close(&before);
        talk_close(&after);
    }
}

// Another session's pages lie between; what was there before stays as a branch, and comes back from there.
static void test_into_a_used_cache(void **state) {
    Talk talk = babbler(USUAL);
    read_in(&talk, ids(), 64);
    keep(&talk, file_in(*state));
    read_in(&talk, ids() + 7, 50);
    assert_int_equal(bring_back(&talk, file_in(*state)), 64);
    assert_int_equal(read_in(&talk, ids(), 70).evaluated, 6);
    assert_int_equal(read_in(&talk, ids() + 7, 55).evaluated, 5);
    talk_close(&talk);
}

static void test_larger_context(void **state) {
    Talk before = babbler(USUAL), after = talk_open("tests/golden/babbler", USUAL, 96);
    read_in(&before, ids(), 60);
    keep(&before, file_in(*state));
    assert_int_equal(bring_back(&after, file_in(*state)), 60);
    assert_int_equal(read_in(&after, ids(), 61).evaluated, 1);
    talk_close(&before);
    talk_close(&after);
}

static void test_little_is_not_kept(void **state) {
    (void)state;
    Error error = {0};
    Snapshot *snapshot;
    Talk talk = babbler(USUAL);
    read_in(&talk, ids(), SNAPSHOT_LEAST - 1);
    must(snapshot_take(talk.session, WORDS, &snapshot, &error), &error);
    assert_null(snapshot);
    assert_int_equal(bring_back(&talk, "/nowhere/at/all.kv"), 0);
    talk_close(&talk);
}

// ---- what is not taken ---------------------------------------------------------------------------------------------

static void refuses(const Talk *talk, const char *path, uint64_t words, const char *part) {
    Error error = {0};
    SnapshotRestored restored;
    assert_int_equal(snapshot_restore(talk->session, words, path, &restored, &error), STATUS_FILE);
    if (!strstr(error.message, part)) fail_msg("'%s' is not in: %s", part, error.message);
    assert_int_equal(restored.n_tokens, 0);
    assert_int_equal(session_cached(talk->session), 0);
}

static void test_another(void **state) {
    static const Kind others[] = {{DTYPE_INT8, 3, true}, {DTYPE_F16, 2, true}, {DTYPE_F32, 3, false}};
    Talk before = babbler(USUAL);
    read_in(&before, ids(), 120);
    keep(&before, file_in(*state));
    for (int i = 0; i < 3; i++) {
        Talk after = babbler(others[i]);
        refuses(&after, file_in(*state), WORDS, "another type or layout of cache");
        talk_close(&after);
    }
    Talk after = talk_open("assets/parley-9m", USUAL, 0);
    refuses(&after, file_in(*state), WORDS, "another model");
    talk_close(&after);
    after = babbler(USUAL);
    refuses(&after, file_in(*state), WORDS + 1, "another chat template");
    talk_close(&after);
    after = talk_open("tests/golden/babbler", USUAL, 96);
    refuses(&after, file_in(*state), WORDS, "a context of 160 tokens");
    talk_close(&after);
    talk_close(&before);
}

// A folder with the files of the model that babbles but for `changed`, which is read: folder_remove(), bytes_free().
static char *babbler_but(const char *changed, Bytes *bytes) {
    static const char *const FILES[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    char *folder = folder_new(), path[100];
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        snprintf(path, sizeof path, "tests/golden/babbler/%s", FILES[i]);
        if (strcmp(FILES[i], changed))
            folder_copy(folder, FILES[i], path);
        else
            *bytes = bytes_of_file(path);
    }
    return folder;
}

// The same in all but what it has learned: every weight is a little different.
static void test_another_training(void **state) {
    Bytes weights = {0};
    char *folder = babbler_but("model.safetensors", &weights);
    Talk before = babbler(USUAL);
    read_in(&before, ids(), 120);
    keep(&before, file_in(*state));
    talk_close(&before);
    uint64_t header = 8;
    for (int i = 0; i < 8; i++) header += (uint64_t)weights.data[i] << 8 * i;
    for (uint64_t i = header; i < weights.size; i += 2) weights.data[i] ^= 1; // of the mantissa
    folder_write(folder, "model.safetensors", weights.data, weights.size);
    bytes_free(&weights);
    Talk after = talk_open(folder, USUAL, CONTEXT);
    refuses(&after, file_in(*state), WORDS, "another model");
    talk_close(&after);
    folder_remove(folder);
}

// The same weights, but for one number of its configuration.
static void test_another_configuration(void **state) {
    Bytes config = {0};
    char *folder = babbler_but("config.json", &config);
    Talk before = babbler(USUAL);
    read_in(&before, ids(), 120);
    keep(&before, file_in(*state));
    talk_close(&before);
    bytes_add(&config, "", 1);
    char *epsilon = strstr((char *)config.data, "e-06");
    assert_non_null(epsilon);
    epsilon[3] = '5';
    folder_write_text(folder, "config.json", (char *)config.data);
    bytes_free(&config);
    Talk after = talk_open(folder, USUAL, CONTEXT);
    refuses(&after, file_in(*state), WORDS, "another model");
    talk_close(&after);
    folder_remove(folder);
}

// One bit of every byte of header and tables, and of many of the data.
static void test_damage(void **state) {
    Talk before = babbler(USUAL), after = babbler(USUAL);
    read_in(&before, ids(), 40);
    keep(&before, file_in(*state));
    Bytes whole = bytes_of_file(file_in(*state));
    for (size_t i = 0; i < whole.size; i += i < 600 ? 1 : 461) {
        whole.data[i] ^= (uint8_t)(1 << i % 8);
        folder_write(*state, "talk.kv", whole.data, whole.size);
        refuses(&after, file_in(*state), WORDS, "damaged");
        whole.data[i] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t size = 0; size < whole.size; size += size < 200 ? 1 : 1013) {
        folder_write(*state, "talk.kv", whole.data, size);
        refuses(&after, file_in(*state), WORDS, "damaged");
    }
    bytes_add(&whole, "x", 1);
    folder_write(*state, "talk.kv", whole.data, whole.size);
    refuses(&after, file_in(*state), WORDS, "damaged");
    folder_write(*state, "talk.kv", whole.data, whole.size - 1);
    assert_int_equal(bring_back(&after, file_in(*state)), 40);
    bytes_free(&whole);
    talk_close(&before);
    talk_close(&after);
}

// Positions that are not those of the tokens, in a file whose checksums are right.
static void test_positions(void **state) {
    Talk before = babbler(USUAL), after = babbler(USUAL);
    read_in(&before, ids(), 40);
    keep(&before, file_in(*state));
    Bytes whole = bytes_of_file(file_in(*state));
    SnapshotHeader h;
    memcpy(&h, whole.data, sizeof h);
    uint8_t *tables = whole.data + sizeof h;
    const size_t sums = (size_t)snapshot_pieces(&h) * sizeof(uint64_t),
                 ids_behind = (size_t)h.n_tokens * sizeof(int32_t),
                 size = sums + ids_behind + (size_t)h.n_indexes * sizeof(int32_t);
    tables[sums + ids_behind + 3 * sizeof(int32_t)] = 8; // of index 3
    h.tables = checksum_of(tables, size);
    h.header = checksum_of(&h, offsetof(SnapshotHeader, header));
    memcpy(whole.data, &h, sizeof h);
    folder_write(*state, "talk.kv", whole.data, whole.size);
    refuses(&after, file_in(*state), WORDS, "damaged");
    bytes_free(&whole);
    talk_close(&before);
    talk_close(&after);
}

// ---- what happens while it is written ------------------------------------------------------------------------------

// In a process of its own, which `end` may end before it is done. Returns its exit status, or 128 + its signal.
static int write_aside(const Snapshot *snapshot, const char *path, void (*before)(void),
                       useconds_t patience) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        Error error;
        if (before) before();
        do {
            if (snapshot_write(snapshot, path, NULL, &error)) _exit(7);
        } while (patience);
        _exit(0);
    }
    if (patience) {
        usleep(patience);
        kill(child, SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void no_more_room(void) {
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){10000, 10000});
}

static void test_killed_and_full(void **state) {
    Error error = {0};
    Snapshot *snapshot;
    Talk before = babbler(USUAL), after = babbler(USUAL);
    read_in(&before, ids(), 120);
    keep(&before, file_in(*state));
    read_in(&before, ids(), 130);
    must(snapshot_take(before.session, WORDS, &snapshot, &error), &error);
    assert_int_equal(write_aside(snapshot, file_in(*state), no_more_room, 0), 7);
    assert_int_equal(bring_back(&after, file_in(*state)), 120); // what was there before
    for (useconds_t i = 1; i < 25; i++) {
        assert_int_equal(write_aside(snapshot, file_in(*state), NULL, 300 * i), 128 + SIGKILL);
        int64_t n = bring_back(&after, file_in(*state));
        assert_true(n == 120 || n == 130);
    }
    assert_int_equal(write_aside(snapshot, file_in(*state), NULL, 0), 0);
    assert_int_equal(bring_back(&after, file_in(*state)), 130);
    snapshot_free(snapshot);
    talk_close(&before);
    talk_close(&after);
}

static void test_stopped(void **state) {
    Error error = {0};
    Snapshot *snapshot;
    atomic_int stop = 1;
    Talk talk = babbler(USUAL);
    read_in(&talk, ids(), 120);
    must(snapshot_take(talk.session, WORDS, &snapshot, &error), &error);
    assert_int_equal(snapshot_write(snapshot, file_in(*state), &stop, &error), STATUS_INTERRUPTED);
    assert_int_equal(access(file_in(*state), F_OK), -1);
    assert_int_equal(bring_back(&talk, file_in(*state)), 0);
    snapshot_free(snapshot);
    talk_close(&talk);
}

#define test(name) cmocka_unit_test_setup_teardown(test_##name, folder_set_up, folder_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(every_cache),      test(after_shifts),          test(into_a_used_cache),
        test(larger_context),   test(little_is_not_kept),    test(another),
        test(another_training), test(another_configuration), test(damage),
        test(positions),        test(killed_and_full),       test(stopped),
    };
    return test_main("snapshots", argc, argv, tests);
}
