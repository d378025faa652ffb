// Hostile Jinja templates: nothing crashes or hangs, what is refused is refused with a message, and the runs of what is
// rendered cover it.
#include "tokenizer/chat/jinja/jinja.h"

#include <jansson.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *context; // made by the first call, for all

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!context)
        context = json_pack(
            "{s:[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}], s:b, s:s, s:s, s:n, s:i, s:f, s:{s:[i, i], s:s}}",
            "messages", "role", "system", "content", " Be brief. ", "role", "user", "content", "Grüße 你好",
            "role", "assistant", "content", "<think>\nx\n</think>\n\ny", "add_generation_prompt", 1,
            "bos_token", "<s>", "eos_token", "</s>", "tools", "n", 7, "x", 2.5, "d", "k", 1, 2, "s", "v");
    Jinja *jinja;
    JinjaText text;
    Error error = {0};
    if (!context || size > 4000) return 0;
    Status status = jinja_parse((const char *)data, size, &jinja, &error);
    if (!status) status = jinja_render(jinja, context, 0, &text, &error);
    if (status) {
        if (!*error.message) abort();
    } else {
        size_t end = 0;
        for (size_t i = 0; i < text.n_runs; i++) {
            if (text.runs[i].end <= end || text.runs[i].origin > JINJA_MESSAGE + 2) abort();
            end = text.runs[i].end;
        }
        if (end != text.size) abort();
        jinja_text_free(&text);
    }
    jinja_free(jinja);
    return 0;
}
