#include "app/loading/plan_shown.h"

#include "kernels/base/text/format.h"

#include <stdio.h>

enum { PART_ROOM = 160 };
typedef struct Part {
    int64_t weights, cache, scratch, available;
} Part;

static void print_part(const Part *part, char *text, size_t size) {
    char weights[FORMAT_ROOM], cache[FORMAT_ROOM], scratch[FORMAT_ROOM], available[FORMAT_ROOM];
    format_bytes((double)part->weights, weights);
    format_bytes((double)part->cache, cache);
    format_bytes((double)part->scratch, scratch);
    format_bytes((double)part->available, available);
    snprintf(text, size, "weights %s, cache %s, working space %s; %s was free", weights, cache, scratch,
             available);
}

static void print_cards(const EngineMemory *m, char text[PLAN_ROOM]) {
    int n = snprintf(text, PLAN_ROOM, "layers        all %d on %d cards, a share of each on every card",
                     m->n_layers, m->n_cards);
    for (int i = 0; i < m->n_cards; i++) {
        const EngineCard *card = &m->cards[i];
        const Part part = {card->weights, card->cache, card->scratch, card->available};
        char on_card[PART_ROOM];
        print_part(&part, on_card, sizeof on_card);
        n += snprintf(text + n, PLAN_ROOM - (size_t)n, "\n              %s: %s", card->name, on_card);
    }
}

void plan_shown(const Engine *engine, char text[PLAN_ROOM]) {
    const EngineMemory m = engine_memory(engine);
    const EngineTokenTimes times = engine_token_times(engine);
    const Part device = {m.weights, m.cache - m.host_cache, m.scratch, m.available},
               host = {m.host_weights, m.host_cache, m.host_scratch, m.host_available};
    char on_device[PART_ROOM], on_host[PART_ROOM];
    if (m.n_cards > 0) return print_cards(&m, text);
    print_part(&device, on_device, sizeof on_device);
    print_part(&host, on_host, sizeof on_host);
    if (!m.host_layers) {
        snprintf(text, PLAN_ROOM, "layers        all %d: %s", m.n_layers, on_device);
        return;
    }
    const int last = m.n_layers - m.host_layers;
    int n = m.only_experts
                ? snprintf(text, PLAN_ROOM,
                           "layers        all %d with the experts of the last %d on the device: %s\n"
                           "              the experts of the first %d on the CPU: %s",
                           m.n_layers, last, on_device, m.host_layers, on_host)
                : snprintf(text, PLAN_ROOM,
                           "layers        the last %d and the head on the device: %s\n"
                           "              the first %d on the CPU: %s",
                           last, on_device, m.host_layers, on_host);
    if (times.host > 0)
        n += snprintf(text + n, PLAN_ROOM - (size_t)n,
                      "\n              a token takes %.2f ms on the CPU and %.2f ms on the device",
                      1e3 * times.host, 1e3 * times.device);
    if (times.visits_from > 0)
        snprintf(text + n, PLAN_ROOM - (size_t)n,
                 "\n              %d and more of a prompt are computed on the device", times.visits_from);
}
