#include "app/tools/tokenize.h"

#include "app/process/signals.h"
#include "app/terminal/encoding.h"
#include "app/terminal/text_shown.h"
#include "app/terminal/token_shown.h"
#include "engine/files/tokenizer_source.h"
#include "kernels/base/file.h"

#include <stdlib.h>
#include <string.h>

// One line a token: id, kind, text. The text is encoded as a person's is: no control
// tokens.
static Status print_pieces(const char *path, const char *text, size_t size, FILE *out, Error *error) {
    static const char *const kinds[] = {"normal", "byte", "control", "user", "unknown", "unused"};
    Checkpoint *checkpoint = NULL;
    Tokenizer *tokenizer = NULL;
    Tokens tokens = {0};
    Status status = checkpoint_open(path, &checkpoint, error);
    if (!status) status = tokenizer_open_for(checkpoint, &tokenizer, error);
    if (!status) tokenizer_set_interrupt(tokenizer, signals_interrupt());
    if (!status) status = tokenizer_encode(tokenizer, text, size, false, &tokens, error);
    for (int64_t i = 0; i < tokens.n && !status; i++) {
        fprintf(out, "%d\t%s\t", tokens.ids[i], kinds[tokenizer_kind(tokenizer, tokens.ids[i])]);
        token_print(out, tokenizer, i ? tokens.ids[i - 1] : -1, tokens.ids[i]);
        fputc('\n', out);
        if (*signals_interrupt()) status = error_set(error, STATUS_INTERRUPTED, "interrupted");
    }
    tokens_free(&tokens);
    tokenizer_close(tokenizer);
    checkpoint_close(checkpoint);
    return status;
}

int tokenize_main(Program *program) {
    Error error;
    if (program_find_model(program, NULL, &error)) return program_fail(program, &error, EXIT_MODEL);
    const char *text = program->options.argument;
    char *piped = NULL;
    size_t size = text ? strlen(text) : 0;
    int wrong = text ? EXIT_USAGE : EXIT_RUNTIME;
    if (!text && screen_traits(program->screen)->input_terminal)
        screen_notice(program->screen,
                      "[the text is read from the terminal; Ctrl-D in an empty line ends it]");
    if (!text && file_read_stream(stdin, "stdin", PROGRAM_TEXT_LIMIT, &piped, &size, &error))
        return program_fail(program, &error, wrong);
    Status status = text ? text_check("the text", text, size, &error)
                         : encoding_take("stdin", program->settings.ui.encoding, &piped, &size, &error);
    if (!text) text = piped;
    bool readable = status == STATUS_OK;
    if (readable) status = print_pieces(program->model, text, size, stdout, &error);
    free(piped);
    return readable ? program_finish(program, status, &error) : program_fail(program, &error, wrong);
}
