#include "tests/gpu/engine/engine_tests.h"
#include "tests/gpu/model/model.h"

#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void test_fault(const char *plugin, Report *report) {
    char *const argv[] = {(char *)"test-gpu", (char *)plugin, (char *)"--fault-child", NULL};
    pid_t child;
    int status = -1;
    fflush(stdout);
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ) || waitpid(child, &status, 0) < 0)
        status = -1;
    report("fault", "a process of its own", status, 0);
}

static bool is_fatal(const char *what, Status status, const Error *error) {
    bool ok = status == STATUS_FATAL && strstr(error->message, "cuda: ");
    printf("%s fault: %s: %s\n", ok ? "ok    " : "FAILED", what, status ? error->message : "no error");
    return ok;
}

// A step whose residual stream is no memory of the device.
int fault_child(const Ops *cuda) {
    Case c = {"fault", DTYPE_F16, 64, 1, 1, 64, 64, 64, .n_tokens = 1, .kv = DTYPE_F16};
    TestModel model;
    model_fill(&model, &c, 3);
    BackendOptions options = {.device = "cuda", .shape = &model.shape, .max_tokens = 1, .max_logits = 1};
    Backend *backend;
    Head *head;
    Error error;
    void *positions = NULL, *x = NULL;
    if (cuda->open(&options, &backend, &error) || cuda->load_head(backend, &model.head, &head, &error) ||
        cuda->alloc(backend, 4, &positions, &error) || cuda->alloc(backend, 4096, &x, &error)) {
        printf("FAILED fault: %s\n", error.message);
        return 1;
    }
    int32_t id = 1, zero = 0;
    float values[4];
    StepSequence sequence = {.n_tokens = 1, .n_slots = 1, .pages = &zero};
    Step step = {.n_tokens = 1,
                 .n_sequences = 1,
                 .ids = &id,
                 .positions = &zero,
                 .slots = &zero,
                 .sequences = &sequence,
                 .page_size = 1,
                 .slot_positions = positions};
    Status status = cuda->begin(backend, &step, NULL, &error);
    if (!status) status = cuda->embed(backend, head, (void *)4096, &error);
    if (!status) status = cuda->read(backend, values, x, sizeof values, &error); // waits for it
    bool ok = is_fatal("the op", status, &error);
    ok = is_fatal("the next", cuda->embed(backend, head, x, &error), &error) && ok;
    void *more;
    ok = is_fatal("memory", cuda->alloc(backend, 64, &more, &error), &error) && ok;
    cuda->close(backend); // harmless
    model_free(&model);
    return !ok;
}
