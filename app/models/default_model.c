#include "app/models/default_model.h"

#include "config/config.h"
#include "kernels/base/file.h"
#include "kernels/base/path.h"
#include "kernels/base/text/quote.h"
#include "kernels/base/text/text.h"
#include "kernels/base/text/utf8.h"

#include <stdio.h>
#include <string.h>

// As a basic string of TOML.
static bool add_quoted(Text *text, const char *name) {
    bool ok = text_add(text, "\"", 1);
    for (const char *p = name; *p && ok; p++) {
        char code[8];
        unsigned char byte = (unsigned char)*p;
        int n = byte < 0x20 || byte == 0x7f   ? snprintf(code, sizeof code, "\\u%04x", byte)
                : byte == '"' || byte == '\\' ? snprintf(code, sizeof code, "\\%c", byte)
                                              : snprintf(code, sizeof code, "%c", byte);
        ok = text_add(text, code, (size_t)n);
    }
    return ok && text_add(text, "\"\n", 2);
}

Status default_model_keep(const char *name, char *path, Error *error) {
    static const char head[] =
        "# Written by palaver use; palaver.toml beside it counts more.\n[model]\npath = ";
    Text text = {0};
    if (utf8_valid_run(name, strlen(name)) != strlen(name))
        return error_set(error, STATUS_FILE,
                         "%s: no default, for settings are UTF-8 and this name is not: rename it",
                         quote(name).text);
    Status status = config_default_model_path(path, error);
    if (status) return status;
    status = path_make_folder_of(path, 0700, error);
    if (!status && (!text_add(&text, head, strlen(head)) || !add_quoted(&text, name)))
        status = error_set(error, STATUS_MEMORY, "no memory for the default model's name");
    if (!status) status = file_write(path, text.bytes, text.size, 0644, error);
    text_free(&text);
    return status;
}
