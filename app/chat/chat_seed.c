#include "app/chat/chat_internal.h"

void chat_seed_begin(Chat *chat) {
    int64_t wanted = chat->settings->sampling.seed;
    chat->numbers.seed = wanted == SETTINGS_SEED_RANDOM ? settings_random_seed() : (uint64_t)wanted;
}

uint64_t chat_seed(const Chat *chat) {
    return chat->numbers.seed;
}

uint64_t chat_seed_next_stream(Chat *chat) {
    return ++chat->numbers.newest_stream;
}

Status chat_seed_restore(Chat *chat, Error *error) {
    TranscriptHeader header = transcript_header(chat->transcript);
    ConversationSettings *settings = conversation_settings(chat->conversation);
    int64_t wanted = chat->settings->sampling.seed;
    chat->numbers.seed = wanted == SETTINGS_SEED_RANDOM ? header.seed : (uint64_t)wanted;
    chat->numbers.stream = header.stream;
    if (chat->numbers.newest_stream < chat->numbers.stream)
        chat->numbers.newest_stream = chat->numbers.stream;
    settings->seed = chat->numbers.seed;
    settings->stream = chat->numbers.stream;
    settings->position = chat->numbers.seed == header.seed ? transcript_position(chat->transcript) : 0;
    return chat->numbers.seed == header.seed
               ? STATUS_OK
               : transcript_set_seed(chat->transcript, chat->numbers.seed, 0, error);
}

Status chat_seed_set(Chat *chat, uint64_t seed, Error *error) {
    Status status = transcript_set_seed(chat->transcript, seed, 0, error);
    if (status) return status;
    chat->numbers.seed = seed;
    conversation_settings(chat->conversation)->seed = seed;
    conversation_settings(chat->conversation)->position = 0;
    chat_record_sync(chat);
    return STATUS_OK;
}
