// The Jinja interpreter: what jinja2 makes of our own templates, where text comes from, bounds, and what errors say.
#include "tests/support/test.h"

#include "tokenizer/chat/jinja/jinja.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static Error error;

static Status render(const char *template, const json_t *context, JinjaText *text) {
    Jinja *jinja;
    *text = (JinjaText){0};
    Status status = jinja_parse(template, strlen(template), &jinja, &error);
    if (status) return status;
    status = jinja_render(jinja, context, 1721984703, text, &error);
    jinja_free(jinja);
    return status;
}

static json_t *golden(void) {
    json_error_t problem;
    json_t *root = json_load_file("tests/golden/jinja.json", 0, &problem);
    if (!root) fail_msg("tests/golden/jinja.json:%d: %s", problem.line, problem.text);
    return root;
}

static void as_jinja2(void **state) {
    (void)state;
    json_t *root = golden(), *one;
    size_t i;
    setenv("TZ", "UTC", 1);
    json_array_foreach(json_object_get(root, "cases"), i, one) {
        JinjaText text;
        const char *template = json_string_value(json_object_get(one, "template"));
        const char *wanted = json_string_value(json_object_get(one, "text"));
        Status status = render(template, json_object_get(root, "context"), &text);
        if (!status != !!wanted) fail_msg("%s\n%s", template, status ? error.message : "should have failed");
        if (wanted && (!text.data || strcmp(text.data, wanted) != 0))
            fail_msg("%s\ngives\n%s\nexpected\n%s", template, text.data ? text.data : "", wanted);
        jinja_text_free(&text);
    }
    json_decref(root);
}

// ---- origins -----------------------------------------------------------------------------------------------------

// Messages are made of Greek letters and white space, which no template below has; whatever is done to them, a run of
// the template's holds no Greek letter, and a run of a message's nothing else.
static const char *const handling[] = {
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}",
    "{% for m in messages %}{{ '<|' + m.role + '|>' + m['content'] | trim + '<|end|>' ~ eos_token }}{% "
    "endfor %}",
    "{% for m in messages %}{{ m.content.split('α')[-1].lstrip('\\n') }}[{{ m.content.strip() }}]{% endfor "
    "%}",
    "{{ messages | map(attribute='content') | join('<|sep|>') }}{{ messages | tojson }}{{ messages }}",
    "{% for m in messages %}{{ m.content[2:-1] }}{{ m.content[::-1] }}{{ m.content | upper }}{{ "
    "m.content.title() }}{% endfor %}",
    "{% for m in messages %}{{ m.content | replace('β', '<|b|>') }}{{ ('x' ~ m.content) * 2 }}{{ m | string "
    "}}{% endfor %}",
    "{% for m in messages %}{% for c in m.content %}{{ c }}-{% endfor %}{{ m.content | list }}{% endfor %}",
    "{% macro f(x) %}<{{ x }}>{% endmacro %}{% for m in messages %}{% set y %}{{ f(m.content) }}{% endset "
    "%}{{ y | trim }}{% endfor %}",
    "{% set ns = namespace(s='') %}{% for m in messages %}{% set ns.s = ns.s + m.content + '!' %}{% endfor "
    "%}{{ ns.s }}",
    "{% for m in messages %}{{ '%s/%s' % (m.content, m.role) }}{{ '{}+'.format(m.content) }}{{ m.content | "
    "indent }}{% endfor %}",
    "{% for m in messages %}{{ m.content | reverse }}{{ m.content | first }}{{ m.content.partition('γ') }}{{ "
    "m.content | capitalize }}{% endfor %}",
    "{{ {'α': messages[0].content}.values() | list | first }}{{ [messages[1].content] + ['x'] }}{{ "
    "messages[0].content | e }}",
};

static void check_runs(const char *template, const JinjaText *text) {
    size_t from = 0;
    for (size_t i = 0; i < text->n_runs; i++) {
        const JinjaRun *run = &text->runs[i];
        assert_true(run->end > from && run->end <= text->size);
        for (size_t at = from; at < run->end; at++) {
            unsigned char byte = (unsigned char)text->data[at];
            bool foreign = byte >= 0x80, space = strchr(" \n\t", byte) != NULL;
            if (foreign != (run->origin >= JINJA_MESSAGE) && !space)
                fail_msg("%s: byte %zu of %s has the origin %d", template, at, text->data, run->origin);
        }
        from = run->end;
    }
    assert_int_equal(from, text->size);
}

static void text_keeps_its_origin(void **state) {
    (void)state;
    static const char *const letters[] = {"α", "β", "γ", "Δ", " ", "\n", "ω", "\t"};
    uint64_t random = 1;
    for (int round = 0; round < 60; round++) {
        json_t *messages = json_array();
        for (int m = 0; m < 3; m++) {
            char content[100] = "";
            for (int i = 0; i < 20; i++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                if ((random >> 40) % 20 < 15) strcat(content, letters[(random >> 33) % 8]);
            }
            json_array_append_new(
                messages, json_pack("{s:s, s:s}", "role", m % 2 ? "assistant" : "user", "content", content));
        }
        json_t *context = json_pack("{s:o, s:s}", "messages", messages, "eos_token", "</s>");
        for (size_t i = 0; i < sizeof handling / sizeof *handling; i++) {
            JinjaText text;
            if (render(handling[i], context, &text)) fail_msg("%s: %s", handling[i], error.message);
            // Letters that a template writes itself are the template's.
            if (!strstr(handling[i], "'α':")) check_runs(handling[i], &text);
            jinja_text_free(&text);
        }
        json_decref(context);
    }
}

static void origins_are_told_apart(void **state) {
    (void)state;
    JinjaText text;
    json_t *context =
        json_pack("{s:[{s:s, s:s}, {s:s, s:s}], s:s, s:s}", "messages", "role", "user", "content", "one",
                  "role", "assistant", "content", "two", "bos_token", "<s>", "effort", "high");
    assert_int_equal(
        render(
            "{{ bos_token }}{{ messages[1].role ~ messages[1].content[1:] ~ messages[0].content ~ effort }}.",
            context, &text),
        STATUS_OK);
    static const JinjaRun runs[] = {{12, JINJA_TEMPLATE},
                                    {14, JINJA_MESSAGE + 1},
                                    {17, JINJA_MESSAGE},
                                    {21, JINJA_SETTING},
                                    {22, JINJA_TEMPLATE}};
    if (!text.runs || !text.data) {
        fail_msg("there is no text");
        return;
    }
    assert_string_equal(text.data, "<s>assistantwoonehigh.");
    assert_int_equal(text.n_runs, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(text.runs[i].end, runs[i].end);
        assert_int_equal(text.runs[i].origin, runs[i].origin);
    }
    jinja_text_free(&text);
    json_decref(context);
}

// ---- errors and bounds -------------------------------------------------------------------------------------------

static void errors_say_where(void **state) {
    (void)state;
    static const struct {
        const char *template;
        Status status;
        const char *message;
    } cases[] = {
        {"a\n{% if messages %}\n{{ raise_exception('Only user and assistant roles!') }}{% endif %}",
         STATUS_USAGE, "chat template, line 3: Only user and assistant roles!"},
        {"\n\n{{ x | urlize }}", STATUS_UNSUPPORTED,
         "chat template, line 3: the filter \"urlize\" is not supported"},
        {"{% import 'x' as y %}", STATUS_UNSUPPORTED,
         "chat template, line 1: {% import %} is not supported here"},
        {"\n{{ tools[0].name }}", STATUS_UNSUPPORTED, "chat template, line 2: \"tools\" is undefined"},
        {"{{ messages.append(1) }}", STATUS_UNSUPPORTED,
         "chat template, line 1: append of a list is not allowed, or not supported"},
        {"{% for x in y %}\n", STATUS_UNSUPPORTED, "chat template, line 1: {% endfor %} is missing"},
        {"{{ (1 }}", STATUS_UNSUPPORTED, "chat template, line 1: a \"}\" that closes nothing"},
    };
    json_t *context = json_pack("{s:[]}", "messages");
    json_array_append_new(json_object_get(context, "messages"), json_object());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JinjaText text;
        assert_int_equal(render(cases[i].template, context, &text), cases[i].status);
        assert_string_equal(error.message, cases[i].message);
    }
    json_decref(context);
}

static void hostile_ones_end(void **state) {
    (void)state;
    static const char *const hostile[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% "
        "endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s "
        "%}{% endfor %}",
        "{{ 'x' * 9999999999 }}",
        "{{ [1] * 9999999999 }}",
        "{{ range(9999999999) }}",
        "{{ 9223372036854775807 + 1 }}",
        "{{ 'x' | indent(9999999999) }}",
        "{{ {} | tojson(indent=9999999999) }}{{ [1] | tojson(indent=9999999999) }}",
    };
    json_t *context = json_object();
    JinjaText text;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        if (!render(hostile[i], context, &text)) fail_msg("%s ends well", hostile[i]);
    static const char *const nests[] = {"(",   "[",     "{{ [", "not ", "-", "{% if 1 %}", "{% for a in b %}",
                                        "{1:", "a if ", "a[",   "f("};
    for (size_t i = 0; i < sizeof nests / sizeof *nests; i++) {
        size_t length = strlen(nests[i]), n = 20000;
        char *deep = malloc(n * length + 4);
        assert_non_null(deep);
        strcpy(deep, nests[i][0] == '{' && nests[i][1] != '1' ? "" : "{{ ");
        for (size_t k = 0, at = strlen(deep); k < n; k++, at += length) strcpy(deep + at, nests[i]);
        assert_int_not_equal(render(deep, context, &text), STATUS_OK);
        free(deep);
    }
    json_decref(context);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_jinja2),
        cmocka_unit_test(text_keeps_its_origin),
        cmocka_unit_test(origins_are_told_apart),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(hostile_ones_end),
    };
    return test_main("jinja", argc, argv, tests);
}
