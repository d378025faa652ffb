// libcurl, found when it is first needed: palaver starts, and is built, without it. What is named here is its public
// ABI, which has not changed since it was given out (libcurl.so.4, 7.32 of 2013 for the newest of these); where its
// headers are there, curl.c compares.
#ifndef PALAVER_APP_CURL_H
#define PALAVER_APP_CURL_H

#include "kernels/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef void CurlHandle;
struct CurlList; // curl_slist

enum { // CURLcode
    CURL_OK = 0,
    CURL_NO_PROXY = 5,
    CURL_NO_HOST = 6,
    CURL_NO_CONNECTION = 7,
    CURL_PARTIAL = 18,
    CURL_WRITE_FAILED = 23,
    CURL_TIMED_OUT = 28,
    CURL_TLS_CONNECT = 35,
    CURL_ABORTED = 42,
    CURL_GOT_NOTHING = 52,
    CURL_SEND_FAILED = 55,
    CURL_RECEIVE_FAILED = 56,
    CURL_TLS_UNTRUSTED = 60,
    CURL_NO_AUTHORITIES = 77,
    CURL_STREAM_FAILED = 92,
};

enum { // CURLoption
    CURL_LOW_SPEED_LIMIT = 19,
    CURL_LOW_SPEED_TIME = 20,
    CURL_NO_PROGRESS = 43,
    CURL_CONNECT_TIMEOUT = 78,
    CURL_NO_SIGNAL = 99,
    CURL_PROTOCOLS = 181,
    CURL_WRITE_DATA = 10001,
    CURL_URL = 10002,
    CURL_RANGE = 10007,
    CURL_ERROR_BUFFER = 10010,
    CURL_USER_AGENT = 10018,
    CURL_HTTP_HEADER = 10023,
    CURL_HEADER_DATA = 10029,
    CURL_PROGRESS_DATA = 10057,
    CURL_AUTHORITIES = 10065,
    CURL_WRITE_FUNCTION = 20011,
    CURL_HEADER_FUNCTION = 20079,
    CURL_PROGRESS_FUNCTION = 20219,
};

enum { // CURLINFO
    CURL_REDIRECT_URL = 0x100000 + 31,
    CURL_RESPONSE_CODE = 0x200000 + 2,
};

enum { CURL_HTTP = 1, CURL_HTTPS = 2, CURL_ALL = 3, CURL_ERROR_ROOM = 256 };

typedef struct Curl {
    int (*global_init)(long flags);
    CurlHandle *(*easy_init)(void);
    void (*easy_cleanup)(CurlHandle *handle);
    void (*easy_reset)(CurlHandle *handle);
    int (*easy_setopt)(CurlHandle *handle, int option, ...);
    int (*easy_perform)(CurlHandle *handle);
    int (*easy_getinfo)(CurlHandle *handle, int info, ...);
    const char *(*easy_strerror)(int code);
    struct CurlList *(*slist_append)(struct CurlList *list, const char *text);
    void (*slist_free_all)(struct CurlList *list);
} Curl;

// STATUS_UNSUPPORTED: it is not installed; the message says what is.
Status curl_load(Curl *curl, Error *error);

#endif
