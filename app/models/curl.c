#include "app/models/curl.h"

#include <dlfcn.h>

#if __has_include(<curl/curl.h>)
#include <curl/curl.h>
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), "libcurl's ABI is another one")
SAME(CURL_NO_PROXY, CURLE_COULDNT_RESOLVE_PROXY);
SAME(CURL_NO_HOST, CURLE_COULDNT_RESOLVE_HOST);
SAME(CURL_NO_CONNECTION, CURLE_COULDNT_CONNECT);
SAME(CURL_PARTIAL, CURLE_PARTIAL_FILE);
SAME(CURL_WRITE_FAILED, CURLE_WRITE_ERROR);
SAME(CURL_TIMED_OUT, CURLE_OPERATION_TIMEDOUT);
SAME(CURL_TLS_CONNECT, CURLE_SSL_CONNECT_ERROR);
SAME(CURL_ABORTED, CURLE_ABORTED_BY_CALLBACK);
SAME(CURL_GOT_NOTHING, CURLE_GOT_NOTHING);
SAME(CURL_SEND_FAILED, CURLE_SEND_ERROR);
SAME(CURL_RECEIVE_FAILED, CURLE_RECV_ERROR);
SAME(CURL_TLS_UNTRUSTED, CURLE_PEER_FAILED_VERIFICATION);
SAME(CURL_NO_AUTHORITIES, CURLE_SSL_CACERT_BADFILE);
SAME(CURL_STREAM_FAILED, CURLE_HTTP2_STREAM);
SAME(CURL_LOW_SPEED_LIMIT, CURLOPT_LOW_SPEED_LIMIT);
SAME(CURL_LOW_SPEED_TIME, CURLOPT_LOW_SPEED_TIME);
SAME(CURL_NO_PROGRESS, CURLOPT_NOPROGRESS);
SAME(CURL_CONNECT_TIMEOUT, CURLOPT_CONNECTTIMEOUT);
SAME(CURL_NO_SIGNAL, CURLOPT_NOSIGNAL);
SAME(CURL_PROTOCOLS, 181); // CURLOPT_PROTOCOLS, whose name is deprecated
SAME(CURL_WRITE_DATA, CURLOPT_WRITEDATA);
SAME(CURL_URL, CURLOPT_URL);
SAME(CURL_RANGE, CURLOPT_RANGE);
SAME(CURL_ERROR_BUFFER, CURLOPT_ERRORBUFFER);
SAME(CURL_USER_AGENT, CURLOPT_USERAGENT);
SAME(CURL_HTTP_HEADER, CURLOPT_HTTPHEADER);
SAME(CURL_HEADER_DATA, CURLOPT_HEADERDATA);
SAME(CURL_PROGRESS_DATA, CURLOPT_XFERINFODATA);
SAME(CURL_AUTHORITIES, CURLOPT_CAINFO);
SAME(CURL_WRITE_FUNCTION, CURLOPT_WRITEFUNCTION);
SAME(CURL_HEADER_FUNCTION, CURLOPT_HEADERFUNCTION);
SAME(CURL_PROGRESS_FUNCTION, CURLOPT_XFERINFOFUNCTION);
SAME(CURL_REDIRECT_URL, CURLINFO_REDIRECT_URL);
SAME(CURL_RESPONSE_CODE, CURLINFO_RESPONSE_CODE);
SAME(CURL_HTTP, CURLPROTO_HTTP);
SAME(CURL_HTTPS, CURLPROTO_HTTPS);
SAME(CURL_ALL, CURL_GLOBAL_ALL);
SAME(CURL_ERROR_ROOM, CURL_ERROR_SIZE);
#endif

Status curl_load(Curl *curl, Error *error) {
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    static const char *const functions[] = {"curl_global_init",   "curl_easy_init",     "curl_easy_cleanup",
                                            "curl_easy_reset",    "curl_easy_setopt",   "curl_easy_perform",
                                            "curl_easy_getinfo",  "curl_easy_strerror", "curl_slist_append",
                                            "curl_slist_free_all"};
    enum { N = sizeof functions / sizeof *functions };
    _Static_assert(sizeof(Curl) == N * sizeof(void (*)(void)), "a function for each name, in order");
    void *library = NULL;
    for (int i = 0; i < 2 && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < N; i++) {
        void *function = library ? dlsym(library, functions[i]) : NULL;
        if (!function)
            return error_set(
                error, STATUS_UNSUPPORTED,
                "fetching needs libcurl, which is not installed: make deps, or apt-get install libcurl4");
        ((void **)curl)[i] = function;
    }
    if (curl->global_init(CURL_ALL)) return error_set(error, STATUS_UNSUPPORTED, "libcurl does not start");
    return STATUS_OK;
}
