#include "tests/support/terminal/prompt.h"

#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

Pty *prompt_start(const char *arguments, const PtyOptions *options) {
    static const char *const no_color[] = {"NO_COLOR=1", NULL};
    const PtyOptions usual = {.env = no_color, .rows = 180, .cols = 160};
    PtyOptions own = options ? *options : usual;
    char **argv = program_words(arguments);
    own.argv = (const char *const *)argv;
    Pty *pty = pty_start(&own);
    free(argv);
    return pty;
}

Pty *prompt_open(const char *arguments) {
    Pty *pty = prompt_start(arguments, NULL);
    pty_expect(pty, "> ");
    return pty;
}

char *prompt_make_editor(const char *home, const char *name, const char *script) {
    const size_t size = strlen(name) + strlen(home) + sizeof "=/editor";
    char *variable = malloc(size), *path = variable + strlen(name) + 1;
    snprintf(variable, size, "%s=%s/editor", name, home);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    assert_int_equal(chmod(path, 0700), 0);
    return variable;
}

// A prompt that came back may stand there: Ctrl-U takes it away.
void prompt_say(Pty *pty, const char *line, const char *answer) {
    if (*line == '/') pty_send(pty, "\025");
    pty_send(pty, line);
    pty_send(pty, "\r");
    pty_expect(pty, answer);
    pty_expect(pty, "> ");
}

void prompt_expect_turn(Pty *pty, const char *turn) {
    pty_expect(pty, turn);
    pty_expect(pty, "]");
    pty_expect(pty, "> ");
}

void prompt_ask(Pty *pty, const char *line, const char *turn) {
    if (*line == '/') pty_send(pty, "\025");
    pty_send(pty, line);
    pty_send(pty, "\r");
    prompt_expect_turn(pty, turn);
}

void prompt_await_reply(Pty *pty) {
    pty_expect(pty, "\n");
    pty_expect(pty, " ");
}

void prompt_leave(Pty *pty) {
    pty_send(pty, "\025\004");
    pty_expect_exit(pty, 0);
    assert_true(pty_is_cooked(pty));
    pty_end(pty);
}
