// Chat templates: the ids of real templates, recognition, names and files.
#include "tests/support/model/chat_golden.h"
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

static int read_talk(const json_t *talk, Message *messages) {
    int n = (int)json_array_size(talk);
    assert_true(n <= MAX_MESSAGES);
    for (int i = 0; i < n; i++) {
        const json_t *message = json_array_get(talk, (size_t)i);
        const char *text = string_of(message, "content");
        messages[i] = (Message){
            .role = (ChatRole)chat_role_find(string_of(message, "role")), .text = text, .size = strlen(text)};
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
    Message messages[MAX_MESSAGES];
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

// The built-in template that a model's own amounts to, and the model's own executed, say what the model's own says to
// transformers.
static void as_the_models_own(void **state) {
    (void)state;
    json_t *root = golden(), *entry, *one;
    size_t i, j;
    json_array_foreach(json_object_get(root, "templates"), i, entry) {
        Tokenizer *tokenizer = chat_tokenizer(string_of(entry, "tokenizer"));
        const char *jinja = string_of(entry, "minimal");
        ChatTemplate *known, *own;
        if (chat_template_recognise(jinja, tokenizer, &known, &error)) fail_msg("%s", error.message);
        if (chat_template_open_jinja(jinja, tokenizer, &own, &error)) fail_msg("%s", error.message);
        assert_null(chat_template_notice(known));
        if (strcmp(chat_template_name(known), string_of(entry, "template")) != 0)
            fail_msg("%s is taken for %s", string_of(entry, "jinja"), chat_template_name(known));
        assert_string_equal(chat_template_name(own), "jinja");
        json_array_foreach(json_object_get(entry, "cases"), j, one) {
            check_case(root, entry, one, known, tokenizer);
            check_case(root, entry, one, own, tokenizer);
        }
        chat_template_close(known);
        chat_template_close(own);
        tokenizer_close(tokenizer);
    }
    json_decref(root);
}

// ---- recognition -------------------------------------------------------------------------------------

#define CHATML(role, content)                                                                                \
    "{% for m in messages %}{{ '<|im_start|>' + " role " + '\n' + " content                                  \
    " + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif " \
    "%}"

// What only looks like a built-in template is executed as it is.
static void what_differs_is_executed(void **state) {
    (void)state;
    static const struct {
        const char *jinja, *text; // of a system message, a question, an answer and a question
    } cases[] = {
        {CHATML("('human' if m.role == 'user' else m.role)", "m.content"),
         "<|im_start|>system\n S "
         "<|im_end|>\n<|im_start|>human\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
         "<|im_start|>human\nc<|im_end|>\n<|im_start|>assistant\n"},
        {"Preamble.\n" CHATML("m.role", "m.content"),
         "Preamble.\n<|im_start|>system\n S "
         "<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
         "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"},
        {"{% set messages = messages | rejectattr('role', 'eq', 'system') | list %}" CHATML("m.role",
                                                                                            "m.content"),
         "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
         "<|im_start|>assistant\n"},
        {CHATML("m.role", "(m.content | upper if loop.index0 == 1 else m.content)"),
         "<|im_start|>system\n S "
         "<|im_end|>\n<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
         "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"},
        {"{% for m in messages %}{{ '[' ~ m.role ~ ']' ~ m.content[0].text }}{% endfor %}",
         "[system] S [user]a[assistant]b[user]c"},
    };
    static const Message talk[] = {{.role = CHAT_SYSTEM, .text = " S ", .size = 3},
                                   {.role = CHAT_USER, .text = "a", .size = 1},
                                   {.role = CHAT_ASSISTANT, .text = "b", .size = 1},
                                   {.role = CHAT_USER, .text = "c", .size = 1}};
    Tokenizer *tokenizer = chat_tokenizer("bytes");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ChatTemplate *chat_template;
        assert_int_equal(chat_template_recognise(cases[i].jinja, tokenizer, &chat_template, &error),
                         STATUS_OK);
        assert_string_equal(chat_template_name(chat_template), "jinja");
        assert_null(chat_template_notice(chat_template));
        char *text = chat_text(chat_template, tokenizer, talk, 4, true);
        assert_string_equal(text, cases[i].text);
        free(text);
        chat_template_close(chat_template);
    }
    tokenizer_close(tokenizer);
}

static void what_cannot_be_executed_is_guessed(void **state) {
    (void)state;
    static const struct {
        const char *tokenizer, *name;
    } vocabularies[] = {{"bytes", "chatml"}, {"prepend", "phi-3"}, {"metaspace", "mistral-v7"}};
    static const struct {
        const char *jinja, *why;
    } strangers[] = {
        {NULL, "the model has no chat template"},
        {"", "the model's chat template: it leaves out what the user says"},
        {"\n{{ 'unclosed", "the model's chat template, line 2: a text is not closed"},
        {"{% for t in tools %}{% endfor %}",
         "the model's chat template, line 1: it asks for tools, and there are none"},
        {"{{ messages | urlize }}",
         "the model's chat template, line 1: the filter \"urlize\" is not supported"},
    };
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        Tokenizer *tokenizer = chat_tokenizer(vocabularies[i].tokenizer);
        for (size_t j = 0; j < sizeof strangers / sizeof *strangers; j++) {
            ChatTemplate *chat_template;
            char notice[300];
            assert_int_equal(chat_template_recognise(strangers[j].jinja, tokenizer, &chat_template, &error),
                             STATUS_OK);
            assert_string_equal(chat_template_name(chat_template), vocabularies[i].name);
            snprintf(notice, sizeof notice,
                     "%s: this chat uses %s, which is a guess; --template chooses another", strangers[j].why,
                     vocabularies[i].name);
            assert_string_equal(chat_template_notice(chat_template), notice);
            chat_template_close(chat_template);
        }
        tokenizer_close(tokenizer);
    }
}

// A template may refuse what it has no place for: in its own words, and never when it is only looked at before there is
// a question.
// Folders with tekken.json alone have no template: from version 7 on a system prompt has a turn of its own.
static void tekken_by_its_version(void **state) {
    (void)state;
    static const Message talk[] = {{.role = CHAT_SYSTEM, .text = "Be", .size = 2},
                                   {.role = CHAT_USER, .text = "One", .size = 3},
                                   {.role = CHAT_ASSISTANT, .text = "Two", .size = 3},
                                   {.role = CHAT_USER, .text = "Three", .size = 5}};
    static const char *const CASES[][3] = {
        {"tekken", "mistral-v7-tekken",
         "<s>[SYSTEM_PROMPT]Be[/SYSTEM_PROMPT][INST]One[/INST]Two</s>[INST]Three[/INST]"},
        {"tekken-old", "mistral-v3-tekken", "<s>[INST]One[/INST]Two</s>[INST]Be\n\nThree[/INST]"}};
    for (size_t i = 0; i < 2; i++) {
        Tokenizer *tokenizer;
        ChatTemplate *guess;
        char folder[100];
        snprintf(folder, sizeof folder, "tests/golden/tokenizers/%s", CASES[i][0]);
        if (tokenizer_open_folder(folder, &tokenizer, &error)) fail_msg("%s", error.message);
        assert_int_equal(chat_template_recognise(NULL, tokenizer, &guess, &error), STATUS_OK);
        assert_string_equal(chat_template_name(guess), CASES[i][1]);
        assert_non_null(strstr(chat_template_notice(guess), "which is a guess"));
        char *text = chat_text(guess, tokenizer, talk, 4, true);
        assert_string_equal(text, CASES[i][2]);
        free(text);
        chat_template_close(guess);
        tokenizer_close(tokenizer);
    }
}

static void refusals(void **state) {
    (void)state;
    static const char jinja[] =
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('No system prompt!') }}"
        "{% endif %}<{{ m.content }}>{% endfor %}{% if messages[-1].role != 'user' %}"
        "{{ raise_exception('No question!') }}{% endif %}";
    static const Message talk[] = {{.role = CHAT_SYSTEM, .text = "s", .size = 1},
                                   {.role = CHAT_USER, .text = "a", .size = 1},
                                   {.role = CHAT_ASSISTANT, .text = "b", .size = 1}};
    Tokenizer *tokenizer = chat_tokenizer("bytes");
    ChatTemplate *chat_template;
    Tokens tokens = {0};
    ChatSpan spans[3];
    assert_int_equal(chat_template_recognise(jinja, tokenizer, &chat_template, &error), STATUS_OK);
    assert_int_equal(
        chat_template_render(chat_template, tokenizer, &(ChatTalk){talk, 2, true}, &tokens, spans, &error),
        STATUS_USAGE);
    assert_string_equal(error.message, "chat template, line 1: No system prompt!");
    assert_int_equal(tokens.n, 0);
    assert_int_equal(chat_template_render(chat_template, tokenizer, &(ChatTalk){talk + 1, 2, true}, &tokens,
                                          spans, &error),
                     STATUS_USAGE);
    assert_int_equal(chat_template_render(chat_template, tokenizer, &(ChatTalk){talk + 1, 2, false}, &tokens,
                                          spans, &error),
                     STATUS_OK);
    chat_check_spans(spans, 2, &tokens);
    assert_true(tokens.n > 0);
    tokens_free(&tokens);
    chat_template_close(chat_template);
    tokenizer_close(tokenizer);
}

// ---- names and files ---------------------------------------------------------------------------------

static void names(void **state) {
    (void)state;
    int n;
    const ChatBuiltin *builtins = chat_builtins(&n);
    for (int i = 0; i < n; i++) {
        char path[200];
        ChatTemplate *chat_template = chat_template_named(builtins[i].name);
        assert_string_equal(chat_template_name(chat_template), builtins[i].name);
        chat_template_close(chat_template);
        snprintf(path, sizeof path, "config/chat/%s.toml", builtins[i].name); // the same as a user's file
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
        {"vocabulary = 1", "t.toml:1:1: vocabulary: expected strings that are not empty"},
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
        cmocka_unit_test(what_differs_is_executed),
        cmocka_unit_test(what_cannot_be_executed_is_guessed),
        cmocka_unit_test(tekken_by_its_version),
        cmocka_unit_test(refusals),
        cmocka_unit_test(names),
        cmocka_unit_test(faulty_files),
        cmocka_unit_test(ends_and_stops),
    };
    return test_main("chat_template", argc, argv, tests);
}
