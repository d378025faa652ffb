// Reasoning between think tokens: told apart by token id, shown, dimmed or hidden.
#include "tests/support/files.h"
#include "tests/support/terminal/prompt.h"
#include "tests/support/model/tokenizer_files.h"
#include "tests/support/test.h"
#include "app/chat/thoughts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BEGIN = 7, END = 8, WORD = 20 };

// Which of the tokens [n] are thoughts, as '#', after a reply began.
static const char *marks(Thoughts *thoughts, const int32_t *ids, int n) {
    static char text[32];
    for (int i = 0; i < n; i++) {
        thoughts_token(thoughts, ids[i]);
        text[i] = thoughts->thinking ? '#' : '.';
    }
    text[n] = 0;
    return text;
}

static void test_tokens_between_the_two(void **state) {
    (void)state;
    Thoughts t = {.begin = BEGIN, .end = END};
    thoughts_begin(&t, NULL, 0);
    assert_string_equal(marks(&t, (int32_t[]){WORD, BEGIN, WORD, END, WORD, WORD}, 6), ".###..");
    assert_int_equal(t.n_tokens, 3);
    thoughts_begin(&t, (int32_t[]){WORD, WORD}, 2);
    assert_string_equal(marks(&t, (int32_t[]){WORD, END, WORD}, 3), "..."); // an end alone is none
    assert_string_equal(marks(&t, (int32_t[]){BEGIN, BEGIN, END, BEGIN, END, WORD}, 6), "#####.");
    assert_string_equal(marks(&t, (int32_t[]){BEGIN, WORD}, 2), "##"); // cut short
    thoughts_begin(&t, NULL, 0);
    assert_string_equal(marks(&t, (int32_t[]){WORD}, 1), "."); // a reply of its own
}

static void test_a_thought_that_has_begun(void **state) {
    (void)state;
    Thoughts t = {.begin = BEGIN, .end = END};
    thoughts_begin(&t, (int32_t[]){BEGIN, WORD}, 2); // the template opened it
    assert_string_equal(marks(&t, (int32_t[]){WORD, END, WORD}, 3), "##.");
    thoughts_begin(&t, (int32_t[]){WORD, BEGIN, WORD, END, WORD}, 5); // a reply that goes on after it
    assert_string_equal(marks(&t, (int32_t[]){WORD}, 1), ".");
    thoughts_begin(&t, (int32_t[]){WORD, BEGIN, END, BEGIN, WORD}, 5); // or within the second
    assert_string_equal(marks(&t, (int32_t[]){WORD, END, WORD}, 3), "##.");
}

static void test_a_model_without_think_tokens(void **state) {
    (void)state;
    Thoughts t = {.begin = -1, .end = -1};
    thoughts_begin(&t, (int32_t[]){BEGIN}, 1);
    assert_string_equal(marks(&t, (int32_t[]){BEGIN, WORD, END, -1}, 4), "....");
}

// What of a reply is drawn in one with what follows: the ids' bytes behind the last thought, or those of that.
static void test_the_tail_of_a_reply(void **state) {
    (void)state;
    Tokenizer *tokenizer = tokenizer_files_open(BABBLER);
    Thoughts t = {.begin = tokenizer_find(tokenizer, "a"), .end = tokenizer_find(tokenizer, "b")};
    const int32_t the = tokenizer_find(tokenizer, "Ġthe");
    assert_true(t.begin >= 0 && t.end >= 0 && the >= 0);
    assert_int_equal(thoughts_tail(&t, tokenizer, (int32_t[]){the, the}, 2), 8);
    assert_int_equal(thoughts_tail(&t, tokenizer, (int32_t[]){the, t.begin, the, t.end, the}, 5), 4);
    assert_int_equal(thoughts_tail(&t, tokenizer, (int32_t[]){the, t.begin, the, the}, 4), 9);
    assert_int_equal(thoughts_tail(&t, tokenizer, (int32_t[]){the, the, t.end}, 3),
                     0); // the template began it
    tokenizer_close(tokenizer);
}

static void test_modes(void **state) {
    (void)state;
    for (int i = THINK_SHOW; i <= THINK_HIDE; i++)
        assert_int_equal(thoughts_mode_find(thoughts_mode_name((ThinkMode)i)), i);
    assert_int_equal(thoughts_mode_find("loud"), -1);
    assert_int_equal(thoughts_mode_find(""), -1);
}

// The babbler with two of its tokens made into think tokens, in the test's own folder.
static const char MAKE_THINKER[] =
    "printf '%s' '{% for m in messages %}{{ m.content.split(\"</think>\")[-1] if m.role == \"assistant\" and "
    "not "
    "loop.last else m.content }}!{% endfor %}' >$HOME/brief.jinja; "
    "b=" BABBLER "; t=$HOME/thinker; mkdir $t && cp $b/* $t && "
    "{ head -n -11 $b/tokenizer.json | sed -e '$s/,$//' -e 's/\"Ġcat\": 382/\"<think>\": 382/' "
    "-e 's,\"Ġcap\": 383,\"</think>\": 383,' -e '/\"added_tokens\": /a "
    "{\"id\":382,\"content\":\"<think>\",\"special\":false},{\"id\":383,\"content\":\"</"
    "think>\",\"special\":false},'; "
    "printf '    ]\\n  }\\n}\\n'; } >$t/tokenizer.json";

static void run_thinker(Run *run, const char *flags, const char *script) {
    char *command;
    assert_true(asprintf(&command, "%s && printf '%s' | $PALAVER $t --seed=1 --no-save --threads=1 %s",
                         MAKE_THINKER, script, flags) > 0);
    program_shell(run, command);
    free(command);
}

static void test_shown_in_scripts_unless_hidden(void **state) {
    (void)state;
    Run run;
    // The bias makes the model think and do nothing else; then the end of the thought; then whatever it likes.
    run_thinker(&run, "--max-tokens=2",
                "/think\\n/set logit_bias <think>=100\\nOne\\n/set logit_bias </think>=100\\n/continue\\n"
                "/think hide\\n/set logit_bias <think>=100\\nTwo\\n/view\\n");
    expect_status(&run, 0);
    expect_err(&run, "think show\n");
    expect_err(&run, "think hide\n");
    assert_string_equal(run.out,
                        "<think><think>\n</think></think>\n\n"); // hidden, but every turn has its line
    expect_err(&run, "[user] Two\n");
    expect_err(&run, "[assistant] <think><think>"); // hidden from the person only
    program_free(&run);
}

static void test_what_follows_a_hidden_thought_is_shown(void **state) {
    (void)state;
    Run run;
    run_thinker(
        &run, "--max-tokens=1 --ignore-eos",
        "/think hide\\n/set logit_bias <think>=100\\nOne\\n/set logit_bias </think>=100\\n/continue\\n"
        "/reset logit_bias\\n/set max_tokens 12\\n/continue\\n/replay\\n");
    expect_status(&run, 0);
    assert_null(strstr(run.out, "think>"));
    assert_true(run.out_size > 8);
    expect_err(&run, "<think></think>");
    program_free(&run);
}

// A template drops earlier replies' thoughts: the cache keeps what is before the first, and it is said why.
static void test_thoughts_that_leave_the_cache(void **state) {
    (void)state;
    Run run;
    run_thinker(&run, "--max-tokens=1 --template $HOME/brief.jinja",
                "/set logit_bias <think>=100\\nOne\\n/set logit_bias </think>=100\\n/continue\\n/view diff\\n"
                "/say user Two\\n/view diff\\n");
    expect_status(&run, 0);
    expect_err(&run, "; at 3 it holds \"<think>\" instead of ");
    expect_err(&run, ", as the template leaves thoughts out of earlier replies; the next turn reads:\n");
    assert_null(strstr(run.err, "as the conversation was changed"));
    program_free(&run);
}

// A model with other tokens takes over: replies are read again as text, what is a thought is found anew.
static void test_another_model_in_the_middle(void **state) {
    (void)state;
    Run run;
    char *command;
    assert_true(asprintf(&command,
                         "%s && printf 'One\n/think\n/model %%s\n/think\n/set logit_bias <think>=100\nTwo\n"
                         "/model %%s\n/tree\n' $t $b | $PALAVER $b --seed=1 --threads=1 --max-tokens=3",
                         MAKE_THINKER) > 0);
    program_shell(&run, command);
    free(command);
    expect_status(&run, 5); // the first model has no such token to be biased
    expect_err(&run, "think show; this model has no think tokens\n");
    expect_err(&run, "[this conversation was with ");
    expect_err(&run, "\nthink show\n");
    expect_err(&run, "a bias needs one");
    expect_out(&run, "<think><think><think>\n");
    program_free(&run);
    program_run(&run, "--resume|--max-tokens=3|--threads=1", "/tree\n/replay verify\n");
    expect_status(&run, 0);
    expect_err(&run, "  1.1  One -> ");
    expect_err(&run, "* 2.1  Two -> <think><think><think>");
    expect_err(&run, "[1 reply sampled again, 3 tokens"); // the first one was the other model's
    program_free(&run);
}

// The babbler with its last pieces made into those of gpt-oss, and a template of that kind, in HOME/harmony.
static void make_harmony(const char *home) {
    static const char *const pieces[] = {"<|start|>",   "<|end|>",    "<|message|>",
                                         "<|channel|>", "<|return|>", "analysis"};
    enum { N = 6, FIRST = 378 };
    static const char TEMPLATE[] =
        "{%- for m in messages -%}{%- if m.role == 'assistant' "
        "-%}<|start|>assistant<|channel|>final<|message|>"
        "{%- else -%}<|start|>{{- m.role -}}<|message|>{%- endif -%}{{- m.content -}}<|end|>{%- endfor -%}"
        "{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}";
    static const char *const files[] = {"config.json", "generation_config.json", "model.safetensors"};
    char folder[300], path[400];
    snprintf(folder, sizeof folder, "%s/harmony", home);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, BABBLER "/%s", files[i]);
        folder_copy(folder, files[i], path);
    }
    json_t *root = json_load_file(BABBLER "/tokenizer.json", 0, NULL),
           *model = json_object_get(root, "model");
    json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges"), *id;
    const char *piece;
    void *next;
    json_object_foreach_safe(vocab, next, piece, id) if (json_integer_value(id) >= FIRST)
        json_object_del(vocab, piece);
    for (int i = 0; i < N; i++) {
        json_array_remove(merges, json_array_size(merges) - 1);
        json_object_set_new(vocab, pieces[i], json_integer(FIRST + i));
        if (i < N - 1)
            json_array_append_new(
                json_object_get(root, "added_tokens"),
                json_pack("{s:i, s:s, s:b}", "id", FIRST + i, "content", pieces[i], "special", 1));
    }
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
    folder_write_text(folder, "chat_template.jinja", TEMPLATE);
}

#define SAYS(piece) "/set logit_bias " piece "=100\n"
#define GOES(piece) SAYS(piece) "/continue\n"
static const char THOUGHT[] =
    SAYS("<|channel|>") "One\n" GOES("analysis") GOES("<|message|>") GOES("h") GOES("<|end|>");
static const char ANSWER[] = GOES("<|start|>") GOES("a") GOES("<|channel|>") GOES("f") GOES("<|message|>")
    GOES("y") GOES("<|return|>");

// A reply in two channels, token by token: the thought is shown in tags, or hidden, and the next prompt lacks it.
static void test_channels(void **state) {
    Run run;
    char flags[300], script[2000];
    make_harmony(*state);
    snprintf(flags, sizeof flags, "%s/harmony|--seed=1|--threads=1|--no-save|--max-tokens=1", (char *)*state);
    snprintf(script, sizeof script, "/think\n%s%s/view\n" SAYS("<|return|>") "Two\n/view\n", THOUGHT, ANSWER);
    program_run(&run, flags, script);
    expect_status(&run, 0);
    expect_err(&run, "think show\n");
    expect_out(&run, "<think>\nh\n\n</think>\n\n"); // every turn ends its line
    expect_out(&run, "\ny\n");
    expect_err(&run, "[assistant] y\n"); // without the thought
    assert_null(strstr(run.err, "[assistant] <think>"));
    program_free(&run);
    snprintf(script, sizeof script, "/think hide\n%s%s/tree\n", THOUGHT, ANSWER);
    program_run(&run, flags, script);
    expect_status(&run, 0);
    expect_out(&run, "\ny\n");
    assert_null(strstr(run.out, "think"));
    assert_null(strstr(run.out, "h"));
    program_free(&run);
}

static void test_typed_tags_are_no_thoughts(void **state) {
    (void)state;
    Run run;
    program_run(&run, BABBLER "|--seed=1|--max-tokens=6|--threads=1|--no-save",
                "/think hide\n<think>One</think>\n/say assistant <think>no token\n/continue\n/think loud\n");
    expect_status(&run, 5);
    expect_err(&run, "think hide; this model has no think tokens");
    expect_err(&run, "expected show, dim or hide");
    assert_true(run.out_size > 8);
    program_free(&run);
}

static void test_dim_at_a_terminal(void **state) {
    Run run;
    char arguments[300];
    program_shell(&run, MAKE_THINKER);
    expect_status(&run, 0);
    program_free(&run);
    snprintf(arguments, sizeof arguments, "%s/thinker|--seed=1|--max-tokens=3|--threads=1|--no-save|--stats",
             (char *)*state);
    Pty *pty = prompt_start(arguments, &(const PtyOptions){.rows = 40, .cols = 100}); // in colour
    pty_expect(pty, "> ");
    prompt_say(pty, "/set logit_bias <think>=100", "(/set)");
    pty_send(pty, "One\r");
    pty_expect(pty, "\033[0;2m<think>");
    prompt_expect_turn(pty, "[turn 1: ");
    prompt_say(pty, "/think hide", "think hide\r\n");
    pty_send(pty, "Two\r");
    pty_expect(pty, "[thinking]");
    prompt_expect_turn(pty, "[turn 2: ");
    prompt_say(pty, "/think show", "think show\r\n");
    pty_send(pty, "Three\r");
    pty_expect(pty, "<think><think><think>");
    prompt_expect_turn(pty, "[turn 3: ");
    prompt_leave(pty);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_between_the_two),
        cmocka_unit_test(test_a_thought_that_has_begun),
        cmocka_unit_test(test_a_model_without_think_tokens),
        cmocka_unit_test(test_the_tail_of_a_reply),
        cmocka_unit_test(test_modes),
        WITH_HOME(test_shown_in_scripts_unless_hidden),
        WITH_HOME(test_what_follows_a_hidden_thought_is_shown),
        WITH_HOME(test_thoughts_that_leave_the_cache),
        WITH_HOME(test_another_model_in_the_middle),
        WITH_HOME(test_dim_at_a_terminal),
        WITH_HOME(test_channels),
        WITH_HOME(test_typed_tags_are_no_thoughts),
    };
    return test_main("thoughts", argc, argv, tests);
}
