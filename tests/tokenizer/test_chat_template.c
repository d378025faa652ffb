// Chat templates: the ids of real templates, recognition, names and files.
#include "tests/support/chat_golden.h"
#include "tests/support/test.h"

#include "tokenizer/chat/chat_template_internal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MESSAGES = 16 };
static Error error;

// ---- golden files ------------------------------------------------------------------------------------

static json_t *golden(void) {
    json_error_t problem;
    json_t *root = json_load_file("tests/golden/chat.json", 0, &problem);
    if (!root) fail_msg("tests/golden/chat.json:%d: %s", problem.line, problem.text);
    return root;
}

static const char *string_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

static int read_talk(const json_t *talk, ChatMessage *messages) {
    int n = (int)json_array_size(talk);
    assert_true(n <= MAX_MESSAGES);
    for (int i = 0; i < n; i++) {
        const json_t *message = json_array_get(talk, (size_t)i);
        const char *text = string_of(message, "content");
        messages[i] =
            (ChatMessage){(ChatRole)chat_role_find(string_of(message, "role")), text, strlen(text), NULL, 0};
    }
    return n;
}

static char *ids_as_text(const Tokens *tokens) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (int64_t i = 0; i < tokens->n; i++) fprintf(out, i ? " %d" : "%d", tokens->ids[i]);
    fclose(out);
    return text;
}

// ---- equality with the models' own templates ---------------------------------------------------------

static void check_case(const json_t *root, const json_t *entry, const json_t *one,
                       const ChatTemplate *chat_template, const Tokenizer *tokenizer) {
    ChatMessage messages[MAX_MESSAGES];
    ChatSpan spans[MAX_MESSAGES];
    size_t number = (size_t)json_integer_value(json_object_get(one, "talk"));
    int n = read_talk(json_array_get(json_object_get(root, "talks"), number), messages);
    bool prompt = json_is_true(json_object_get(one, "prompt"));
    char *text = chat_text(chat_template, tokenizer, messages, n, prompt);
    if (strcmp(text, string_of(one, "text")) != 0)
        fail_msg("%s, talk %zu:\n%s\nexpected\n%s", string_of(entry, "jinja"), number, text,
                 string_of(one, "text"));
    Tokens tokens = chat_ids(chat_template, tokenizer, messages, n, prompt, spans);
    char *ids = ids_as_text(&tokens);
    if (strcmp(ids, string_of(one, "ids")) != 0)
        fail_msg("%s, talk %zu: ids\n%s\nexpected\n%s", string_of(entry, "jinja"), number, ids,
                 string_of(one, "ids"));
    chat_check_spans(spans, n, &tokens);
    free(text);
    free(ids);
    tokens_free(&tokens);
}

static void as_the_models_own(void **state) {
    (void)state;
    json_t *root = golden(), *entry, *one;
    size_t i, j;
    json_array_foreach(json_object_get(root, "templates"), i, entry) {
        Tokenizer *tokenizer = chat_tokenizer(string_of(entry, "tokenizer"));
        ChatTemplate *chat_template;
        bool recognised;
        assert_int_equal(chat_template_recognise(string_of(entry, "excerpt"), tokenizer, &chat_template,
                                                 &recognised, &error),
                         STATUS_OK);
        if (!recognised) fail_msg("%s is not recognised", string_of(entry, "jinja"));
        assert_string_equal(chat_template_name(chat_template), string_of(entry, "template"));
        json_array_foreach(json_object_get(entry, "cases"), j, one) {
            check_case(root, entry, one, chat_template, tokenizer);
        }
        chat_template_close(chat_template);
        tokenizer_close(tokenizer);
    }
    json_decref(root);
}

// ---- recognition -------------------------------------------------------------------------------------

// Markers are exclusive, so that the order of the templates does not matter.
static void one_template_matches(void **state) {
    (void)state;
    json_t *root = golden(), *entry;
    size_t i;
    int n;
    const ChatBuiltin *builtins = chat_builtins(&n);
    json_array_foreach(json_object_get(root, "templates"), i, entry) {
        char *normal = chat_normal_jinja(string_of(entry, "excerpt"));
        int matching = 0;
        for (int b = 0; b < n; b++) {
            ChatTemplate *chat_template = chat_template_named(builtins[b].name);
            matching += chat_template_matches(chat_template, normal);
            chat_template_close(chat_template);
        }
        assert_int_equal(matching, 1);
        free(normal);
    }
    json_decref(root);
}

static void unknown_ones_are_guessed(void **state) {
    (void)state;
    static const struct {
        const char *tokenizer, *name;
    } cases[] = {{"bytes", "chatml"}, {"prepend", "phi-3"}, {"metaspace", "mistral-v3-tekken"}};
    static const char *const strangers[] = {
        NULL,
        "",
        "{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}",
        "{{ 'unclosed",
        "{# comment without an end",
        "{{'<|im_start|>' + message['role'] + '<|im_sep|>' + message['content'] + '<|im_end|>'}}",
        "{{ '### Instruction:\n' + message['content'] + '\n' }}{{ '### Response:\n' + content + '<|EOT|>' }}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokenizer *tokenizer = chat_tokenizer(cases[i].tokenizer);
        for (size_t j = 0; j < sizeof strangers / sizeof *strangers; j++) {
            ChatTemplate *chat_template;
            bool recognised = true;
            assert_int_equal(
                chat_template_recognise(strangers[j], tokenizer, &chat_template, &recognised, &error),
                STATUS_OK);
            assert_false(recognised);
            assert_string_equal(chat_template_name(chat_template), cases[i].name);
            chat_template_close(chat_template);
        }
        tokenizer_close(tokenizer);
    }
}

static void normal_form(void **state) {
    (void)state;
    static const struct {
        const char *jinja, *normal;
    } cases[] = {
        {"{{- 'a b' + \"c\\n'd'\"  -}}", "{{\1a b\1+\1c\n'd'\1}}"},
        {"{# it's gone #}x y{%+ if a.content %}", "xy{%ifa[\1content\1]%}"},
        {"{{ message.role }}{{ message.roles }}", "{{message[\1role\1]}}{{message.roles}}"},
        {"{{ 'it\\'s }} here' }}it's", "{{\1it's }} here\1}}it's"},
        {"{{ a - b -}}", "{{a-b}}"},
        {"{{ 'open", "{{\1open\1"},
        {"{{ '\\", "{{\1\\\1"},
        {"{", "{"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *normal = chat_normal_jinja(cases[i].jinja);
        assert_string_equal(normal, cases[i].normal);
        free(normal);
    }
    assert_true(chat_normal_contains("{{\1a\1+b}}", "'a'+b"));
    assert_false(chat_normal_contains("{{'a'+b}}", "'a'+b"));
}

// ---- names and files ---------------------------------------------------------------------------------

static void names(void **state) {
    (void)state;
    int n, n_builtins;
    const char *const *all = chat_template_names(&n);
    const ChatBuiltin *builtins = chat_builtins(&n_builtins);
    assert_int_equal(n, n_builtins);
    for (int i = 0; i < n; i++) {
        char path[200];
        assert_string_equal(all[i], builtins[i].name);
        ChatTemplate *chat_template = chat_template_named(all[i]);
        assert_string_equal(chat_template_name(chat_template), all[i]);
        chat_template_close(chat_template);
        snprintf(path, sizeof path, "config/chat/%s.toml", all[i]); // the same as a user's file
        chat_template_close(chat_template_named(path));
    }
    ChatTemplate *chat_template;
    assert_int_equal(chat_template_open("llama3", &chat_template, &error), STATUS_USAGE);
    assert_string_equal(error.message, "no chat template \"llama3\"; did you mean \"llama-3\"?");
    assert_null(chat_template);
    assert_int_equal(chat_template_open("bananarama", &chat_template, &error), STATUS_USAGE);
    assert_int_equal(chat_template_open("no/such.toml", &chat_template, &error), STATUS_FILE);
}

static void faulty_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "t.toml: there is no [user] section; a chat template needs one"},
        {"[user]\nbefor = \"x\"", "t.toml:2:1: unknown key \"befor\"; did you mean \"before\"?"},
        {"[user]\nbefore = 1", "t.toml:2:1: before: expected a string"},
        {"[user]\nplace = \"first user\"", "t.toml:2:1: unknown key \"place\"; remove it"},
        {"[user]\ntrim = true", "t.toml:2:1: trim: expected \"nothing\", \"text\" or \"turn\""},
        {"[system]\nplace = \"last\"",
         "t.toml:2:1: place: expected \"own turn\", \"first user\" or \"last user\""},
        {"user = 1", "t.toml:1:1: user: expected a section"},
        {"bos = 1", "t.toml:1:1: bos: expected true or false"},
        {"end = [1]", "t.toml:1:8: end: expected strings that are not empty"},
        {"end = \"a\\u0000\"", "t.toml:1:1: end: expected strings that are not empty"},
        {"think = [\"a\"]",
         "t.toml:1:1: think: expected two strings, the begin and the end of what is thought"},
        {"[recognise]\nall = 1", "t.toml:2:1: all: expected a list of strings, or of lists of alternatives"},
        {"[recognise]\nal = 1", "t.toml:2:1: unknown key \"al\"; did you mean \"all\"?"},
        {"ends = []", "t.toml:1:1: unknown key \"ends\"; did you mean \"end\"?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TomlNode *root;
        ChatTemplate *chat_template;
        assert_int_equal(toml_parse("t.toml", cases[i].text, strlen(cases[i].text), &root, &error),
                         STATUS_OK);
        assert_int_equal(chat_read("t.toml", "t", root, &chat_template, &error), STATUS_FILE);
        assert_string_equal(error.message, cases[i].message);
        assert_null(chat_template);
        toml_free(root);
    }
}

static void ends_and_stops(void **state) {
    (void)state;
    Tokenizer *tokenizer = chat_tokenizer("bytes");
    ChatTemplate *chat_template = chat_template_named("chatml");
    assert_true(chat_template_is_end(chat_template, tokenizer, chat_piece(tokenizer, "<|im_end|>")));
    assert_false(chat_template_is_end(chat_template, tokenizer, chat_piece(tokenizer, "<|im_start|>")));
    assert_false(chat_template_is_end(chat_template, tokenizer, chat_piece(tokenizer, "a")));
    assert_false(chat_template_is_end(chat_template, tokenizer, -1));
    int n;
    const char *const *stops = chat_template_stop_strings(chat_template, &n);
    assert_int_equal(n, 1);
    assert_string_equal(stops[0], "<|im_end|>");
    chat_template_close(chat_template);
    chat_template = chat_template_named("alpaca");
    stops = chat_template_stop_strings(chat_template, &n);
    assert_int_equal(n, 1);
    assert_string_equal(stops[0], "### Instruction:");
    chat_template_close(chat_template);
    tokenizer_close(tokenizer);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_models_own),
        cmocka_unit_test(one_template_matches),
        cmocka_unit_test(unknown_ones_are_guessed),
        cmocka_unit_test(normal_form),
        cmocka_unit_test(names),
        cmocka_unit_test(faulty_files),
        cmocka_unit_test(ends_and_stops),
    };
    return test_main("chat_template", argc, argv, tests);
}
