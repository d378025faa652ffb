#include "app/chat/chat_internal.h"

const Options *chat_options(const Chat *chat) {
    return chat->options;
}

Settings *chat_settings(const Chat *chat) {
    return chat->settings;
}

Screen *chat_screen(const Chat *chat) {
    return chat->screen;
}

bool chat_is_interactive(const Chat *chat) {
    return chat->interactive;
}

const Engine *chat_engine(const Chat *chat) {
    return chat->model.engine;
}

Conversation *chat_conversation(const Chat *chat) {
    return chat->conversation;
}

Transcript *chat_transcript(const Chat *chat) {
    return chat->transcript;
}

const Tree *chat_tree(const Chat *chat) {
    return transcript_tree(chat->transcript);
}

Thoughts *chat_thoughts(Chat *chat) {
    return &chat->thoughts;
}

double chat_share(Chat *chat) {
    ConversationView view;
    Error ignored;
    if (chat->used < 0) {
        if (conversation_view(chat->conversation, false, &view, &ignored)) return 0;
        chat->used = view.tokens.n;
        conversation_view_free(&view);
    }
    return (double)chat->used / (double)engine_context_size(chat->model.engine);
}

void chat_note_output(Chat *chat, Status status, const Error *error) {
    if (!status || chat->output || status == STATUS_INTERRUPTED) return;
    chat->output = status;
    if (!screen_reader_left(chat->screen)) screen_error(chat->screen, "%s", error->message);
}

Status chat_output(const Chat *chat) {
    return chat->output;
}

void chat_leave(Chat *chat) {
    chat->leave = true;
}

bool chat_is_unfit(const Chat *chat) {
    return chat->has_last && chat->last.unfit;
}

bool chat_is_leaving(const Chat *chat) {
    return chat->leave;
}
