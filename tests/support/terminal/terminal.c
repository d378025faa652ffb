#include "tests/support/terminal/terminal.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "app/terminal/editor/completion.h"
#include "app/terminal/editor/editor.h"
#include "app/terminal/screen/screen.h"
#include "app/terminal/text_shown.h"
#include "tests/support/test.h"

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

static void complete(void *context, const char *text, size_t cursor, Completion *completion) {
    static const char *const words[] = {"/clear",        "/config",  "/continue", "/context",
                                        "/help",         "/größe",   "/größer",   "/torn\nname",
                                        "/torn\tby tab", "/nth10.1", "/nth2.1"};
    (void)context;
    if (!cursor || text[0] != '/') return;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncmp(words[i], text, cursor)) completion_add(completion, 0, words[i], ' ');
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

static void wait_for_sigusr1(void) {
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fputs("ready\n", stderr);
    sigwait(&set, &number);
}

// Outside the editor keys are bytes, too: tests that type without looking lose none.
static void make_raw(void) {
    struct termios mode;
    if (tcgetattr(STDIN_FILENO, &mode) != 0) return;
    mode.c_iflag &= ~(tcflag_t)(ICRNL | IXON);
    mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &mode);
}

static int edit(int argc, char **argv) {
    EditorOptions options = {.prompt = prompt, .complete = complete, .stop = is_stopped, .context = "> "};
    bool defaults = false, late = false;
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
        else if (!strcmp(argv[i], "--raw"))
            make_raw();
        else if (!strcmp(argv[i], "--late"))
            late = true;
        else if (!strcmp(argv[i], "--answered"))
            options.late = 3600;
    }
    if (!defaults) signal(SIGTERM, on_stop), signal(SIGHUP, on_stop);
    if (late) wait_for_sigusr1();
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
        editor_answered(editor);
    }
    const char *const names[] = {"turn", "end", "quit", "stopped", "failed"};
    fprintf(stderr, "%s, %s\n", names[result], terminal_mode());
    editor_close(editor);
    const int statuses[] = {1, 0, 130, 7, 1};
    return statuses[result];
}

// ---- the screen -----------------------------------------------------------------------------------------

// Makes \e, \n, \r, \xNN and \uNNNN what they stand for, in place.
static void unescape(char *text) {
    char *to = text;
    while (*text) {
        if (text[0] != '\\' || !text[1]) {
            *to++ = *text++;
            continue;
        }
        char kind = text[1], digits[5] = {0};
        text += 2;
        if (kind == 'x') {
            memcpy(digits, text, 2);
            text += 2;
            *to++ = (char)strtoul(digits, NULL, 16);
        } else if (kind == 'u') {
            memcpy(digits, text, 4);
            text += 4;
            to += text_encode((uint32_t)strtoul(digits, NULL, 16), to);
        } else {
            *to++ = kind == 'e' ? '\033' : kind == 'n' ? '\n' : kind == 'r' ? '\r' : kind;
        }
    }
    *to = 0;
}

static int reply(Screen *screen, int argc, char **argv) {
    Error error;
    for (int i = 0; i < argc; i++) {
        unescape(argv[i]);
        if (screen_reply(screen, SCREEN_NORMAL, argv[i], strlen(argv[i]), &error) != STATUS_OK) {
            screen_error(screen, "%s", error.message);
            return 1;
        }
    }
    return screen_reply_end(screen, &error) == STATUS_OK ? 0 : 1;
}

static int notices(Screen *screen) {
    Error error;
    char gauge[40];
    screen_say(screen, "banner %d", 1);
    screen_reply(screen, SCREEN_NORMAL, "a reply", 7, &error);
    screen_notice(screen, "a notice");
    screen_reply(screen, SCREEN_NORMAL, " goes on", 8, &error);
    screen_reply_end(screen, &error);
    screen_error(screen, "bad \033[31mname\nof two lines\n");
    screen_warn(screen, "careful");
    const double shares[] = {0.2, 0.499, 0.5, 0.625, 0.8, 1.7, NAN};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        screen_gauge(screen, shares[i], gauge, sizeof gauge);
        fprintf(stderr, "<%s>", gauge);
    }
    fputs("\n", stderr);
    return 0;
}

// Each text is a notice, behind a "!" an error; "-" is an empty line.
static int said(Screen *screen, int argc, char **argv) {
    for (int i = 0; i < argc; i++) {
        unescape(argv[i]);
        if (!strcmp(argv[i], "-"))
            screen_space(screen);
        else if (*argv[i] == '!')
            screen_error(screen, "%s", argv[i] + 1);
        else
            screen_say(screen, "%s", argv[i]);
    }
    return 0;
}

// A load of 100 MB in 400 steps, as fast as it goes, then slowly enough for a drawing.
static int progress(Screen *screen) {
    for (uint64_t i = 0; i <= 400; i++) screen_progress(screen, "loading model.gguf", i * 250000, 100000000);
    for (int i = 0; i < 8; i++) {
        usleep(40000);
        screen_progress(screen, "loading model.gguf", 50000000, 100000000);
    }
    screen_say(screen, "in between");
    screen_progress(screen, "loading model.gguf", 100000000, 100000000);
    screen_progress_end(screen);
    screen_say(screen, "loaded");
    return 0;
}

int terminal_child(int argc, char **argv) {
    Screen *screen;
    Error error;
    ScreenOptions options = {0};
    for (; argc && !strncmp(argv[0], "--", 2); argc--, argv++) {
        options.plain |= !strcmp(argv[0], "--plain");
        options.quiet |= !strcmp(argv[0], "--quiet");
        options.wrap |= !strcmp(argv[0], "--wrap") || !strcmp(argv[0], "--markdown");
        options.markdown |= !strcmp(argv[0], "--markdown");
        options.space |= !strcmp(argv[0], "--space");
        if (!strcmp(argv[0], "--color=always")) options.color = SCREEN_COLOR_ALWAYS;
        if (!strcmp(argv[0], "--color=never")) options.color = SCREEN_COLOR_NEVER;
    }
    if (!argc || screen_open(&options, &screen, &error) != STATUS_OK) return 1;
    signal(SIGPIPE, SIG_IGN);
    int status = 1;
    if (!strcmp(argv[0], "edit")) status = edit(argc - 1, argv + 1);
    if (!strcmp(argv[0], "reply")) status = reply(screen, argc - 1, argv + 1);
    if (!strcmp(argv[0], "notices")) status = notices(screen);
    if (!strcmp(argv[0], "progress")) status = progress(screen);
    if (!strcmp(argv[0], "said")) status = said(screen, argc - 1, argv + 1);
    if (!strcmp(argv[0], "width")) status = screen_width(screen) % 256;
    screen_close(screen);
    return status;
}

// ---- starting it ----------------------------------------------------------------------------------------

static struct {
    char program[4096];
    char folder[64];
} run_state;

const char *terminal_program(void) {
    return run_state.program;
}
const char *terminal_folder(void) {
    return run_state.folder;
}

int terminal_main(int argc, char **argv, int (*run)(int argc, char **argv)) {
    if (argc > 1 && !strcmp(argv[1], "--child")) return terminal_child(argc - 2, argv + 2);
    // The name it was started by, not /proc/self/exe: under an emulator that is a program nobody else can execute.
    if (!realpath(argv[0], run_state.program)) {
        perror(argv[0]);
        return 1;
    }
    strcpy(run_state.folder, "/tmp/palaver-test-XXXXXX");
    if (!mkdtemp(run_state.folder)) return 1;
    int status = run(argc, argv);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", run_state.folder);
    return system(command) == 0 ? status : 1;
}

static Pty *start(const PtyOptions *options, const char *first, va_list rest) {
    const char *argv[32] = {run_state.program, "--child", first};
    for (int i = 3; i < 31 && (argv[i] = va_arg(rest, const char *)) != NULL; i++) continue;
    PtyOptions with = *options;
    with.argv = argv;
    return pty_start(&with);
}

Pty *terminal_start_with(const PtyOptions *options, const char *first, ...) {
    va_list rest;
    va_start(rest, first);
    Pty *pty = start(options, first, rest);
    va_end(rest);
    return pty;
}

Pty *terminal_start(const char *first, ...) {
    va_list rest;
    va_start(rest, first);
    Pty *pty = start(&(const PtyOptions){0}, first, rest);
    va_end(rest);
    return pty;
}

Pty *start_editor_in(int rows, int cols) {
    Pty *pty = terminal_start_with(&(const PtyOptions){.rows = rows, .cols = cols}, "edit", NULL);
    pty_expect(pty, "> ");
    return pty;
}

Pty *start_editor(void) {
    return start_editor_in(24, 80);
}

void expect_turn(Pty *pty, const char *keys, const char *turn) {
    char line[600];
    snprintf(line, sizeof line, "got[%s]\r\n", turn);
    pty_send(pty, keys);
    pty_expect(pty, line);
    pty_expect(pty, "> ");
}

void leave(Pty *pty) {
    pty_send(pty, "\004");
    pty_expect(pty, "end, cooked");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}
