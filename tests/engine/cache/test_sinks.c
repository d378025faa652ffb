// What stays when turns leave a chat that has no system prompt: the first tokens of the window, on which attention
// rests (Xiao et al., arXiv:2309.17453), for every template and policy that shifts.
#include "tokenizer/chat/chat_template_internal.h"
#include "tests/support/model/parley.h"
#include "tests/support/talk/talk.h"
#include "tests/support/test.h"
#include "engine/engine_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONTEXT = 192,
    LARGE_CONTEXT = 512,
    PIECE = 64, // bytes of a turn
    OVERFLOWS = 3,
};

static const OverflowPolicy SHIFTS[] = {OVERFLOW_SHIFT, OVERFLOW_SHIFT_INPLACE};

static const char STORY[] =
    "Every morning the old baker opened his shop before the sun came up. He lit the oven, washed his hands, "
    "and "
    "began to knead the dough that had rested over night. A good bread needs time, he liked to say, and so "
    "does a "
    "good friend. By seven the street smelled of warm rolls, and the first children stopped at the door on "
    "their "
    "way to school. He gave them the small ones that had not turned out well, and they thanked him with "
    "their "
    "mouths full. One day in autumn a girl came in who had never been there before. She had no money, but "
    "she "
    "carried a book under her arm. May I read to you, she asked, while you work, and have a roll for it? The "
    "baker "
    "laughed, for nobody had ever offered him such a trade. So she sat down on a sack of flour and read to "
    "him about "
    "ships and islands, about storms, and about a captain who had lost his way. She came back the next day "
    "and the "
    "day after. The bread was never better than in that winter, people said, though the baker had changed "
    "nothing. "
    "When spring came the book was at its end, and both of them were a little sad. Then the girl opened her "
    "bag and "
    "took out another one. This one is about the sun and the planets, she said. It is longer. The baker put "
    "the "
    "largest roll of the morning in front of her, sat down, and listened. Outside the rain had stopped, and "
    "the "
    "light on the wet stones was as yellow as butter. There is a lot to learn about the planets, and most of "
    "it "
    "takes longer than one summer. They had not yet come to Saturn when the leaves began to fall again.";

// The story is told to parley, what does not matter to the babbler.
static Talk *begin(const char *chat_template, OverflowPolicy policy, int64_t keep, bool story) {
    CacheOptions cache = cache_options(DTYPE_F32);
    Talk *t = story ? talk_open_model(PARLEY, chat_template, CONTEXT, &cache)
                    : talk_open_model("tests/golden/babbler", chat_template, LARGE_CONTEXT, &cache);
    ConversationSettings *settings = conversation_settings(t->c);
    settings->max_tokens = 1;
    settings->overflow.policy = policy;
    settings->overflow.keep = keep;
    return t;
}

// ---- what is left is the template, and its beginning stayed ---------------------------------------------------------

static void check_template(Talk *t) {
    const Session *session = conversation_session(t->c);
    int shifts = 0;
    for (int turn = 0; turn < 200 && t->n_overflows < OVERFLOWS; turn++) {
        const int before = t->n_overflows;
        char text[16];
        snprintf(text, sizeof text, "%d?", turn); // no two begin alike
        talk_say(t, text);
        talk_check_log(t);
        if (t->n_overflows == before) continue;
        assert_int_equal(t->last.n_evaluated, 0);
        shifts += session_sinks(session) >= 1;
    }
    assert_int_equal(t->n_overflows, OVERFLOWS);
    assert_int_equal(shifts, OVERFLOWS);
    talk_close(t);
}

static void every_template_keeps_its_beginning(void **state) {
    (void)state;
    int n;
    const ChatBuiltin *builtins = chat_builtins(&n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            print_message("%s, %s\n", builtins[i].name, overflow_policy_name(SHIFTS[k]));
            check_template(begin(builtins[i].name, SHIFTS[k], OVERFLOW_KEEP_SYSTEM, false));
        }
}

// A model's own text, executed: where a message's text begins is known by its origin.
static void so_does_a_text_that_is_executed(void **state) {
    (void)state;
    Error error;
    for (int k = 0; k < 2; k++) {
        Talk *t = begin("chatml", SHIFTS[k], OVERFLOW_KEEP_SYSTEM, false);
        ConversationSettings settings = *conversation_settings(t->c);
        conversation_close(t->c);
        chat_template_close(t->chat_template);
        if (chat_template_open_jinja(
                "{% for m in messages %}[{{ m.role }} {{ loop.index0 }}] {{ m.content | trim }}\n"
                "{% endfor %}{% if add_generation_prompt %}[assistant {{ messages | length }}] {% endif %}",
                engine_tokenizer(t->engine), &t->chat_template, &error) ||
            conversation_open(t->engine, t->chat_template, &settings, &t->c, &error))
            fail_msg("%s", error.message);
        for (int turn = 0; turn < 200 && t->n_overflows < OVERFLOWS; turn++) {
            int before = t->n_overflows;
            talk_say(t, "And then?");
            talk_check_log(t);
            if (t->n_overflows > before) assert_int_not_equal(session_sinks(conversation_session(t->c)), 0);
        }
        assert_int_equal(t->n_overflows, OVERFLOWS);
        talk_close(t);
    }
}

// Where the old beginning and the new one have nothing in common, nothing could stay that is part of the new one: then
// what is left is read again rather than seen without a beginning. Alpaca's without a system prompt of its own, and
// without BOS: an assistant's message came first.
static void without_a_common_beginning_the_rest_is_read_again(void **state) {
    (void)state;
    static const char template[] = "bos = false\nend = [\"{eos}\"]\n[system]\n[user]\nbefore = \"Question\"\n"
                                   "[assistant]\nbefore = \"Answer\"\nafter = \"{eos}\"\n";
    char path[] = "/tmp/palaver-template-XXXXXX.toml";
    FILE *file = fdopen(mkstemps(path, 5), "w");
    fputs(template, file);
    fclose(file);
    Talk *t = begin(path, OVERFLOW_SHIFT, OVERFLOW_KEEP_SYSTEM, false);
    remove(path);
    talk_append(t->c, CHAT_ASSISTANT, "I speak first.");
    for (int turn = 0; turn < 200 && !t->n_overflows; turn++) talk_say(t, "And then?");
    assert_true(t->n_overflows > 0);
    assert_true(t->last.n_evaluated > 0);
    assert_int_equal(session_sinks(conversation_session(t->c)), -1);
    talk_check_log(t);
    talk_close(t);
}

// ---- what it is worth -----------------------------------------------------------------------------------------------

// The sum of -log p over the tokens of the last question, each read behind what stays; *n counts them.
static double loss_of_question(Talk *t, int64_t *n) {
    Error error = {0};
    ConversationView view;
    if (conversation_view(t->c, false, &view, &error)) fail_msg("%s", error.message);
    const ChatSpan *span = &view.spans[view.n_spans - 2];
    const int64_t from = span->text_begin - 1, end = span->text_end;
    const int vocab = engine_model(t->engine)->shape.vocab_size;
    float *logits = malloc((size_t)(end - from) * (size_t)vocab * sizeof *logits);
    if (session_logits_of(conversation_session(t->c), view.tokens.ids, end, from, logits, &error))
        fail_msg("%s", error.message);
    double loss = 0;
    for (int64_t i = from; i + 1 < end; i++) {
        const float *row = logits + (i - from) * vocab;
        double sum = exp((double)row[0]);
        for (int k = 1; k < vocab; k++) sum += exp((double)row[k]);
        loss += log(sum) - (double)row[view.tokens.ids[i + 1]];
    }
    *n += end - 1 - from;
    free(logits);
    conversation_view_free(&view);
    return loss;
}

// The mean loss over the pieces of the story that were told after something had left.
static double loss_of_story(const char *chat_template, OverflowPolicy policy, int64_t keep) {
    Talk *t = begin(chat_template, policy, keep, true);
    double loss = 0;
    int64_t n = 0;
    for (size_t at = 0; at + PIECE < sizeof STORY && t->n_overflows < OVERFLOWS; at += PIECE) {
        char piece[PIECE + 1] = "";
        memcpy(piece, STORY + at, PIECE);
        talk_say(t, piece);
        if (t->n_overflows) loss += loss_of_question(t, &n);
    }
    assert_int_equal(t->n_overflows, OVERFLOWS);
    print_message("%-8s %-13s keep %2lld: %.3f nats over %lld tokens, %lld kept\n", chat_template,
                  overflow_policy_name(policy), (long long)keep, loss / (double)n, (long long)n,
                  (long long)session_sinks(conversation_session(t->c)));
    talk_close(t);
    return loss / (double)n;
}

// What the loss becomes by a shift, and, as a negative control, where nothing stays.
static void check_loss(const char *chat_template, int n_policies, bool control) {
    double again = loss_of_story(chat_template, OVERFLOW_REEVALUATE, OVERFLOW_KEEP_SYSTEM);
    for (int k = 0; k < n_policies; k++)
        assert_true(loss_of_story(chat_template, SHIFTS[k], OVERFLOW_KEEP_SYSTEM) < again + 0.1);
    if (control) assert_true(loss_of_story(chat_template, OVERFLOW_SHIFT, 0) > again + 0.2);
}

// The same for every template there is, in minutes: SINKS=all. Which control is worse goes by the model, which knows
// only ChatML's tokens.
static void nor_does_any_template(void **state) {
    (void)state;
    const char *all = getenv("SINKS");
    int n = 0;
    const ChatBuiltin *builtins = chat_builtins(&n);
    for (int i = 0; all && !strcmp(all, "all") && i < n; i++) {
        check_loss(builtins[i].name, 2, false);
        loss_of_story(builtins[i].name, OVERFLOW_SHIFT, 0);
    }
}

static void a_chat_loses_nothing_by_a_shift(void **state) {
    (void)state;
    check_loss("chatml", 2, true);
}
static void nor_with_a_beginning_of_many_tokens(void **state) {
    (void)state;
    check_loss("phi-3", 1, true); // the model has no such control tokens: they are spelled
}
static void nor_with_a_beginning_that_it_does_not_rest_on(void **state) {
    (void)state;
    check_loss("llama-2", 1, false);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_template_keeps_its_beginning),
        cmocka_unit_test(so_does_a_text_that_is_executed),
        cmocka_unit_test(without_a_common_beginning_the_rest_is_read_again),
        cmocka_unit_test(a_chat_loses_nothing_by_a_shift),
        cmocka_unit_test(nor_with_a_beginning_of_many_tokens),
        cmocka_unit_test(nor_with_a_beginning_that_it_does_not_rest_on),
        cmocka_unit_test(nor_does_any_template),
    };
    return test_main("sinks", argc, argv, tests);
}
