#include "engine/talk/message.h"

#include "kernels/base/array.h"

#include <stdlib.h>
#include <string.h>

void message_free(Message *m) {
    free(m->text);
    free(m->ids);
    *m = (Message){0};
}

Status message_copy(const Message *from, Message *to, Error *error) {
    *to = *from;
    to->text = malloc(from->size + 1);
    to->ids = from->ids ? malloc((size_t)(from->n_ids + 1) * sizeof *from->ids) : NULL;
    if (!to->text || (from->ids && !to->ids)) {
        message_free(to);
        return error_set(error, STATUS_MEMORY, "no memory for a message of %zu bytes", from->size);
    }
    if (from->size) memcpy(to->text, from->text, from->size);
    to->text[from->size] = 0;
    if (from->ids) memcpy(to->ids, from->ids, (size_t)from->n_ids * sizeof *from->ids);
    return STATUS_OK;
}

Status message_seen_text(const Message *m, const char **text, size_t *size, char **joined, Error *error) {
    *text = m->text;
    *size = m->size;
    *joined = NULL;
    if (m->cut_to <= m->cut_from) return STATUS_OK;
    size_t head = (size_t)m->cut_from, tail = m->size - (size_t)m->cut_to;
    if (!(*joined = malloc(head + tail + 1)))
        return error_set(error, STATUS_MEMORY, "no memory for a message of %zu bytes", head + tail);
    memcpy(*joined, m->text, head);
    memcpy(*joined + head, m->text + m->cut_to, tail);
    (*joined)[head + tail] = 0;
    *text = *joined;
    *size = head + tail;
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
