/* OpenSSL 3 is loaded when it is needed: what is declared here of it is all that is used, so the generator is built
 * without its headers, and runs without it where no connection is encrypted.
 *
 * The client's keys come from outside, as a client keeps them that logs in again (RFC 5802, 5.1): what is measured
 * is the server, and no client that derives them.
 */
#define _GNU_SOURCE
#include "secure.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TLS_1_3 = 0x0304,
    SET_MODE = 33,
    SET_READ_AHEAD = 41,
    SET_MIN_VERSION = 123,
    MODES = 1 | 2, /* Writes may be in part, and go on from another address. */
    VERIFY_PEER = 1,
    WANT_READ = 2,
    WANT_WRITE = 3,
    ZERO_RETURN = 6,
    KEY_BYTES = 32,
    TEXT_BYTES = 2048,
    ERROR_AT = 8, /* In an answer to either request of a login: behind its size and its correlation id. */
    MESSAGE_AT = 10,
};

enum step { SHAKES_HANDS, HAS_ASKED, HAS_BEGUN, HAS_PROVEN, IS_IN };

static struct {
    const void *(*TLS_client_method)(void);
    void *(*SSL_CTX_new)(const void *);
    long (*SSL_CTX_ctrl)(void *, int, long, void *);
    void (*SSL_CTX_set_verify)(void *, int, void *);
    int (*SSL_CTX_load_verify_locations)(void *, const char *, const char *);
    void *(*SSL_new)(void *);
    int (*SSL_set_fd)(void *, int);
    int (*SSL_connect)(void *);
    int (*SSL_read)(void *, void *, int);
    int (*SSL_write)(void *, const void *, int);
    int (*SSL_get_error)(const void *, int);
    int (*SSL_has_pending)(const void *);
    unsigned long (*ERR_get_error)(void);
    void (*ERR_clear_error)(void);
    void (*ERR_error_string_n)(unsigned long, char *, size_t);
    const void *(*EVP_sha256)(void);
    unsigned char *(*HMAC)(const void *, const void *, int, const unsigned char *, size_t, unsigned char *, unsigned *);
    int (*EVP_EncodeBlock)(unsigned char *, const unsigned char *, int);
} openssl;

struct secure {
    void *ssl;
    enum step step;
    unsigned char came[TEXT_BYTES];
    size_t came_bytes;
    char signed_[3 * TEXT_BYTES]; /* What client and server sign with their keys. */
    size_t signed_bytes;
};

static const struct login *login;
static void *context;

static void give_up(const char *what, const char *reason) {
    fprintf(stderr, "generator: %s: %s\n", what, reason);
    exit(2);
}

static void give_up_tls(const char *what) {
    char reason[256];
    unsigned long error = openssl.ERR_get_error();
    if (!error) give_up(what, "the server closed the connection");
    openssl.ERR_error_string_n(error, reason, sizeof reason);
    give_up(what, reason);
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL) give_up("OpenSSL", dlerror());
    return found;
}

static void *library(const char *name) {
    void *opened = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (opened == NULL) give_up("OpenSSL 3", dlerror());
    return opened;
}

#define FIND(from, name) *(void **)&openssl.name = symbol(from, #name)

static void load(void) {
    void *crypto = library("libcrypto.so.3"), *ssl = library("libssl.so.3");
    FIND(ssl, TLS_client_method), FIND(ssl, SSL_CTX_new), FIND(ssl, SSL_CTX_ctrl), FIND(ssl, SSL_CTX_set_verify);
    FIND(ssl, SSL_CTX_load_verify_locations), FIND(ssl, SSL_new), FIND(ssl, SSL_set_fd), FIND(ssl, SSL_connect);
    FIND(ssl, SSL_read), FIND(ssl, SSL_write), FIND(ssl, SSL_get_error), FIND(ssl, SSL_has_pending);
    FIND(crypto, ERR_get_error), FIND(crypto, ERR_clear_error), FIND(crypto, ERR_error_string_n);
    FIND(crypto, EVP_sha256), FIND(crypto, HMAC), FIND(crypto, EVP_EncodeBlock);
}

void secure_begin(const struct login *given) {
    login = given;
    if (login->keys.bytes != 3 * KEY_BYTES) give_up("the login", "its keys have another size");
    load();
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes as a file is written to: a connection that is closed is a failure. */
    context = openssl.SSL_CTX_new(openssl.TLS_client_method());
    if (context == NULL) give_up_tls("TLS");
    openssl.SSL_CTX_ctrl(context, SET_MIN_VERSION, TLS_1_3, NULL);
    openssl.SSL_CTX_ctrl(context, SET_MODE, MODES, NULL);
    openssl.SSL_CTX_ctrl(context, SET_READ_AHEAD, 1, NULL); /* Or each record would be received in two pieces. */
    openssl.SSL_CTX_set_verify(context, VERIFY_PEER, NULL);
    if (openssl.SSL_CTX_load_verify_locations(context, (const char *)login->authority.at, NULL) != 1)
        give_up_tls("the authority");
}

struct secure *secure_new(int fd) {
    struct secure *own = calloc(1, sizeof *own);
    int flags = fcntl(fd, F_GETFL);
    if (own == NULL || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK)) give_up("a connection", strerror(errno));
    own->ssl = openssl.SSL_new(context);
    if (own->ssl == NULL || openssl.SSL_set_fd(own->ssl, fd) != 1) give_up_tls("TLS");
    return own;
}

static ssize_t outcome(struct secure *own, int result) {
    if (result > 0) return result;
    int error = openssl.SSL_get_error(own->ssl, result);
    if (error == ZERO_RETURN) return 0;
    errno = error == WANT_READ || error == WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t secure_send(struct secure *own, const void *data, size_t bytes) {
    openssl.ERR_clear_error(); /* Of another connection: SSL_get_error looks at it. */
    return outcome(own, openssl.SSL_write(own->ssl, data, (int)bytes));
}

ssize_t secure_recv(struct secure *own, void *into, size_t room) {
    openssl.ERR_clear_error();
    return outcome(own, openssl.SSL_read(own->ssl, into, (int)room));
}

int secure_has_more(const struct secure *own) { return openssl.SSL_has_pending(own->ssl); }

static uint32_t read_u32(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void write_u32(unsigned char *at, uint32_t number) {
    at[0] = (unsigned char)(number >> 24), at[1] = (unsigned char)(number >> 16);
    at[2] = (unsigned char)(number >> 8), at[3] = (unsigned char)number;
}

static void ask(struct secure *own, const unsigned char *frame, size_t bytes, enum step next) {
    if (secure_send(own, frame, bytes) != (ssize_t)bytes) give_up_tls("the login was not taken");
    own->step = next, own->came_bytes = 0;
}

static void sign(const struct secure *own, int key, unsigned char *signature) {
    const unsigned char *bytes = (const unsigned char *)own->signed_;
    openssl.HMAC(openssl.EVP_sha256(), login->keys.at + key * KEY_BYTES, KEY_BYTES, bytes, own->signed_bytes,
                 signature, NULL);
}

/* What the server says of itself: the token of its answer. */
static struct blob token_of(const struct secure *own) {
    size_t at = MESSAGE_AT + 2;
    int16_t message = (int16_t)(own->came[MESSAGE_AT] << 8 | own->came[MESSAGE_AT + 1]);
    if (message > 0) at += (size_t)message;
    struct blob token = {0, (unsigned char *)own->came + at + 4};
    if (at + 4 <= own->came_bytes) token.bytes = read_u32(own->came + at);
    if (token.bytes > own->came_bytes - at - 4) give_up("the login", "an answer that cannot be read");
    return token;
}

static void prove(struct secure *own) {
    unsigned char proof[KEY_BYTES], encoded[2 * KEY_BYTES], frame[TEXT_BYTES];
    char without_proof[TEXT_BYTES];
    struct blob challenge = token_of(own);
    const char *text = (const char *)challenge.at, *comma = memchr(text, ',', challenge.bytes);
    if (comma == NULL || strncmp(text, "r=", 2)) give_up("the login", "no challenge");
    int without = snprintf(without_proof, sizeof without_proof / 2, "c=biws,%.*s", (int)(comma - text), text);
    own->signed_bytes = (size_t)snprintf(own->signed_, sizeof own->signed_, "%.*s,%.*s,%.*s", (int)login->bare.bytes,
                                         (const char *)login->bare.at, (int)challenge.bytes, text, without,
                                         without_proof);
    sign(own, 1, proof);
    for (int byte = 0; byte < KEY_BYTES; byte++) proof[byte] ^= login->keys.at[byte];
    openssl.EVP_EncodeBlock(encoded, proof, KEY_BYTES);
    size_t head = login->final.bytes;
    memcpy(frame, login->final.at, head);
    int token = snprintf((char *)frame + head + 4, sizeof frame - head - 4, "%.*s,p=%s", without, without_proof,
                         (const char *)encoded);
    write_u32(frame + head, (uint32_t)token);
    write_u32(frame, (uint32_t)(head + (size_t)token)); /* The token's length is in it, its own is not. */
    ask(own, frame, head + 4 + (size_t)token, HAS_PROVEN);
}

static void verify(const struct secure *own) {
    unsigned char signature[KEY_BYTES], encoded[2 * KEY_BYTES];
    sign(own, 2, signature);
    size_t bytes = (size_t)openssl.EVP_EncodeBlock(encoded, signature, KEY_BYTES);
    struct blob token = token_of(own);
    if (token.bytes != 2 + bytes || memcmp(token.at, "v=", 2) || memcmp(token.at + 2, encoded, bytes))
        give_up("the login", "the server does not have the keys");
}

static void on_answer(struct secure *own) {
    int error = own->came[ERROR_AT] << 8 | own->came[ERROR_AT + 1];
    char reason[32];
    snprintf(reason, sizeof reason, "error code %d", error);
    if (error) give_up("the login was refused", reason);
    if (own->step == HAS_ASKED)
        ask(own, login->first.at, login->first.bytes, HAS_BEGUN);
    else if (own->step == HAS_BEGUN)
        prove(own);
    else {
        verify(own);
        own->step = IS_IN;
    }
}

enum progress secure_log_in(struct secure *own) {
    openssl.ERR_clear_error();
    if (own->step == SHAKES_HANDS) {
        if (outcome(own, openssl.SSL_connect(own->ssl)) <= 0) {
            if (errno != EAGAIN) give_up_tls("the TLS handshake failed");
            return WAITS;
        }
        ask(own, login->handshake.at, login->handshake.bytes, HAS_ASKED);
    }
    while (own->step != IS_IN) {
        ssize_t got = secure_recv(own, own->came + own->came_bytes, sizeof own->came - own->came_bytes);
        if (got < 0 && errno == EAGAIN) return WAITS;
        if (got <= 0) give_up_tls("the login failed");
        own->came_bytes += (size_t)got;
        if (own->came_bytes > ERROR_AT + 1 && own->came_bytes >= 4 + (size_t)read_u32(own->came)) on_answer(own);
    }
    return IS_DONE;
}
