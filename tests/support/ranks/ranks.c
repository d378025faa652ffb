#include "tests/support/ranks/ranks.h"

#include "engine/model/model.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void ranks_address(char address[64]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    const int one = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(one, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(one, (struct sockaddr *)&at, &size), 0);
    close(one);
    snprintf(address, 64, "127.0.0.1:%d", ntohs(at.sin_port));
}

static void *serve(void *context) {
    struct RanksOne *one = context;
    Model *model;
    one->status = model_open(one->options.model, &model, &one->error);
    if (!one->status) one->status = engine_serve(model, &one->options, &one->error);
    return NULL;
}

void ranks_begin(Ranks *r, const char *model, int n, const char *device, EngineOptions *options) {
    memset(r, 0, sizeof *r);
    r->n = n;
    ranks_address(r->address);
    options->world = (EngineWorld){.size = n, .join = r->address, .key = "a key", .seconds = 30};
    for (int i = 1; i < n; i++) {
        r->ones[i].options = *options;
        r->ones[i].options.model = model;
        r->ones[i].options.world.rank = i;
        if (device) r->ones[i].options.device = device;
        assert_int_equal(pthread_create(&r->threads[i], NULL, serve, &r->ones[i]), 0);
    }
}

void ranks_end(Ranks *r) {
    for (int i = 1; i < r->n; i++) {
        pthread_join(r->threads[i], NULL);
        if (r->ones[i].status) fail_msg("rank %d: %s", i, r->ones[i].error.message);
    }
}
