// A conversation: messages, rendered by a chat template into the token log of a session, and replies streamed
// from it. What the model sees is always the template over the messages that are left, so undo, retry, edit and
// overflow are changes to the list of messages followed by session_sync.
#ifndef PALAVER_ENGINE_CONVERSATION_H
#define PALAVER_ENGINE_CONVERSATION_H

#include "engine/engine.h"
#include "engine/cache/overflow.h"
#include "engine/talk/sampler.h"
#include "tokenizer/chat/chat_template.h"
#include "tokenizer/chat/message.h"

typedef struct Conversation Conversation;

typedef struct ConversationSettings {
    SamplerSettings sampler;
    uint64_t seed;   // of the random numbers
    uint64_t stream; // Philox subsequence: the number of this conversation
    // Numbers drawn so far: replies advance it, a journal keeps it, so that a replay is exact.
    uint64_t position;
    OverflowSettings overflow;
    int64_t max_tokens;      // of a reply; 0: until it ends
    const char *const *stop; // stop strings [n_stop], kept by reference
    int n_stop;
    int drafts;              // most tokens of a reply that are guessed at once (drafts.h); 0: none
    struct Grammar *grammar; // that replies fit (engine/grammar/grammar.h), kept by reference; NULL: none
} ConversationSettings;

// What was evicted, and what it took.
typedef struct OverflowEvent {
    int first_turn, last_turn; // counted from 1 over the whole conversation; 0, 0: no turn
    int64_t n_evicted;         // tokens
    int64_t n_cached;          // tokens that stay and were in the cache
    int64_t n_evaluated;       // tokens read in again
    int64_t n_inside;          // tokens of the current reply
    int64_t n_of_reply;        // by token: tokens of the oldest reply that stays
    int64_t n_prompt;          // tokens of a prompt that is too long: they are not read
    double seconds;
} OverflowEvent;

// What happens while a reply is made. Any may be NULL.
typedef struct ConversationEvents {
    void *user;
    void (*token)(void *user, int32_t id); // as it is drawn, before its text; the end token, too
    void (*text)(void *user, const char *text, size_t size); // whole UTF-8 characters, in order
    void (*overflow)(void *user, const OverflowEvent *event);
} ConversationEvents;

typedef enum FinishReason {
    FINISH_END,
    FINISH_STOP,
    FINISH_LENGTH,
    FINISH_CONTEXT,
    FINISH_INTERRUPTED
} FinishReason;
const char *
conversation_finish_name(FinishReason reason); // "end", "stop", "length", "context", "interrupted"

typedef struct ReplyReport {
    int64_t cached;       // tokens of the prompt that were in the cache
    int64_t read;         // tokens of the prompt that were evaluated
    int64_t n_prompt_cut; // tokens that were left out of a prompt too long for the context
    int64_t n_evicted;    // tokens that left the window for it
    int64_t n_reply;      // tokens sampled, the end token included
    int64_t n_guessed,
        n_right; // tokens of it that were guessed beforehand, and those of them that were drawn
    double first_token_seconds; // from the call to the first token
    double decode_seconds;      // from the first to the last token
    int64_t used, context_size; // tokens in the window afterwards, and its size
    FinishReason finish;
    bool unfit; // it ends within what its grammar asks for: at a limit, or interrupted
    bool kept;  // the reply is among the messages; also where the backend was lost in the middle of it
} ReplyReport;

// Opens an empty conversation with a session of its own. The template is kept by reference.
Status conversation_open(Engine *engine, const ChatTemplate *chat_template,
                         const ConversationSettings *settings, Conversation **conversation, Error *error);
void conversation_close(Conversation *conversation);
// Another model, which outlives the conversation, guesses what comes next (guesser.h); NULL: none does. STATUS_UNSUPPORTED: it
// cannot, and all is as it was.
Status conversation_set_guesser(Conversation *conversation, Engine *engine, Error *error);
bool conversation_guesser_may_pay(const Conversation *conversation);  // by what steps of both take
const Engine *conversation_guesser(const Conversation *conversation); // NULL: none
// Why it is not asked any more in this reply; NULL: it is.
const Error *conversation_guesser_failure(const Conversation *conversation);
Session *conversation_session(Conversation *conversation);
ConversationSettings *conversation_settings(Conversation *conversation); // may be changed between replies

// The list of messages. Pointers are valid until the list changes.
int conversation_length(const Conversation *conversation);
const Message *conversation_message(const Conversation *conversation, int index);
// Appends a message (text is copied). Nothing is evaluated. With ids (may be NULL) as in Message.
Status conversation_append(Conversation *conversation, const Message *message, Error *error);
// Sets, replaces or (NULL or "") removes the system message at the front. One that was evicted makes room for one that
// is not.
Status conversation_set_system(Conversation *conversation, const char *text, Error *error);
// Drops every message from `length` on.
void conversation_truncate(Conversation *conversation, int length);

// The list's messages take the place of the conversation's; the list is empty afterwards. This cannot fail.
void conversation_take(Conversation *conversation, MessageList *list);

// Answers: renders the messages with the opening of an assistant's message (or, if the last message is the
// assistant's and `resume` is set, goes on with it), makes room as the settings say, samples until the end token, a
// stop string, the limit or an interrupt, and appends the reply to the messages (or lengthens it). STATUS_CONTEXT:
// the prompt cannot fit; any other error: the messages are as they were before the call. An interrupt while the prompt
// is read in gives STATUS_INTERRUPTED and leaves the messages alone; one during the reply keeps it as it is, STATUS_OK.
// A backend that is lost during the reply does so, too, but with STATUS_FATAL (ReplyReport.kept).
Status conversation_reply(Conversation *conversation, bool resume, const ConversationEvents *events,
                          ReplyReport *report, Error *error);

// What the model would see now: ids and the span of each rendered message (malloc'ed; free both). For /view, /context.
typedef struct ConversationView {
    Tokens tokens;
    ChatSpan *spans; // [n_spans], one for each message that is not evicted
    int n_spans;
} ConversationView;
Status conversation_view(Conversation *conversation, bool with_generation_prompt, ConversationView *view,
                         Error *error);
void conversation_view_free(ConversationView *view);

// After messages were evicted by other ways than overflow: what is cached of `before`, the view as it was, follows
// as the policy says. It is shifted where nothing but one piece of the view is missing now, else the next reply reads
// it again.
Status conversation_follow(Conversation *conversation, const ConversationView *before, Error *error);

// Tokens kept free for a reply before a turn begins: as the settings say, but no more than a quarter of the
// context, so that small contexts still hold a conversation, and no more than the reply may have.
int64_t conversation_reserve(const Conversation *conversation);

// What would be evicted if a turn of `n_tokens` came now (for /context and the warning).
Status conversation_forecast(Conversation *conversation, int64_t n_tokens, OverflowPlan *plan, Error *error);

#endif
