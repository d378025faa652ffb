#include "tests/terminal_child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "app/editor.h"
#include "app/screen.h"

static volatile sig_atomic_t stopped;
static void on_stop(int number) {
    (void)number;
    stopped = 1;
}
static bool is_stopped(void *context) {
    (void)context;
    return stopped;
}

static const char *prompt(void *context) {
    return context;
}

static void complete(void *context, const char *text, size_t cursor, EditorCompletion *completion) {
    static const char *const words[] = {"/clear", "/config", "/continue", "/context",
                                        "/help",  "/größe",  "/größer"};
    (void)context;
    if (!cursor || text[0] != '/') return;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncmp(words[i], text, cursor)) editor_candidate(completion, 0, words[i], ' ');
}

static void show_turn(const char *turn) {
    fputs("got[", stderr);
    for (; *turn; turn++) {
        if (*turn == '\n')
            fputs("\\n", stderr);
        else
            fputc(*turn, stderr);
    }
    fputs("]\n", stderr);
}

static const char *terminal_mode(void) {
    struct termios mode;
    if (tcgetattr(STDIN_FILENO, &mode) != 0) return "no terminal";
    return (mode.c_lflag & ICANON) && (mode.c_lflag & ECHO) && (mode.c_lflag & ISIG) ? "cooked" : "raw";
}

static int edit(int argc, char **argv) {
    EditorOptions options = {.prompt = prompt, .complete = complete, .stop = is_stopped, .context = "> "};
    bool defaults = false;
    const char *prefill = NULL;
    for (int i = 0; i < argc; i++) {
        if (!strcmp(argv[i], "--history"))
            options.history = argv[++i];
        else if (!strcmp(argv[i], "--plain"))
            options.plain = true;
        else if (!strcmp(argv[i], "--prompt"))
            options.context = argv[++i];
        else if (!strcmp(argv[i], "--prefill"))
            prefill = argv[++i];
        else if (!strcmp(argv[i], "--default-signals"))
            defaults = true;
    }
    if (!defaults) signal(SIGTERM, on_stop), signal(SIGHUP, on_stop);
    Editor *editor;
    Error error;
    if (editor_open(&options, &editor, &error) != STATUS_OK) return 1;
    if (error.status != STATUS_OK) fprintf(stderr, "note: %s\n", error.message);
    editor_prefill(editor, prefill);
    EditorResult result;
    char *turn;
    while ((result = editor_read(editor, &turn, &error)) == EDITOR_TURN) {
        show_turn(turn);
        free(turn);
    }
    const char *const names[] = {"turn", "end", "quit", "stopped", "failed"};
    fprintf(stderr, "%s, %s\n", names[result], terminal_mode());
    editor_close(editor);
    const int statuses[] = {1, 0, 130, 7, 1};
    return statuses[result];
}

int terminal_child(int argc, char **argv) {
    Screen *screen;
    Error error;
    if (screen_open(&(ScreenOptions){0}, &screen, &error) != STATUS_OK) return 1;
    int status = 1;
    if (argc && !strcmp(argv[0], "edit")) status = edit(argc - 1, argv + 1);
    screen_close(screen);
    return status;
}
