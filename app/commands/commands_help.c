// /help: the commands in groups, one of them, or all with a line each.
#include "app/commands/commands_internal.h"
#include "app/terminal/screen/page.h"

#include <stdio.h>
#include <string.h>

enum { USAGE_COLUMNS = 26, TITLE_COLUMNS = 15 };

static const struct {
    const char *title, *names[10];
} groups[] = {
    {"turns", {"retry", "undo", "redo", "edit", "continue", "say", "tree", "goto"}},
    {"conversations", {"new", "clear", "fork", "list", "switch", "delete", "save", "load", "export"}},
    {"for the model", {"system", "file", "model", "think"}},
    {"settings", {"set", "reset", "config", "seed"}},
    {"the window", {"context", "overflow", "forget"}},
    {"looking", {"stats", "time", "view", "tokens", "top", "replay", "copy"}},
    {"else", {"help", "quit"}},
};
enum { N_GROUPS = sizeof groups / sizeof *groups };

static void print_line(const ChatCommand *command, FILE *out) {
    char usage[64];
    snprintf(usage, sizeof usage, "/%s %s", command->name, command->arguments);
    // Two blanks, at least, make a second column of it.
    fprintf(out, "%-*s  %s", USAGE_COLUMNS - 1, usage, command->help);
    for (int k = 0; command->aliases[k]; k++)
        fprintf(out, "%s/%s", k ? ", " : " (also ", command->aliases[k]);
    fputs(command->aliases[0] ? ")\n" : "\n", out);
}

static void print_all(FILE *out) {
    for (int group = 0; group < N_GROUPS; group++) {
        fprintf(out, "%s%s\n", group ? "\n" : "", groups[group].title);
        for (int i = 0; groups[group].names[i]; i++) print_line(commands_find(groups[group].names[i]), out);
    }
    fputc('\n', out);
}

// What a small window has room for.
static void print_names(FILE *out) {
    for (int group = 0; group < N_GROUPS; group++) {
        fprintf(out, "%-*s", TITLE_COLUMNS, groups[group].title);
        for (int i = 0; groups[group].names[i]; i++)
            fprintf(out, "%s/%s", i ? " " : "", groups[group].names[i]);
        fputc('\n', out);
    }
    fputs("\n/help COMMAND tells of one, /help all of each in a line.\n", out);
}

static void print_keys_of_editor(const Chat *chat, FILE *out) {
    fputs("A line that ends in \\ goes on in the next, \"\"\" encloses several; // is a literal slash.\n",
          out);
    if (!chat_is_interactive(chat)) return;
    if (screen_traits(chat_screen(chat))->plain) // the terminal edits its lines itself
        fputs("Ctrl-C stops a reply, Ctrl-D leaves.\n", out);
    else
        fputs("Ctrl-C stops a reply, Ctrl-D leaves, Ctrl-G opens $EDITOR, Ctrl-J makes a new line, Ctrl-R "
              "searches.\n",
              out);
}

// The keys of /set, a section a line.
static void print_keys(FILE *out) {
    size_t n;
    const ConfigKey *keys = settings_keys(&n);
    for (size_t i = 0; i < n; i++) {
        bool first = !i || strcmp(keys[i].section, keys[i - 1].section);
        if (first) fprintf(out, "%s%-*s", i ? "\n" : "", TITLE_COLUMNS, keys[i].section);
        fprintf(out, "%s%s", first ? "" : " ", keys[i].name);
    }
    fputs("\n/set KEY tells what it is, and what is allowed; /set SECTION has the values of one.\n", out);
}

Status commands_help(Chat *chat, const char *argument, Error *error) {
    Page page;
    if (*argument == '/') argument++;
    const bool all = !strcmp(argument, "all");
    const ChatCommand *command = *argument && !all ? commands_find(argument) : NULL;
    if (*argument && !all && !command) return commands_unknown(argument, error);
    if (page_open(&page, error)) return error->status;
    if (command) print_line(command, page.stream);
    if (command && command->run == commands_settings_set) print_keys(page.stream);
    if (!command && (all || !chat_is_interactive(chat))) print_all(page.stream);
    if (!command && !all && chat_is_interactive(chat)) print_names(page.stream);
    if (!command) print_keys_of_editor(chat, page.stream);
    page_show(&page, chat_screen(chat));
    return STATUS_OK;
}
