#include "tokenizer/chat/message.h"

#include "kernels/base/array.h"

#include <stdlib.h>
#include <string.h>

const char *chat_role_name(ChatRole role) {
    static const char *const names[] = {"system", "user", "assistant"};
    return names[role];
}

int chat_role_find(const char *name) {
    for (int role = 0; role <= CHAT_ASSISTANT; role++)
        if (!strcmp(name, chat_role_name((ChatRole)role))) return role;
    return -1;
}

// What a message owns was allocated: only views point to what is constant.
static void free_constant(const void *owned) {
    free((void *)owned);
}

void message_free(Message *m) {
    free_constant(m->text);
    free_constant(m->ids);
    *m = (Message){0};
}

void message_drop_ids(Message *m) {
    free_constant(m->ids);
    m->ids = NULL;
    m->n_ids = m->n_evicted = 0;
}

Status message_copy(const Message *from, Message *to, Error *error) {
    size_t n = from->ids ? (size_t)from->n_ids : 0;
    char *text = malloc(from->size + 1);
    int32_t *ids = from->ids ? malloc((n + 1) * sizeof *ids) : NULL;
    if (!text || (from->ids && !ids)) {
        free(text);
        free(ids);
        *to = (Message){0};
        return error_set(error, STATUS_MEMORY, "no memory for a message of %zu bytes", from->size);
    }
    if (from->size) memcpy(text, from->text, from->size);
    text[from->size] = 0;
    if (n) memcpy(ids, from->ids, n * sizeof *ids);
    *to = *from;
    to->text = text;
    to->ids = ids;
    return STATUS_OK;
}

Status message_seen(const Message *m, Message *seen, char **joined, Error *error) {
    *joined = NULL;
    *seen = (Message){.role = m->role,
                      .text = m->text,
                      .size = m->size,
                      .ids = m->ids ? m->ids + m->n_evicted : NULL,
                      .n_ids = m->n_ids - m->n_evicted};
    if (m->cut_to <= m->cut_from) return STATUS_OK;
    size_t head = (size_t)m->cut_from, tail = m->size - (size_t)m->cut_to;
    if (!(*joined = malloc(head + tail + 1)))
        return error_set(error, STATUS_MEMORY, "no memory for a message of %zu bytes", head + tail);
    memcpy(*joined, m->text, head);
    memcpy(*joined + head, m->text + m->cut_to, tail);
    (*joined)[head + tail] = 0;
    seen->text = *joined;
    seen->size = head + tail;
    return STATUS_OK;
}

Status message_list_insert(MessageList *list, int index, const Message *message, Error *error) {
    if (!array_reserve(&list->messages, sizeof *list->messages, (size_t)list->n, 1, &list->capacity))
        return error_set(error, STATUS_MEMORY, "no memory for %d messages", list->n + 1);
    Message copy;
    Status status = message_copy(message, &copy, error);
    if (status) return status;
    memmove(list->messages + index + 1, list->messages + index,
            (size_t)(list->n - index) * sizeof *list->messages);
    list->messages[index] = copy;
    list->n++;
    return STATUS_OK;
}

Status message_list_add(MessageList *list, const Message *message, Error *error) {
    return message_list_insert(list, list->n, message, error);
}

void message_list_free(MessageList *list) {
    while (list->n > 0) message_free(&list->messages[--list->n]);
    free(list->messages);
    *list = (MessageList){0};
}
