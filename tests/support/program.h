// The program itself, run as a person or a shell runs it: arguments, stdin, and what comes out.
#ifndef PALAVER_TESTS_PROGRAM_H
#define PALAVER_TESTS_PROGRAM_H

#include <stddef.h>

// A model with random weights that babbles, always the same for the same seed.
#define BABBLER "tests/golden/babbler"

typedef struct Run {
    char *out, *err; // NUL-terminated
    size_t out_size, err_size;
    int status; // exit status, or 128 + the signal that ended it
} Run;

// A fresh home of its own for configuration, state and data, as cmocka set-up and tear-down; *state is its
// path.
int program_set_up(void **state);
int program_tear_down(void **state);

const char *program_path(void); // $PALAVER (default build/san/palaver)
// The program and its arguments, words separated by '|', as an argv to free().
char **program_words(const char *arguments);

// Runs the program with `arguments` and `input` as stdin. `run` is released with program_free().
void program_run(Run *run, const char *arguments, const char *input);
void program_run_bytes(Run *run, const char *arguments, const char *input, size_t size);
// A script that has to go well.
Run program_script(const char *arguments, const char *input);
// A script that ends with `status` and says `part` on stderr.
void program_says(const char *arguments, const char *input, int status, const char *part);
// A script that ends with 5, says `part` on stderr and nothing on stdout.
void program_refuses(const char *arguments, const char *input, const char *part);
// As program_run(), but sends `signal` once stdout has `after` bytes; stdin stays open until then.
void program_run_signal(Run *run, const char *arguments, const char *input, int signal, size_t after);
// A command of the shell, in which $PALAVER is the program.
void program_shell(Run *run, const char *command);
void program_free(Run *run);

// Fails the test, showing all of the run, unless status, or a part of stderr or stdout, is as expected.
void expect_status(const Run *run, int status);
void expect_err(const Run *run, const char *part);
void expect_out(const Run *run, const char *part);
void expect_no_err(const Run *run, const char *part);

// How often `part` stands in the text.
int program_count(const char *text, const char *part);

#endif
