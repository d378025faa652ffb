// Commands about whole conversations: clear, new, list, switch, delete, fork.
#include "app/chat/look/report.h"
#include "app/commands/commands_internal.h"
#include "app/record/attachment.h"
#include "app/record/journal_list.h"
#include "app/terminal/screen/page.h"
#include "app/terminal/text_shown.h"

#include <stdlib.h>
#include <string.h>

enum {
    NAME_COLUMNS = 18, // of a conversation in /list, and for longer names
    MOST_COLUMNS = 24,
    LEAST_COLUMNS = 16, // of its first question, which has the rest of the row
};

// A new conversation begins: what is said of the one before, if anything was said in it.
static Status begin(Chat *chat, const char *name, Error *error) {
    const bool is_empty = chat_tree(chat)->n == 0;
    if (chat_record_new(chat, name, error)) return error->status;
    screen_notice(chat_screen(chat), "[a new conversation%s%s%s%s]", name ? ": " : "",
                  name ? text_name(name).text : "", is_empty ? "" : "; the one before is kept",
                  !is_empty && chat_options(chat)->no_save ? " nowhere (--no-save)" : "");
    return STATUS_OK;
}

Status commands_conversations_clear(Chat *chat, const char *argument, Error *error) {
    return argument_none("/clear", argument, error) ? error->status : begin(chat, NULL, error);
}

Status commands_conversations_new(Chat *chat, const char *argument, Error *error) {
    if (*argument && journal_check_name(argument, error)) return error->status;
    return begin(chat, *argument ? argument : NULL, error);
}

static bool is_current(const Chat *chat, const char *name) {
    return chat_record_name(chat) && !strcmp(chat_record_name(chat), name);
}

static int name_columns(const JournalEntry *entry) {
    const TextEscaped name = text_name(entry->name);
    return text_columns(name.text, strlen(name.text));
}

static int widest_name(const JournalList *list) {
    int widest = NAME_COLUMNS;
    for (size_t i = 0; i < list->count; i++) {
        const int columns = name_columns(&list->entries[i]);
        if (columns > widest && columns <= MOST_COLUMNS) widest = columns;
    }
    return widest;
}

static void list_entry(const Chat *chat, const JournalEntry *entry, int widest, FILE *out) {
    char when[32] = "";
    struct tm local;
    if (localtime_r(&entry->changed.tv_sec, &local)) strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    Text topic = journal_topic(entry->name);
    const bool current = is_current(chat, entry->name);
    const char *nothing = current && chat_tree(chat)->n ? "(only in memory)" : "(empty)";
    const char *said = journal_is_empty(entry) ? nothing : topic.size ? attachment_skip(topic.bytes) : "";
    const int columns = name_columns(entry);
    fprintf(out, "%c %s%*s  %s  ", current ? '*' : ' ', text_name(entry->name).text,
            columns < widest ? widest - columns : 0, "", when);
    const size_t size =
        topic.size && !journal_is_empty(entry) ? (size_t)(topic.bytes + topic.size - said) : strlen(said);
    const int before = (int)strlen(when) + (columns < widest ? widest : columns) + 6;
    const int room = screen_width(chat_screen(chat)) - before;
    page_excerpt(out, said, size, room > LEAST_COLUMNS ? room : LEAST_COLUMNS);
    fputc('\n', out);
    text_free(&topic);
}

Status commands_conversations_list(Chat *chat, const char *argument, Error *error) {
    const char *wished = chat_record_wished_name(chat);
    JournalList list;
    Page page;
    if (argument_none("/list", argument, error) || journal_list_read(&list, error)) return error->status;
    Status status = page_open(&page, error);
    if (!status) {
        const int widest = widest_name(&list);
        if (!chat_record_name(chat))
            fputs("* (not kept: --no-save)\n", page.stream);
        else if (!*chat_record_name(chat))
            fprintf(page.stream, "* %s%s(%s)\n", text_name(wished).text, *wished ? "  " : "",
                    !chat_record_is_kept(chat) ? "not kept: its journal cannot be written"
                    : chat_tree(chat)->n       ? "kept from its next turn on"
                                               : "new: kept from its first turn on");
        for (size_t i = list.count; i > 0; i--) list_entry(chat, &list.entries[i - 1], widest, page.stream);
        page_show(&page, chat_screen(chat));
    }
    journal_list_free(&list);
    return status;
}

Status commands_conversations_switch(Chat *chat, const char *argument, Error *error) {
    JournalList list;
    Journal *journal;
    Transcript *transcript;
    size_t index;
    if (!*argument) return error_set(error, STATUS_USAGE, "/switch needs a name; /list shows them");
    if (journal_list_read(&list, error)) return error->status;
    Status status = journal_list_find(&list, argument, &index, error);
    bool already = !status && is_current(chat, list.entries[index].name);
    if (!status && !already)
        status = journal_resume(text_name(list.entries[index].name).text, &journal, &transcript, error);
    if (!status && !already && *journal_note(journal))
        screen_warn(chat_screen(chat), "[%s]", journal_note(journal));
    if (!status && !already) status = chat_record_load(chat, transcript, journal, error);
    // One that was damaged goes on under another name.
    const char *now = chat_record_name(chat);
    if (!status)
        screen_notice(chat_screen(chat), "[%s%s: %d turn%s so far]", already ? "already in " : "",
                      text_name(now && *now ? now : list.entries[index].name).text,
                      tree_depth(chat_tree(chat)), text_plural(tree_depth(chat_tree(chat))));
    if (!status && !already) report_last_turn(chat);
    journal_list_free(&list);
    return status;
}

Status commands_conversations_delete(Chat *chat, const char *argument, Error *error) {
    if (!*argument) return error_set(error, STATUS_USAGE, "/delete needs a whole name; /list shows them");
    JournalList list;
    size_t index = 0;
    if (journal_list_read(&list, error)) return error->status;
    Status status = journal_list_find_whole(&list, argument, &index, error);
    const char *name = status ? "" : list.entries[index].name;
    if (!status && is_current(chat, name))
        status = error_set(error, STATUS_USAGE, "%s is the conversation you are in: /new or /switch first",
                           text_name(name).text);
    if (!status) status = journal_delete(name, error);
    if (!status) screen_notice(chat_screen(chat), "[%s is deleted]", text_name(name).text);
    journal_list_free(&list);
    return status;
}

Status commands_conversations_fork(Chat *chat, const char *argument, Error *error) {
    char before[JOURNAL_NAME_ROOM];
    if (!tree_depth(chat_tree(chat))) return commands_no_turn(error);
    if (!chat_record_name(chat))
        return error_set(error, STATUS_USAGE,
                         "with --no-save no conversation is kept to come back to; /save");
    if (*argument && journal_check_name(argument, error)) return error->status;
    snprintf(before, sizeof before, "%s", chat_record_name(chat));
    Status status = chat_record_fork(chat, *argument ? argument : NULL, error);
    if (!status)
        screen_notice(chat_screen(chat), "[in %s now, a copy; /switch %s goes back]",
                      text_name(chat_record_name(chat)).text, text_name(before).text);
    return status;
}
