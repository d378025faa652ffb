// Commands that read and write files: save, load, file.
#include "app/commands_internal.h"
#include "app/text.h"

#include "tokenizer/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    INSERT_LIMIT = 1 << 20,       // bytes of /file
    CONVERSATION_LIMIT = 1 << 30, // bytes of /load
};

static const char SIGN[] = "{\"record\":\"palaver\""; // how every saved conversation begins

// A file that is no conversation is never overwritten.
static Status check_target(const char *path, Error *error) {
    FILE *file = fopen(path, "rbe");
    if (!file)
        return errno == ENOENT ? STATUS_OK : error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
    char begin[sizeof SIGN] = "";
    size_t n = fread(begin, 1, sizeof SIGN - 1, file);
    fclose(file);
    if (!n || !strcmp(begin, SIGN)) return STATUS_OK;
    return error_set(error, STATUS_FILE, "%s: is there already, and no conversation: choose another name",
                     path);
}

Status command_save(Chat *chat, const char *argument, Error *error) {
    char path[PATH_ROOM];
    size_t size;
    if (argument_path(argument, path, error) || check_target(path, error)) return error->status;
    const char *log = transcript_log(chat->transcript, &size);
    Status status = path_write_file(path, log, size, 0600, error);
    if (status == STATUS_OK)
        screen_notice(chat->screen, "[%d turn%s saved to %s]", tree_depth(chat_tree(chat)),
                      text_plural(tree_depth(chat_tree(chat))), path);
    return status;
}

Status command_load(Chat *chat, const char *argument, Error *error) {
    char path[PATH_ROOM], *text;
    size_t size;
    Transcript *transcript;
    if (argument_path(argument, path, error) || path_read_file(path, CONVERSATION_LIMIT, &text, &size, error))
        return error->status;
    Status status = transcript_parse(path, text, size, &transcript, error);
    free(text);
    if (status == STATUS_OK) status = chat_load(chat, transcript, NULL, error);
    if (status == STATUS_OK)
        screen_notice(chat->screen, "[%d turn%s loaded from %s]", tree_depth(chat_tree(chat)),
                      text_plural(tree_depth(chat_tree(chat))), path);
    return status;
}

Status command_file(Chat *chat, const char *argument, Error *error) {
    char path[PATH_ROOM], *text;
    size_t size;
    if (!*argument) {
        screen_notice(chat->screen, chat->attachment ? "[the file is taken away]" : "[no file waits]");
        free(chat->attachment);
        chat->attachment = NULL;
        return STATUS_OK;
    }
    if (argument_path(argument, path, error) || path_read_file(path, INSERT_LIMIT, &text, &size, error))
        return error->status;
    Status status = STATUS_OK;
    char *joined = NULL;
    if (!size)
        status = error_set(error, STATUS_FILE, "%s: empty", path);
    else if (memchr(text, 0, size) || utf8_valid_run(text, size) != size)
        status = error_set(error, STATUS_FILE, "%s: not a text in UTF-8: nothing is inserted", path);
    else if (asprintf(&joined, "%s%s%s", chat->attachment ? chat->attachment : "",
                      chat->attachment ? "\n\n" : "", text) < 0)
        status = error_set(error, STATUS_MEMORY, "out of memory");
    free(text);
    if (status) return status;
    free(chat->attachment);
    chat->attachment = joined;
    screen_notice(chat->screen, "[%s: %zu bytes go before the next turn]", path, size);
    return STATUS_OK;
}
