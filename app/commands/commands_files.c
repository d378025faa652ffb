// Commands that read and write files: save, load, export, file.
#include "app/chat/look/report.h"
#include "app/commands/commands_internal.h"
#include "app/loading/model_name.h"
#include "app/record/attachment.h"
#include "app/record/export.h"
#include "app/record/import.h"
#include "app/record/transcript/transcript_salvage.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/file.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    INSERT_LIMIT = 1 << 20,       // bytes of /file
    CONVERSATION_LIMIT = 1 << 30, // bytes of /load
    MOST_FILES = 64,              // of one pattern of /file
};

static const char SIGN[] = "{\"record\":\"palaver\""; // how every saved conversation begins

// Whether all of an open file is the beginning of a conversation's log. -1: it cannot be read (errno).
static int begins_log(int file, const char *log, size_t size) {
    char bytes[1 << 14];
    for (size_t at = 0;;) {
        ssize_t n = read(file, bytes, sizeof bytes);
        if (n <= 0) return n < 0 ? -1 : 1;
        if ((size_t)n > size - at || memcmp(bytes, log + at, (size_t)n) != 0) return 0;
        at += (size_t)n;
    }
}

// What is there is overwritten if all of it is in the conversation that is saved: another one, more of this one and what is
// no conversation stay. A pipe or a terminal in the place of a file is not waited for.
static Status check_target(Chat *chat, const char *path, Error *error) {
    char begin[sizeof SIGN] = "";
    int file;
    int64_t file_size;
    size_t size;
    bool missing;
    if (file_open_regular(path, &file, &file_size, &missing, error)) return error->status;
    if (missing) return STATUS_OK;
    const char *log = transcript_log(chat_transcript(chat), &size);
    const int same = begins_log(file, log, size), reason = errno;
    const bool conversation =
        pread(file, begin, sizeof SIGN - 1, 0) == sizeof SIGN - 1 && !strcmp(begin, SIGN);
    close(file);
    if (same > 0) return STATUS_OK;
    if (same < 0) return error_set(error, STATUS_FILE, "%s: cannot be read: %s", path, strerror(reason));
    return error_set(error, STATUS_FILE, "%s: is there already, and %s: choose another name", path,
                     conversation ? "holds what this conversation has not" : "no conversation");
}

Status commands_files_save(Chat *chat, const char *argument, Error *error) {
    char path[PATH_ROOM];
    if (argument_path("/save", argument, path, error) || check_target(chat, path, error))
        return error->status;
    if (chat_record_save(chat, path, error)) return error->status;
    screen_notice(chat_screen(chat), "[%d turn%s saved to %s]", tree_depth(chat_tree(chat)),
                  text_plural(tree_depth(chat_tree(chat))), text_path(path).text);
    return STATUS_OK;
}

// What can be loaded, ours or others', is objects of JSON.
static Status check_object(const char *path, const char *text, Error *error) {
    const char first = text[strspn(text, " \t\r\n")];
    if (!first || first == '{') return STATUS_OK;
    return error_set(error, STATUS_FILE,
                     "%s: not a conversation: what /save writes can be loaded, and what /export does as json "
                     "or jsonl",
                     path);
}

Status commands_files_load(Chat *chat, const char *argument, Error *error) {
    char path[PATH_ROOM], note[TRANSCRIPT_NOTE_ROOM] = "", *text;
    size_t size;
    Transcript *transcript;
    if (argument_path("/load", argument, path, error) ||
        file_read(path, CONVERSATION_LIMIT, &text, &size, error))
        return error->status;
    encoding_drop_mark(text, &size);
    TranscriptHeader header = transcript_header(chat_transcript(chat));
    header.stream = chat_seed_next_stream(chat);
    Status status = check_object(path, text, error);
    if (!status)
        status = import_is_export(text, size)
                     ? import_parse(path, text, size, &header, &transcript, error)
                     : transcript_recover(path, text, size, &transcript, note, error);
    free(text);
    if (!status && *note) screen_warn(chat_screen(chat), "[%s]", note);
    if (!status) status = chat_record_load(chat, transcript, NULL, error);
    if (!status)
        screen_notice(chat_screen(chat), "[%d turn%s loaded from %s]", tree_depth(chat_tree(chat)),
                      text_plural(tree_depth(chat_tree(chat))), text_path(path).text);
    if (!status) report_last_turn(chat);
    return status;
}

// Somebody else's file is never overwritten: an export has no sign by which to know its own.
static Status check_is_new(const char *path, Error *error) {
    struct stat facts;
    if (stat(path, &facts) || !facts.st_size) return STATUS_OK;
    return error_set(error, STATUS_FILE, "%s: is there already: choose another name", path);
}

Status commands_files_export(Chat *chat, const char *argument, Error *error) {
    char form_name[16], path[PATH_ROOM], model[PATH_ROOM], branch[TREE_NAME_ROOM], *text;
    size_t length = strcspn(argument, " \t"), size;
    snprintf(form_name, sizeof form_name, "%.*s", (int)(length < 15 ? length : 15), argument);
    int form = export_form_find(form_name);
    if (form < 0) return error_set(error, STATUS_USAGE, "/export needs a form and a file: md, json or jsonl");
    const Tree *tree = chat_tree(chat);
    const char *file = argument + length + strspn(argument + length, " \t");
    if (argument_path("/export", file, path, error) || check_is_new(path, error)) return error->status;
    const char *name = chat_record_name(chat) ? chat_record_name(chat) : "";
    const TextEscaped id = text_name(*name ? name : "conversation");
    const TranscriptModel of = transcript_header(chat_transcript(chat)).model;
    model_name(of.path, of.name, model, sizeof model);
    const TextEscaped shown = text_escaped(model);
    Status status = export_branch(chat_transcript(chat), (ExportNames){id.text, shown.text}, (ExportForm)form,
                                  &text, &size, error);
    if (status) return status;
    status = file_write(path, text, size, 0600, error);
    free(text);
    if (status) return status;
    tree_name(tree, tree->head, branch);
    screen_notice(chat_screen(chat), "[branch %s, %d turn%s of %d in the tree, written to %s]", branch,
                  tree_depth(tree), text_plural(tree_depth(tree)), tree->n, text_path(path).text);
    return STATUS_OK;
}

static Status read_attachment(Chat *chat, const char *path, Text *all, size_t *size, Error *error) {
    char *text;
    TextEncoding encoding = chat_settings(chat)->ui.encoding;
    if (argument_read_text(path, INSERT_LIMIT, encoding, &text, size, error)) return error->status;
    Status status = *size ? STATUS_OK : error_set(error, STATUS_FILE, "%s: empty", path);
    if (!status && !attachment_add(all, path, text, *size))
        status = error_set(error, STATUS_MEMORY, "out of memory");
    free(text);
    return status;
}

// Files under their names, behind those that wait already: all of them, or none where one is refused.
static Status attach(Chat *chat, const char *const *paths, size_t n, Error *error) {
    Text all = {0};
    size_t sizes[MOST_FILES] = {0};
    Status status = STATUS_OK;
    for (size_t i = 0; i < n && !status; i++)
        status = read_attachment(chat, paths[i], &all, &sizes[i], error);
    if (status && n > 1) error_prefix(error, "none of the %zu files is taken: ", n);
    if (!status) status = chat_turn_attach(chat, all.bytes, error);
    text_free(&all);
    for (size_t i = 0; i < n && !status; i++)
        screen_notice(chat_screen(chat), "[%s: %zu byte%s before the next turn]", text_path(paths[i]).text,
                      sizes[i], sizes[i] == 1 ? " goes" : "s go");
    return status;
}

// The files that a pattern names: *, ?, [ and ]; folders among them are passed over. It names nothing, or a file is called
// so: what is said is a name, as it is.
static Status attach_all(Chat *chat, const char *pattern, Error *error) {
    glob_t found;
    const char *files[MOST_FILES];
    const bool is_pattern = strpbrk(pattern, "*?[") && access(pattern, F_OK) != 0;
    int result = is_pattern ? glob(pattern, GLOB_MARK, NULL, &found) : GLOB_NOMATCH; // a / behind folders
    if (result) return attach(chat, &pattern, 1, error);
    size_t n = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (text_has_suffix(found.gl_pathv[i], "/")) continue;
        if (n < MOST_FILES) files[n] = found.gl_pathv[i];
        n++;
    }
    Status status = n > 0 && n <= MOST_FILES ? STATUS_OK : STATUS_USAGE;
    if (!n) error_set(error, status, "%s: these are folders; name the files in them", pattern);
    if (n > MOST_FILES)
        error_set(error, status, "%s: these are %zu files; %d at once are the most", pattern, n, MOST_FILES);
    if (!status) status = attach(chat, files, n, error);
    globfree(&found);
    return status;
}

Status commands_files_file(Chat *chat, const char *argument, Error *error) {
    char path[PATH_ROOM];
    if (!*argument) {
        screen_notice(chat_screen(chat),
                      chat_turn_detach(chat) ? "[the file is taken away]" : "[no file waits]");
        return STATUS_OK;
    }
    return argument_path("/file", argument, path, error) ? error->status : attach_all(chat, path, error);
}
