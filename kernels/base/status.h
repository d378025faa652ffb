// Errors are values: a function that can fail returns a Status and fills an Error.
//
// Status and Error are the one thing that every room shares, so they live in the lowest of them.
// An Error's message says what went wrong, where, and what to do about it, in one line without a
// final newline; the caller that knows more (the file, the key, the turn) puts it in front with
// error_prefix(). Control characters in what is formatted are spelled \xNN, as names are wherever they stand (utf8_spell):
// who makes an error gives it names as they are.
#ifndef PALAVER_BASE_STATUS_H
#define PALAVER_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum Status {
    STATUS_OK = 0,
    STATUS_USAGE,       // a flag, a key, a command or an argument is wrong
    STATUS_FILE,        // a file is missing, unreadable, truncated or not what it claims to be
    STATUS_UNSUPPORTED, // well formed, but palaver cannot do it
    STATUS_MEMORY,      // not enough memory, on the host or the device
    STATUS_CONTEXT,     // the context cannot take the turn
    STATUS_INTERRUPTED, // the user asked to stop
    STATUS_DEVICE,      // the backend failed; the session can go on
    STATUS_FATAL,       // the backend is lost: save and leave
} Status;

typedef struct Error {
    Status status;
    char message[1000]; // UTF-8, one line
} Error;

// Fills `error` (may be NULL) and returns `status`, so that a failing function ends with
// `return error_set(error, STATUS_FILE, "%s: …", path);`. A message that is too long is cut.
Status error_set(Error *error, Status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

// STATUS_MEMORY for `what`: "the chat template".
Status error_no_memory(Error *error, const char *what);

#ifdef __clang_analyzer__
// What the static analyser cannot see across files: the result is `status`.
#define error_set(error, status, ...) ((error_set)(error, status, __VA_ARGS__), (status))
#define error_no_memory(error, what) ((error_no_memory)(error, what), STATUS_MEMORY)
#endif

// Puts the formatted text in front of the message, keeps the status and returns it.
Status error_prefix(Error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
