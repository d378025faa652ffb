#include "tests/support/grammars.h"

#include "engine/grammar/grammar_internal.h"
#include "tests/support/test.h"

#include <string.h>

Grammar *grammars_compile(GrammarKind kind, const char *text) {
    Error error = {0};
    Grammar *grammar;
    if (grammar_compile(kind, text, strlen(text), &grammar, &error)) fail_msg("%s: %s", text, error.message);
    return grammar;
}

bool grammars_fit(GrammarKind kind, const char *grammar, const char *text) {
    Grammar *g = grammars_compile(kind, grammar);
    Error error;
    States states;
    assert_int_equal(states_open(&g->net, &states, &error), STATUS_OK);
    uint32_t state = states_start(&states);
    for (; *text && state > STATES_DEAD; text++) state = states_step(&states, state, (uint8_t)*text);
    assert_int_equal(states.error.status, STATUS_OK);
    bool may_end = state > STATES_DEAD && states.states[state].may_end;
    states_close(&states);
    grammar_close(g);
    return may_end;
}
