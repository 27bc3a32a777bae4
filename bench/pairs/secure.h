/* TLS 1.3 with a login by SCRAM-SHA-256, on sockets that do not wait; generator.c is what uses it. */
#ifndef SECURE_H
#define SECURE_H

#include <stddef.h>
#include <sys/types.h>

enum progress { WAITS, IS_DONE };

struct blob {
    size_t bytes;
    unsigned char *at;
};

/* How each connection logs in. `final` ends before its token; `keys` are the client's, the stored and the server's. */
struct login {
    struct blob authority, handshake, first, final, bare, keys;
};

struct secure;

/* Load OpenSSL, and trust the authority. All of these end the program if they fail, and say why. */
void secure_begin(const struct login *login);
struct secure *secure_new(int fd);
/* Take the handshake and the login as far as what has come allows. */
enum progress secure_log_in(struct secure *own);

/* As send and recv of a socket that does not wait: -1 with EAGAIN, or with another reason to close. */
ssize_t secure_send(struct secure *own, const void *data, size_t bytes);
ssize_t secure_recv(struct secure *own, void *into, size_t room);
/* Whether there are bytes that are off the socket and were not read. */
int secure_has_more(const struct secure *own);

#endif
