#include "app/record/export.h"

#include "app/terminal/text_shown.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int export_form_find(const char *name) {
    static const char *const names[] = {"md", "json", "jsonl"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(names[i], name)) return i;
    return -1;
}

// What hears each message of a branch in turn; `node` is TREE_START for the system prompt.
typedef struct Teller {
    bool (*message)(void *user, int node, ChatRole role, const char *text, size_t size); // false: no memory
    void *user;
} Teller;

static bool tell(const Transcript *transcript, const int *path, int depth, const Teller *teller) {
    const char *system = transcript_system(transcript);
    bool ok = !*system || teller->message(teller->user, TREE_START, CHAT_SYSTEM, system, strlen(system));
    for (int i = 0; ok && i < depth; i++) {
        const TranscriptNode *node = transcript_node(transcript, path[i]);
        if (node->text) ok = teller->message(teller->user, path[i], node->role, node->text, node->size);
        if (ok && node->reply.text)
            ok = teller->message(teller->user, path[i], CHAT_ASSISTANT, node->reply.text, node->reply.size);
    }
    return ok;
}

// ---- Markdown ---------------------------------------------------------------------------------------------

typedef struct Markdown {
    const Tree *tree;
    FILE *out;
} Markdown;

static bool markdown_message(void *user, int node, ChatRole role, const char *text, size_t size) {
    Markdown *md = user;
    char name[TREE_NAME_ROOM];
    tree_name(md->tree, node, name);
    fprintf(md->out, "\n## %s%s%s\n\n", chat_role_name(role), node == TREE_START ? "" : " ",
            node == TREE_START ? "" : name);
    fwrite(text, 1, size, md->out);
    if (!size || text[size - 1] != '\n') fputc('\n', md->out);
    return true;
}

// ---- JSON -------------------------------------------------------------------------------------------------

static bool json_message(void *user, int node, ChatRole role, const char *text, size_t size) {
    (void)node;
    return !json_array_append_new(
        user, json_pack("{s:s, s:s%}", "role", chat_role_name(role), "content", text, size));
}

static bool write_json(const Transcript *transcript, const int *path, int depth, ExportNames names,
                       ExportForm form, FILE *out) {
    char branch[TREE_NAME_ROOM];
    json_t *messages = json_array();
    tree_name(transcript_tree(transcript), transcript_tree(transcript)->head, branch);
    bool ok = messages && tell(transcript, path, depth, &(Teller){json_message, messages});
    json_t *whole = json_pack("{s:s, s:s, s:s, s:o}", "id", names.id, "model", names.model, "branch", branch,
                              "messages", messages);
    size_t flags = form == EXPORT_JSON ? JSON_INDENT(2) : JSON_COMPACT;
    ok = ok && whole && !json_dumpf(whole, out, flags) && fputc('\n', out) != EOF;
    json_decref(whole);
    return ok;
}

Status export_branch(const Transcript *transcript, ExportNames names, ExportForm form, char **text,
                     size_t *size, Error *error) {
    const Tree *tree = transcript_tree(transcript);
    int depth = tree_depth(tree), *path = malloc(((size_t)depth + 1) * sizeof *path);
    *text = NULL;
    FILE *out = path ? open_memstream(text, size) : NULL;
    bool ok = out;
    if (ok) tree_path(tree, tree->head, path);
    if (ok && form == EXPORT_MD) {
        char branch[TREE_NAME_ROOM];
        tree_name(tree, tree->head, branch);
        fprintf(out, "# %s\n\n- model: %s\n- branch: %s, %d turn%s of %d in the tree\n", names.id,
                names.model, branch, depth, text_plural(depth), tree->n);
        ok = tell(transcript, path, depth, &(Teller){markdown_message, &(Markdown){tree, out}});
    } else if (ok) {
        ok = write_json(transcript, path, depth, names, form, out);
    }
    if (out && (ferror(out) | fclose(out))) ok = false;
    free(path);
    if (ok) return STATUS_OK;
    free(*text);
    *text = NULL;
    return error_set(error, STATUS_MEMORY, "out of memory");
}
