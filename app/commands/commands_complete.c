// Tab at the prompt: commands, settings and their values, files.
#include "app/commands/commands_internal.h"
#include "app/models/models.h"
#include "app/record/journal_list.h"
#include "app/terminal/text_shown.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// Everything about one completion.
typedef struct Completing {
    Completion *completion;
    const char *word; // [length] what stands before the cursor
    size_t start, length;
} Completing;

static void offer(const Completing *c, const char *candidate, char final) {
    if (!strncmp(candidate, c->word, c->length)) completion_add(c->completion, c->start, candidate, final);
}

static void offer_commands(const Completing *c, const char *slash) {
    size_t n;
    const ChatCommand *commands = commands_list(&n);
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", slash, commands[i].name);
        offer(c, name, ' ');
    }
}

static void offer_keys(const Completing *c) {
    size_t n;
    const ConfigKey *keys = settings_keys(&n);
    // Those with their section, as answers show them, only to who types a section: they would hide the short ones.
    const bool with_section = memchr(c->word, '.', c->length) != NULL;
    for (size_t i = 0; i < n; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s.%s", keys[i].section, keys[i].name);
        offer(c, with_section ? name : keys[i].name, ' ');
    }
}

static void offer_values(const Completing *c, const char *name) {
    const ConfigKey *key = settings_key(name);
    if (!key) return;
    if (key->type == CONFIG_BOOL) {
        offer(c, "true", 0);
        offer(c, "false", 0);
    }
    for (size_t i = 0; key->words && key->words[i]; i++) offer(c, key->words[i], 0);
}

static void offer_words(const Completing *c, const char *const *words) {
    for (; *words; words++) offer(c, *words, 0);
}

// What is typed of a path.
typedef struct TypedPath {
    char quote;             // the quotation mark before it, or 0
    char folder[PATH_ROOM]; // up to its last slash, as it is typed
    char name[PATH_ROOM];   // the beginning of a name in that, as a command reads it
} TypedPath;

static void read_path(const Completing *c, TypedPath *typed) {
    char word[PATH_ROOM], room[PATH_ROOM];
    snprintf(word, sizeof word, "%.*s", (int)c->length, c->word);
    typed->quote = *word == '"' || *word == '\'' ? *word : 0;
    const char *path = typed->quote ? word + 1 : word, *slash = strrchr(path, '/');
    snprintf(typed->folder, sizeof typed->folder, "%.*s", slash ? (int)(slash - path) + 1 : 0, path);
    if (!typed->quote) path = argument_unquote(path, room);
    slash = strrchr(path, '/');
    snprintf(typed->name, sizeof typed->name, "%s", slash ? slash + 1 : path);
}

// A name as a command reads it behind what is typed: in the same quotation marks, or spelled. One that begins with a mark
// itself would lose it.
static void offer_file(const Completing *c, const TypedPath *typed, const char *name, bool is_folder) {
    char path[2 * PATH_ROOM + 2];
    const bool is_marked = !*typed->folder && (*name == '"' || *name == '\'');
    const char quote[] = {typed->quote ? typed->quote : is_marked ? '"' : 0, 0};
    snprintf(path, sizeof path, "%s%s%s%s", quote, typed->folder,
             *quote ? text_in_marks(name).text : text_name(name).text, is_folder ? "" : quote);
    if (!strncmp(path, c->word, c->length) || !strncmp(name, typed->name, strlen(typed->name)))
        completion_add(c->completion, c->start, path, is_folder ? '/' : ' ');
}

// Names in the folder that the path's beginning means; hidden ones only when asked for.
static void offer_files(const Completing *c) {
    char folder[PATH_ROOM], path[2 * PATH_ROOM];
    TypedPath typed;
    Error ignored;
    if (c->length >= PATH_ROOM - 2) return;
    read_path(c, &typed);
    snprintf(path, sizeof path, "%.*s%s%.*s", typed.quote != 0, &typed.quote, typed.folder, typed.quote != 0,
             &typed.quote);
    if (argument_path("", *typed.folder ? path : ".", folder, &ignored)) return;
    DIR *directory = opendir(folder);
    if (!directory) return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.' && *typed.name != '.') continue;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        struct stat facts;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        offer_file(c, &typed, entry->d_name, !stat(path, &facts) && S_ISDIR(facts.st_mode));
    }
    closedir(directory);
}

// Of a path that begins n bytes later.
static void offer_files_behind(const Completing *c, size_t n) {
    offer_files(&(Completing){c->completion, c->word + n, c->start + n, c->length - n});
}

static void offer_nodes(const Completing *c, const Chat *chat) {
    const Tree *tree = chat_tree(chat);
    for (int i = tree->n - 1; i >= 0; i--) {
        char name[TREE_NAME_ROOM];
        tree_name(tree, i, name);
        offer(c, name, ' ');
    }
}

static void offer_models(const Completing *c) {
    ModelList list;
    Error ignored;
    char folder[PATH_ROOM];
    if (models_find(path_program(folder) ? folder : NULL, &list, &ignored)) return;
    for (size_t i = 0; i < list.count; i++) offer(c, list.entries[i].name, ' ');
    models_free(&list);
}

static void offer_conversations(const Completing *c) {
    JournalList list;
    Error ignored;
    if (journal_list_read(&list, &ignored)) return;
    for (size_t i = 0; i < list.count; i++) offer(c, text_name(list.entries[i].name).text, ' ');
    journal_list_free(&list);
}

// The first argument of commands that take one of a few words.
static void offer_first_words(const Completing *c, const char *command) {
    static const char *const words[][5] = {
        {"view", "text", "tokens", "diff"},     {"edit", "reply"},       {"export", "md", "json", "jsonl"},
        {"say", "user", "assistant", "system"}, {"overflow", "preview"}, {"replay", "verify"},
        {"think", "show", "dim", "hide"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(command, words[i][0])) offer_words(c, words[i] + 1);
}

// Bytes of the first word, and of the blanks behind it.
static size_t first_word(const Completing *c) {
    size_t n = 0;
    while (n < c->length && c->word[n] != ' ') n++;
    while (n < c->length && c->word[n] == ' ') n++;
    return n;
}

// `all`: of the whole argument, which is one name or path though there are blanks in it.
static void offer_arguments(const Completing *c, const Completing *all, const Chat *chat, const char *command,
                            const char *before) {
    bool first = !*before;
    if (!strcmp(command, "help") && first) offer_commands(c, "");
    if (!strcmp(command, "set")) {
        if (first)
            offer_keys(c);
        else
            offer_values(c, before);
    }
    if (!strcmp(command, "reset") && first) offer_keys(c);
    if (first) offer_first_words(c, command);
    if (!strcmp(command, "overflow") && first) offer_values(c, command);
    if (!strcmp(command, "goto") && first) offer_nodes(c, chat);
    if (!strcmp(command, "switch") || !strcmp(command, "delete")) offer_conversations(all);
    if (!strcmp(command, "save") || !strcmp(command, "load") || !strcmp(command, "file") ||
        !strcmp(command, "config"))
        offer_files(all);
    if (!strcmp(command, "model")) {
        offer_models(all);
        completion_begin_group(c->completion);
        offer_files(all);
    }
    if (!strcmp(command, "export") && !first) offer_files_behind(all, first_word(all));
    if (!strcmp(command, "system") && all->length && all->word[0] == '@') offer_files_behind(all, 1);
}

void commands_complete(void *chat, const char *text, size_t cursor, Completion *completion) {
    if (!commands_is_command(text)) return;
    size_t start = cursor;
    while (start && text[start - 1] != ' ') start--;
    Completing c = {completion, text + start, start, cursor - start};
    if (!start) {
        offer_commands(&c, "/");
        return;
    }
    char command[64], before[128];
    size_t length = strcspn(text + 1, " ");
    size_t rest = 1 + length + strspn(text + 1 + length, " ");
    if (rest > start) rest = start;
    snprintf(command, sizeof command, "%.*s", (int)(length < 63 ? length : 63), text + 1);
    size_t n = start - rest;
    while (n && text[rest + n - 1] == ' ') n--;
    snprintf(before, sizeof before, "%.*s", (int)(n < 127 ? n : 127), text + rest);
    Completing all = {completion, text + rest, rest, cursor - rest};
    offer_arguments(&c, &all, chat, command, before);
}
