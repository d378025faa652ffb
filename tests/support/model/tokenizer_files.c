#include "tests/support/model/tokenizer_files.h"

#include "tests/support/files.h"
#include "tests/support/model/tokenizer_golden.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

Tokenizer *tokenizer_files_open(const char *folder) {
    Tokenizer *tokenizer;
    Error error = {0};
    if (tokenizer_open_folder(folder, &tokenizer, &error)) fail_msg("%s", error.message);
    return tokenizer;
}

void tokenizer_files_refused(const char *folder, Status status, const char *why) {
    Tokenizer *tokenizer = (Tokenizer *)"";
    Error error = {0};
    assert_int_equal(tokenizer_open_folder(folder, &tokenizer, &error), status);
    assert_null(tokenizer);
    assert_int_equal(error.status, status);
    if (!strstr(error.message, why)) fail_msg("'%s' does not say '%s'", error.message, why);
}

void tokenizer_files_cut(const char *name, const char *file, bool may_open) {
    char path[256];
    snprintf(path, sizeof path, GOLDEN_TOKENIZERS "/%s/%s", name, file);
    Bytes bytes = bytes_of_file(path);
    char *folder = folder_new();
    for (size_t i = 0; i < 200; i++) {
        Tokenizer *tokenizer;
        Error error = {0};
        folder_write(folder, file, bytes.data, bytes.size * i / 200);
        Status status = tokenizer_open_folder(folder, &tokenizer, &error);
        if (!may_open) assert_int_not_equal(status, STATUS_OK);
        if (status) assert_non_null(strstr(error.message, file));
        tokenizer_close(tokenizer);
    }
    folder_remove(folder);
    bytes_free(&bytes);
}
