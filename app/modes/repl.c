// The prompt. A turn reads like the way of the data: a line is edited, asked, answered, kept.
#include "app/chat/look/report.h"
#include "app/commands/commands.h"
#include "app/modes/modes.h"
#include "app/process/signals.h"
#include "app/terminal/editor/editor.h"
#include "app/terminal/text_shown.h"
#include "app/terminal/tty.h"
#include "kernels/base/path.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PROMPT_ROOM = 256 };
#define LATE 0.5 // seconds: a Ctrl-C so soon behind a reply was meant for it

typedef struct Repl {
    Chat *chat;
    Editor *editor;
    char prompt[PROMPT_ROOM];
} Repl;

static const char *prompt_text(void *context) {
    Repl *repl = context;
    const Screen *screen = chat_screen(repl->chat);
    char gauge[PROMPT_ROOM / 2] = "";
    if (chat_settings(repl->chat)->ui.gauge)
        screen_gauge(screen, chat_share(repl->chat), gauge, sizeof gauge);
    snprintf(repl->prompt, sizeof repl->prompt, "%s%s> %s", gauge, screen_style(screen, SCREEN_PROMPT),
             screen_style(screen, SCREEN_NORMAL));
    return repl->prompt;
}

static void complete(void *context, const char *text, size_t cursor, Completion *completion) {
    commands_complete(((Repl *)context)->chat, text, cursor, completion);
}

static void tell(void *context, const char *text) {
    screen_notice(chat_screen(((Repl *)context)->chat), "%s", text);
}

static bool must_leave(void *context) {
    (void)context;
    return signals_leave() != 0;
}

static Status open_editor(Repl *repl, Error *error) {
    char history[PATH_ROOM];
    Error no_history = {0};
    Chat *chat = repl->chat;
    bool keep = chat_settings(chat)->ui.history && !path_state("history", history, &no_history);
    EditorOptions options = {.context = repl,
                             .prompt = prompt_text,
                             .complete = complete,
                             .tell = tell,
                             .stop = must_leave,
                             .history = keep ? history : NULL,
                             .plain = chat_options(chat)->plain,
                             .hush = true,
                             .late = LATE};
    tty_watch_interrupt(signals_interrupt());
    Status status = editor_open(&options, &repl->editor, error);
    if (!status && error->status) screen_notice(chat_screen(chat), "[no history: %s]", error->message);
    return status;
}

// What went wrong with a turn; the chat goes on, unless the backend is lost.
static void tell_failure(Repl *repl, const char *turn, const Error *error) {
    Chat *chat = repl->chat;
    if (error->status == STATUS_INTERRUPTED) {
        screen_notice(chat_screen(chat), commands_is_command(turn)
                                             ? "[stopped: everything is as it was]"
                                             : "[stopped before the reply: the turn is taken back]");
        return;
    }
    screen_error(chat_screen(chat), "%s", error->message);
    if (error->status == STATUS_FATAL) chat_leave(chat);
    // A prompt that is refused comes back to be mended. A command that failed is a key (up) away: what is typed next is not
    // put behind it, where it might become a prompt.
    if (error->status == STATUS_CONTEXT && !commands_is_command(turn)) editor_prefill(repl->editor, turn);
}

// Words that mean something to most programs with a prompt. The model gets them all the same: they are also English.
static void tell_of_command(Chat *chat, const char *turn) {
    static const struct {
        const char *word, *what;
    } commands[] = {{"exit", "/exit leaves"}, {"quit", "/quit leaves"}, {"help", "/help lists the commands"}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcasecmp(turn, commands[i].word))
            screen_notice(chat_screen(chat), "[this goes to the model; %s]", commands[i].what);
}

static Status take_turn(Repl *repl, const char *turn) {
    Error error = {0};
    Status status;
    signals_clear_interrupt(); // what stopped the turn before does not stop this one
    screen_prompted(chat_screen(repl->chat));
    screen_space(chat_screen(repl->chat));
    tell_of_command(repl->chat, turn);
    if (commands_is_command(turn))
        status = commands_run(repl->chat, turn, &error);
    else
        status = chat_turn_ask(repl->chat, commands_literal(turn), &error);
    error.status = status;
    if (!commands_is_command(turn)) editor_answered(repl->editor);
    if (status) tell_failure(repl, turn, &error);
    if (!chat_is_leaving(repl->chat)) screen_space(chat_screen(repl->chat));
    // Who stops a turn, or sees it refused, has typed what follows without knowing of that.
    if (*signals_interrupt() || status == STATUS_CONTEXT) editor_hold(repl->editor);
    return status;
}

// A resumed conversation shows where it stopped.
static void show_last_turn(Chat *chat) {
    const Tree *tree = chat_tree(chat);
    int depth = tree_depth(tree);
    if (!depth) return;
    char name[TREE_NAME_ROOM];
    tree_name(tree, tree->head, name);
    if (tree->n > depth)
        screen_notice(chat_screen(chat), "[at %s of %d turns and attempts; /tree]", name, tree->n);
    screen_notice(chat_screen(chat), "[%d turn%s so far; the last:]", depth, text_plural(depth));
    report_last_turn(chat);
}

// A question whose answer the end of the program has prevented is on the line again.
static void offer_question(Repl *repl) {
    const char *asked = transcript_asked(chat_transcript(repl->chat));
    if (!asked) return;
    screen_notice(chat_screen(repl->chat),
                  "[the last question was not answered: Enter asks it, Ctrl-U takes it away]");
    editor_prefill(repl->editor, asked);
}

static int loop(Repl *repl) {
    Chat *chat = repl->chat;
    while (!chat_is_leaving(chat)) {
        char *turn;
        Error error = {0};
        switch (editor_read(repl->editor, &turn, &error)) {
        case EDITOR_TURN:
            break;
        case EDITOR_END:
            return EXIT_WELL;
        case EDITOR_QUIT:
            return EXIT_INTERRUPTED;
        case EDITOR_STOPPED:
            return EXIT_SIGNAL + signals_leave();
        case EDITOR_FAILED:
            screen_error(chat_screen(chat), "%s", error.message);
            return EXIT_RUNTIME;
        }
        Status status = take_turn(repl, turn);
        free(turn);
        if (signals_leave()) return EXIT_SIGNAL + signals_leave();
        if (chat_output(chat) || status == STATUS_FATAL) return EXIT_RUNTIME;
    }
    return EXIT_WELL;
}

int repl_run(Chat *chat) {
    Repl repl = {.chat = chat};
    Error error = {0};
    report_banner(chat);
    show_last_turn(chat);
    if (open_editor(&repl, &error)) {
        screen_error(chat_screen(chat), "%s", error.message);
        return EXIT_RUNTIME;
    }
    offer_question(&repl);
    screen_space(chat_screen(chat));
    int result = loop(&repl);
    editor_close(repl.editor);
    chat_record_sync(chat);
    return result;
}
