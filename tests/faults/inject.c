// Linked into a palaver for tests: the n-th call of a kind fails, wherever it is made, in libraries as well.
//
//     FAULT=KIND:N     the N-th call of the kind from main() on fails (1 is the first)
//     FAULT=KIND:N+    and so do all that follow
//     FAULT_RECORD=FILE   nothing fails; each call becomes a line: its kind and a hash of the stack that it was made
//     from
//     FAULT_SHOW=1     prints the stack of the call that fails
//
// The program's own symbols come before those of any library, so these functions stand in for the C library's; memory
// is the address sanitizer's all the same. What goes to stderr does not fail: a test wants to read it.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

// The sanitizer's, which these functions stand before.
void *__interceptor_malloc(size_t size);
void *__interceptor_calloc(size_t n, size_t size);
void *__interceptor_realloc(void *old, size_t size);
int __interceptor_posix_memalign(void **memory, size_t alignment, size_t size);
void *__interceptor_aligned_alloc(size_t alignment, size_t size);
void __interceptor_free(void *memory);
FILE *__interceptor_fopen(const char *path, const char *mode);
DIR *__interceptor_opendir(const char *path);
int __interceptor_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                                 void *context);
void __sanitizer_print_stack_trace(void);

typedef enum Kind { MEMORY, WRITE, SYNC, RENAME, OPEN, MAP, READ, THREAD, N_KINDS } Kind;

static const struct {
    const char *name;
    int error; // errno
} KINDS[N_KINDS] = {[MEMORY] = {"memory", ENOMEM}, [WRITE] = {"write", ENOSPC},  [SYNC] = {"sync", EIO},
                    [RENAME] = {"rename", EIO},    [OPEN] = {"open", EMFILE},    [MAP] = {"map", ENOMEM},
                    [READ] = {"read", EIO},        [THREAD] = {"thread", EAGAIN}};

static bool show;
static Kind chosen = N_KINDS;
static long long first; // the number of the call that fails
static bool for_good;   // and of those that follow
static atomic_llong calls;
static int record = -1;
static _Thread_local bool counting; // not in what begins a thread, nor in what is done here

// What the C library does not free when setlocale() fails.
const char *__lsan_default_suppressions(void) {
    return "leak:setlocale\nleak:_nl_\n";
}

const char *__lsan_default_options(void) {
    return "print_suppressions=0";
}

// ---- which call ---------------------------------------------------------------------------------------------

typedef struct Walk {
    unsigned long long hash;
    int depth;
} Walk;

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *user) {
    Walk *walk = user;
    walk->hash = (walk->hash ^ _Unwind_GetIP(context)) * 0x100000001b3u;
    return ++walk->depth < 40 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void note(Kind kind) {
    char line[64];
    Walk walk = {0xcbf29ce484222325u, 0};
    _Unwind_Backtrace(add_frame, &walk);
    int n = snprintf(line, sizeof line, "%s %016llx\n", KINDS[kind].name, walk.hash);
    syscall(SYS_write, record, line, n);
}

// Counts a call; true: it has to fail, with errno set.
static bool fails(Kind kind) {
    if (!counting || (kind != chosen && record < 0)) return false;
    counting = false;
    bool failing = false;
    if (record >= 0) {
        note(kind);
    } else {
        long long number = 1 + atomic_fetch_add(&calls, 1);
        failing = for_good ? number >= first : number == first;
        if (failing && show) __sanitizer_print_stack_trace();
    }
    counting = true;
    if (failing) errno = KINDS[kind].error;
    return failing;
}

// After the libraries' own constructors, before main().
__attribute__((constructor)) static void arm(void) {
    const char *fault = getenv("FAULT"), *file = getenv("FAULT_RECORD");
    const char *colon = fault ? strchr(fault, ':') : NULL;
    for (int i = 0; colon && i < N_KINDS; i++)
        if (strlen(KINDS[i].name) == (size_t)(colon - fault) &&
            !strncmp(KINDS[i].name, fault, (size_t)(colon - fault)))
            chosen = (Kind)i;
    if (colon) {
        char *end;
        first = strtoll(colon + 1, &end, 10);
        for_good = *end == '+';
    }
    show = getenv("FAULT_SHOW") != NULL;
    if (file)
        record = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    counting = colon || record >= 0;
}

// ---- memory -------------------------------------------------------------------------------------------------

void *malloc(size_t size) {
    return fails(MEMORY) ? NULL : __interceptor_malloc(size);
}

void *calloc(size_t n, size_t size) {
    return fails(MEMORY) ? NULL : __interceptor_calloc(n, size);
}

void *realloc(void *old, size_t size) {
    return fails(MEMORY) ? NULL : __interceptor_realloc(old, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    return fails(MEMORY) ? ENOMEM : __interceptor_posix_memalign(memory, alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return fails(MEMORY) ? NULL : __interceptor_aligned_alloc(alignment, size);
}

char *strndup(const char *text, size_t n) {
    size_t size = strnlen(text, n);
    char *copy = malloc(size + 1);
    if (!copy) return NULL;
    memcpy(copy, text, size);
    copy[size] = 0;
    return copy;
}

char *strdup(const char *text) {
    return strndup(text, strlen(text));
}

// ---- files --------------------------------------------------------------------------------------------------

ssize_t write(int file, const void *bytes, size_t n) {
    return file != STDERR_FILENO && fails(WRITE) ? -1 : syscall(SYS_write, file, bytes, n);
}

ssize_t pwrite(int file, const void *bytes, size_t n, off_t at) {
    return fails(WRITE) ? -1 : syscall(SYS_pwrite64, file, bytes, n, at);
}

int ftruncate(int file, off_t size) {
    return fails(WRITE) ? -1 : (int)syscall(SYS_ftruncate, file, size);
}

ssize_t read(int file, void *bytes, size_t n) {
    return fails(READ) ? -1 : syscall(SYS_read, file, bytes, n);
}

int fsync(int file) {
    return fails(SYNC) ? -1 : (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
    return fails(SYNC) ? -1 : (int)syscall(SYS_fdatasync, file);
}

int rename(const char *from, const char *to) {
    return fails(RENAME) ? -1 : (int)syscall(SYS_rename, from, to);
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return fails(OPEN) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode) {
    return fails(OPEN) ? NULL : __interceptor_fopen(path, mode);
}

DIR *opendir(const char *path) {
    return fails(OPEN) ? NULL : __interceptor_opendir(path);
}

int mkostemp(char *pattern, int flags) {
    return fails(OPEN) ? -1 : mkostemps(pattern, 0, flags);
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    return fails(MAP) ? MAP_FAILED : mmap64(at, size, protection, flags, file, offset);
}

// ---- threads ------------------------------------------------------------------------------------------------

typedef struct Start {
    void *(*run)(void *);
    void *context;
    bool counting;
} Start;

static void *begin(void *context) {
    Start start = *(Start *)context;
    __interceptor_free(context);
    counting = start.counting;
    return start.run(start.context);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context) {
    if (fails(THREAD)) return EAGAIN;
    Start *start = __interceptor_malloc(sizeof *start);
    bool was = counting;
    *start = (Start){run, context, was};
    counting = false;
    int failed = __interceptor_pthread_create(thread, attributes, begin, start);
    counting = was;
    if (failed) __interceptor_free(start);
    return failed;
}
